"""Least squares for a finite time, linearised: the exact witness of a filtered measure.

Gradient flow of ½ Σ |w_i| (h(z_i) − s_i)² from h = 0, with the tangent kernel K_0 as it is at θ0,
eigenvalues λ_l and eigenfunctions u_l over the measure |w|, has reached at time t

    h_t(x) = Σ_l (1 − exp(−t λ_l)) ⟨s, u_l⟩ u_l(x) = t Σ_i K_0(x, z_i) w_i(t),
    w(t) = W^½ Φ(t W^½ K_0 W^½) W^½ s,   W = diag |w|,   Φ(x) = (1 − exp(−x)) / x.

So it is the exact witness with the weights w(t) for w: those of the linear loss, w, at t → 0, and
of what fits the labels ±1 as t → ∞. The filter is that of `kernels.filtered`, in matrix products.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.checks import positive
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax.kernels import empirical_ntk
from ntkmmd_jax.kernels.filtered import filter_at, largest_eigenvalue
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Params, as_network
from ntkmmd_jax.training.losses import named_loss
from ntkmmd_jax.witness import Witness, exact_witness


def finite_time_witness(
    network: Any, params: Params, measure: SignedMeasure, time: Any, *, loss: str = "l2"
) -> Witness:
    """h_t / t of training for time t at infinite width's pace: exact, with the NTK at θ0.

    As `trained_witness` gives it with `SGD(loss="l2")`, up to what the kernel moves while training
    (`compare_widths`) and the length of the steps. In float32 for t λ_1 up to about 10⁶.

    Args:
        network: A network of ours or an `(init, apply)` pair.
        params: θ0, as `network.init` draws it.
        measure: Training points and weights; the kernel matrix of them is held.
        time: t > 0; may be traced.
        loss: "l2", or "linear", whose witness is `exact_witness` at all times. There is no closed
            form for "logistic".

    Example:
        >>> import ntkmmd_jax as ntk
        >>> network, x, y = ntk.mlp(16), jnp.ones((6, 2)), jnp.zeros((4, 2))
        >>> params = network.init(jax.random.key(0), x)
        >>> g = finite_time_witness(network, params, ntk.signed_measure(x, y), 1e4)
        >>> [round(float(1e4 * g(z)[0]), 2) for z in (x, y)]
        [1.0, -1.0]
    """
    network = as_network(network)
    named_loss(loss)
    positive("time", time)
    if loss == "linear":
        return exact_witness(network, params, measure)
    if loss != "l2":
        raise ValueError(
            f"the {loss} loss has no closed form at a finite time: train it, as "
            f"trained_witness(..., SGD(loss={loss!r})), or take loss='l2'"
        )
    kernel = empirical_ntk(network, params, measure.points)
    return exact_witness(network, params, filtered_measure(kernel, measure, time))


@jit
def filtered_measure(kernel: jax.Array, measure: SignedMeasure, time: Any) -> SignedMeasure:
    """The same points at the weights w(t), from the kernel matrix K_0 of them."""
    root = jnp.sqrt(jnp.abs(measure.weights))
    filtered = filter_at(root[:, None] * kernel * root, time)
    return SignedMeasure(measure.points, root * (filtered @ (root * jnp.sign(measure.weights))))


@jit
def fastest_rate(kernel: jax.Array, weights: jax.Array) -> jax.Array:
    """λ_1 of K_0 over the measure |w|: steps of gradient descent must be shorter than 2/λ_1."""
    root = jnp.sqrt(jnp.abs(weights))
    return largest_eigenvalue(root[:, None] * kernel * root)
