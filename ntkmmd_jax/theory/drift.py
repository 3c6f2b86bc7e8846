"""How far the kernel moves while the network trains: the lemma, measured and bounded.

Lemma (Cheng & Xie 2021): if f is C² and |∇f| ≤ L_f, then for t < r/(2 L_f), θ(t) stays within r of
θ0, and sup |K_t − K_0| ≤ C t with C = 4 sup |D²f| (sup |∇f|)²; hence |T_net(t) − T_NTK| ≤ 2 C t.
Discrete time, plain SGD: |θ_k − θ0| ≤ 2 L_f α k/n for samples of equal size.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.normals import normal
from ntkmmd_jax._lib.points import as_points, as_samples, check_finite
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.quotient import quotient
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.networks import Network, Params, as_network, mlp
from ntkmmd_jax.theory.convergence import fitted_slope, training_times
from ntkmmd_jax.training import SGD, trained_witness, trajectory
from ntkmmd_jax.witness import inner


@record
class KernelDrift:
    """sup |K_t − K_0| over pairs of points, for several training times."""

    times: jax.Array  # (k,)
    drift: jax.Array  # (k,)
    scale: jax.Array  # sup |K_0| over the same points
    order: jax.Array  # slope of log drift against log t; 1 in theory

    def __repr__(self) -> str:
        rows = zip(self.times.tolist(), (self.drift / self.scale).tolist(), strict=True)
        lines = [f"{'t':>8}  sup |K_t - K_0| / sup |K_0|", *(f"{t:8.0e}  {d:.2e}" for t, d in rows)]
        return "\n".join([*lines, f"fitted order: {float(self.order):.2f}"])


def kernel_drift(
    key: Any,
    x: Any,
    y: Any,
    *,
    network: Any = None,
    points: Any = None,
    times: Any = (1.0, 1e-1, 1e-2, 1e-3),
    batch_size: int | None = 1,
) -> KernelDrift:
    """Train for several times t and measure how far the kernel has moved, and with which order.

    The gradients' change is taken as a whole (`quotient`), so nothing cancels at small t.

    Args:
        key: A JAX key or an int seed, for θ0 and the order of the samples.
        x: Sample of p to train on.
        y: Sample of q to train on.
        network: By default the paper's.
        points: Where to compare the kernels; by default the first 32 of x and of y.
        times: Training times, the learning rates of one pass.
        batch_size: Of the SGD; None for one full-batch step.
    """
    network = mlp() if network is None else as_network(network)
    x, y = as_samples(x, y)
    check_finite(x, "x")
    check_finite(y, "y")
    points = jnp.concatenate([x[:32], y[:32]]) if points is None else as_points(points)
    return _kernel_drift(as_key(key), x, y, points, training_times(times), network, batch_size)


@jit(static_argnums=(5, 6))
def _kernel_drift(
    key: jax.Array,
    x: jax.Array,
    y: jax.Array,
    points: jax.Array,
    times: jax.Array,
    network: Network,
    batch_size: int | None,
) -> KernelDrift:
    k_init, k_train = jax.random.split(key)
    params, measure = network.init(k_init, x[:1]), signed_measure(x, y)
    f, theta = network.trainable(params)

    def features(at: Params) -> jax.Array:
        return _flat(jax.vmap(lambda z: point_gradient(f, at, z))(points))

    def change(moved: Params) -> jax.Array:
        """∇f(z; θ0 + moved) − ∇f(z; θ0) of every point."""

        def of_point(z: jax.Array) -> Params:
            return quotient(lambda at: point_gradient(f, at, z), theta, moved, 1.0)

        return _flat(jax.vmap(of_point)(points))

    def sup_drift(time: jax.Array) -> jax.Array:
        witness = trained_witness(k_train, network, params, measure, SGD(time, batch_size))
        moved = jax.tree.map(lambda leaf: witness.time * leaf, witness.velocity)
        first, by = features(theta), change(moved)
        cross = by @ first.T
        return jnp.max(jnp.abs(cross + cross.T + by @ by.T))

    drift = jax.lax.map(sup_drift, times)
    scale = jnp.max(jnp.sum(features(theta) ** 2, axis=1))
    return KernelDrift(times, drift, scale, fitted_slope(times, drift))


def point_gradient(f: Callable, at: Params, z: jax.Array) -> Params:
    """∇f(z; θ) at one point z."""
    return jax.grad(lambda at: f(at, z[None])[0])(at)


@record
class LemmaConstants:
    """The lemma's constants, as large as they are at θ0 on the points given."""

    gradient: jax.Array  # sup |∇f|, L_f
    hessian: jax.Array  # sup of the operator norm |D²f|
    constant: jax.Array  # C = 4 |D²f| |∇f|²
    time: jax.Array  # r/(2 L_f): the bound C t is for shorter times


