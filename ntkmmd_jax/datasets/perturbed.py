"""The perturbed uniform density, which has bumps of either sign in every cell of a grid.

    f_θ(u) = 1 + a Σ_ν θ_ν Π_i e G(P u_i − ν_i)   on [0, 1]^d, ν ∈ {1, …, P}^d, θ_ν = ±1,
    G(t) = exp(−1 / (1 − (4t + 3)²)) on (−1, −½), −exp(−1 / (1 − (4t + 1)²)) on (−½, 0), else 0,

of the lower bound of Li & Yuan (2019) and the experiments of Schrab et al. (2023), whose factor of
the sum is here a·e^d: e G reaches from −1 to 1, so that a is the share of the largest bumps that
leave a density (as in Biggs, Schrab & Gretton 2023).
"""

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax.datasets.gaussian import Sample


def perturbed_uniform(
    key: jax.Array,
    n_x: int,
    n_y: int,
    *,
    amplitude: float | jax.Array,
    perturbations: int = 2,
    dim: int = 1,
) -> Sample:
    """p = U([0, 1]^d), q = f_θ (above), with signs θ_ν drawn anew in every call.

    Exact, without rejection: f_θ = 1 + δ, and δ changes sign when u is mirrored in the middle of
    its cell in one coordinate. So draw u uniformly, keep it with probability (1 + δ(u)) / 2, and
    else take its mirror image.

    Args:
        key: A JAX key.
        n_x: Samples of p.
        n_y: Samples of q.
        amplitude: a in [0, 1]; 0 is H0.
        perturbations: P, cells per coordinate.
        dim: Dimension d.
    """
    whole("perturbations", perturbations)
    whole("dim", dim)
    if isinstance(amplitude, int | float) and not 0 <= amplitude <= 1:
        raise ValueError(f"amplitude must lie in [0, 1]; got {amplitude}")
    k_x, k_y, k_signs, k_keep = jax.random.split(key, 4)
    u = jax.random.uniform(k_y, (n_y, dim))
    signs = jax.random.rademacher(k_signs, (perturbations,) * dim, dtype=u.dtype)
    kept = 2 * jax.random.uniform(k_keep, (n_y,)) < 1 + amplitude * bumps(u, signs)
    mirrored = 2 * _middle(u[:, 0], perturbations) - u[:, 0]
    y = u.at[:, 0].set(jnp.where(kept, u[:, 0], mirrored))
    return jax.random.uniform(k_x, (n_x, dim)), y


def bumps(u: jax.Array, signs: jax.Array) -> jax.Array:
    """Σ_ν θ_ν Π_i e G(P u_i − ν_i) of points u (n, d) for signs θ (P, …, P), shape (n,)."""
    p = len(signs)
    middle = _middle(u, p)
    r = p * (u - middle)  # t + ½, in which G is odd: in [−½, ½], but for rounding
    room = 8 * jnp.abs(r) * jnp.maximum(1 - 2 * jnp.abs(r), 0)  # 1 − (4|r| − 1)²
    bump = jnp.exp(1 - 1 / room)
    cell = (p * middle).astype(int)
    return signs[tuple(cell.T)] * jnp.prod(-jnp.sign(r) * bump, axis=1)


def _middle(u: jax.Array, p: int) -> jax.Array:
    """The middle of the cell of width 1/P that u is in."""
    return (jnp.minimum(jnp.floor(p * u), p - 1) + 0.5) / p
