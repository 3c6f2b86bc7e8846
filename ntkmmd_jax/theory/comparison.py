"""Trained against exact: the relative error |T̂_net(t) − T̂_NTK| / |T̂_NTK|, which is O(t).

At small t the two differ by less than float32 resolves, so their difference is not taken between
the two numbers. With F(θ) = Σ w_i f(z_i; θ), v_0 = ∇F(θ0) and v the trained velocity,

    T̂_net(t) − T̂_NTK = ⟨v − v_0, v_0⟩ + (F(θ0 + t v) − F(θ0))/t − ∂_v F(θ0),

where v − v_0 is a sum along the SGD of differences ∇F(θ) − ∇F(θ0), a batch each. Both are taken
as a whole, without cancellation and across kinks (`quotient`).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_samples, check_finite
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import working
from ntkmmd_jax._lib.quotient import displaced, quotient, remainder
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.measure import SignedMeasure, Visits, mean_gap
from ntkmmd_jax.networks import Network, Params, as_network, mlp
from ntkmmd_jax.pooled import Pooled, in_bucket, pooled
from ntkmmd_jax.theory.convergence import fitted_slope, training_times
from ntkmmd_jax.training import SGD, trained_witness
from ntkmmd_jax.witness import Witness, exact_witness, inner

_PADDED = 4096  # points up to which samples share programs: beyond, training takes longest


@record
class Comparison:
    """T̂_net(t) and T̂_NTK of the same network on the same data."""

    times: jax.Array  # (k,) training times t, the learning rates of one pass
    t_net: jax.Array  # (k,) T̂_net(t)
    t_ntk: jax.Array  # () T̂_NTK, exact
    relative_error: jax.Array  # (k,)
    order: jax.Array  # () slope of log error against log t

    def __repr__(self) -> str:
        lines = [f"T_NTK = {float(self.t_ntk):.7g}", f"{'t':>8}  {'T_net(t)':>12}  relative error"]
        rows = zip(
            self.times.tolist(), self.t_net.tolist(), self.relative_error.tolist(), strict=True
        )
        lines += [f"{t:8.0e}  {value:12.7g}  {error:.2e}" for t, value, error in rows]
        return "\n".join([*lines, f"fitted order of the error in t: {float(self.order):.2f}"])

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain numbers, ready for JSON."""
        names = ("times", "t_net", "t_ntk", "relative_error", "order")
        return {name: np.asarray(getattr(self, name)).tolist() for name in names}

    def plot(self, ax: Any = None) -> Any:
        """Draw the relative error over t with the fitted order; returns the matplotlib axes."""
        from ntkmmd_jax import plotting

        return plotting.comparison(self, ax=ax)


def compare(
    key: Any,
    x: Any,
    y: Any,
    *,
    network: Any = None,
    times: Any = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
    batch_size: int | None = 1,
) -> Comparison:
    """Train the network for several times t and compare with the exact NTK-MMD².

    Both are the symmetric statistics on all of x and y, from the same θ0; training is one pass of
    SGD in one random order, at learning rate t.

    Args:
        key: A JAX key or an int seed, for θ0 and the order.
        x: Sample of p, array-like, shape (n_X, ...).
        y: Sample of q, array-like, shape (n_Y, ...).
        network: A network of ours or an `(init, apply)` pair; by default the paper's.
        times: Training times t, all positive.
        batch_size: Of the SGD; None for one full-batch step.

    Example:
        >>> x, y = jnp.ones((6, 2)), jnp.zeros((4, 2))
        >>> found = compare(0, x, y, network=mlp(8), times=(0.1, 0.01))
        >>> found.relative_error.shape
        (2,)
    """
    x, y = as_samples(x, y)
    check_finite(x, "x")
    check_finite(y, "y")
    times = training_times(times)
    network = mlp() if network is None else as_network(network)
    samples = in_bucket(x, y) if len(x) + len(y) <= _PADDED else (x, y)
    with working("compare"):
        found = _compare(as_key(key), samples, times, network, batch_size)
        return jax.block_until_ready(found)


@jit(static_argnums=(3, 4))
def _compare(
    key: jax.Array,
    samples: tuple[jax.Array, jax.Array] | Pooled,
    times: jax.Array,
    network: Network,
    batch_size: int | None,
) -> Comparison:
    k_init, k_train = jax.random.split(key)
    both = pooled(samples)
    params, measure = network.init(k_init, both.points[:1]), both.measure
    scores = exact_witness(network, params, measure)(measure.points)
    t_ntk = mean_gap(scores, measure.weights)

    def at(time: jax.Array) -> tuple[jax.Array, jax.Array]:
        sgd = SGD(learning_rate=time, batch_size=batch_size)
        witness = trained_witness(k_train, network, params, measure, sgd, n=both.n)
        t_net = mean_gap(witness(measure.points), measure.weights)
        return t_net, _difference(k_train, witness, measure, sgd, both.n)

    t_net, difference = jax.lax.map(at, times)
    error = jnp.abs(difference) / jnp.abs(t_ntk)
    return Comparison(times, t_net, t_ntk, error, fitted_slope(times, error))


def _difference(
    key: jax.Array, witness: Witness, measure: SignedMeasure, sgd: SGD, n: Any
) -> jax.Array:
    """T̂_net(t) − T̂_NTK of a witness trained by one pass of SGD, with nothing cancelling."""
    f, theta = witness.network.trainable(witness.params)

    def integral(displacement: Params, batch: SignedMeasure) -> jax.Array:
        """F(θ0 + displacement), over a batch."""
        at = jax.tree.map(jnp.add, theta, displacement)
        return jnp.vdot(batch.weights, f(at, batch.points))

    def sgd_step(carry: tuple, visits: Visits) -> tuple[tuple, None]:
        (displacement, drift), batch = carry, visits.of(measure.points)
        gradient = lambda at: jax.grad(integral)(at, batch)  # noqa: E731
        change = quotient(gradient, zero, displacement, 1.0)  # this batch's part of v − v_0
        moved = displaced(displacement, gradient(displacement), sgd.learning_rate)
        return (moved, jax.tree.map(jnp.add, drift, change)), None

    def whole(at: Params) -> jax.Array:
        return integral(at, measure)

    zero = jax.tree.map(jnp.zeros_like, theta)
    steps = sgd.batches(key, measure.weights, n)
    (moved, drift), _ = jax.lax.scan(sgd_step, (zero, zero), steps)
    # `moved` is t v: along it the time is 1, and the remainder t times that along v.
    rest = remainder(whole, zero, moved, 1.0) / witness.time
    return inner(drift, jax.grad(whole)(zero)) + rest