def lemma_constants(
    network: Any, params: Params, points: Any, *, radius: float = 1.0, iterations: int = 50
) -> LemmaConstants:
    """Estimate L_f, |D²f| and C at θ0, and the range of times of the lemma.

    The suprema over a ball around θ0 are taken at its centre: for a ball of radius r they are
    larger by O(r). |D²f| is found by power iteration with Hessian-vector products.

    Args:
        network: The network.
        params: θ0.
        points: The domain 𝒳, as points.
        radius: r.
        iterations: Of the power iteration.
    """
    network, points = as_network(network), as_points(points)
    f, theta = network.trainable(params)

    @jit
    def curvature(z: jax.Array) -> jax.Array:
        """|D²f| at one point."""

        def power_step(_: int, carry: tuple[Params, jax.Array]) -> tuple[Params, jax.Array]:
            direction = carry[0]
            image = jax.jvp(lambda at: point_gradient(f, at, z), (theta,), (direction,))[1]
            norm = jnp.sqrt(inner(image, image))
            return jax.tree.map(lambda leaf: leaf / jnp.maximum(norm, 1e-30), image), norm

        leaves, structure = jax.tree.flatten(theta)
        keys = jax.random.split(jax.random.key(0), len(leaves))
        noise = [normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
        start = jax.tree.unflatten(structure, noise)  # orthogonal to no eigenvector
        return jax.lax.fori_loop(0, iterations, power_step, (start, jnp.zeros(())))[1]

    gradient = steepest_gradient(network, params, points)
    hessian = jax.lax.map(curvature, points).max()
    return LemmaConstants(gradient, hessian, 4 * hessian * gradient**2, radius / (2 * gradient))


@jit(static_argnums=0)
def steepest_gradient(network: Network, params: Params, points: jax.Array) -> jax.Array:
    """max |∇f(z; θ)| over the points z."""
    f, theta = network.trainable(params)

    def length(z: jax.Array) -> jax.Array:
        gradient = point_gradient(f, theta, z)
        return jnp.sqrt(inner(gradient, gradient))

    return jax.lax.map(length, points).max()


@record
class SGDDisplacement:
    """|θ_k − θ0| along one pass of SGD, beside its bound."""

    counts: np.ndarray  # (k,) samples visited
    distance: jax.Array  # (k,) |θ_k − θ0|
    bound: jax.Array  # (k,) L_f α Σ |w_i| over the samples visited: 2 L_f α k/n if n_X = n_Y


def sgd_displacement(
    key: Any,
    x: Any,
    y: Any,
    *,
    network: Any = None,
    learning_rate: float = 0.1,
    every: int = 1,
) -> SGDDisplacement:
    """Follow |θ_k − θ0| along one pass of batch-1 SGD, and its bound 2 L_f α k/n.

    L_f is the largest gradient norm of the samples at θ0 and at the end of the pass.

    Args:
        key: A JAX key or an int seed.
        x: Sample of p to train on.
        y: Sample of q to train on.
        network: By default the paper's.
        learning_rate: α.
        every: Samples between two measurements.
    """
    network = mlp() if network is None else as_network(network)
    x, y = as_samples(x, y)
    k_init, k_train = jax.random.split(as_key(key))
    params, measure = network.init(k_init, x[:1]), signed_measure(x, y)
    sgd = SGD(learning_rate)
    path = trajectory(k_train, network, params, measure, sgd, every=every)
    moved = jax.vmap(lambda v, t: t * jnp.sqrt(inner(v, v)))(path.velocity, path.time)
    ends = (params, path[-1].params_at())
    steepest = max(steepest_gradient(network, at, measure.points) for at in ends)
    visited = jnp.cumsum(jnp.abs(sgd.batches(k_train, measure.weights).weights.ravel()))
    counts = np.asarray(path.counts)
    return SGDDisplacement(counts, moved, steepest * learning_rate * visited[counts - 1])


def _flat(tree: Params) -> jax.Array:
    """The leaves of a batch of parameter vectors side by side, shape (n, parameters)."""
    leaves = jax.tree.leaves(tree)
    return jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)
