"""Statistics on one scale, and their soft maximum.

Under H0, T_m is about a weighted sum of χ², whose cube root is nearly normal (Wilson & Hilferty
1931), so z_m = (T_m^⅓ − mean) / standard deviation, and

    T = (1/s) log mean_m exp(s z_m),   s the sharpness.

Mean and deviation are those over a pool of labellings or, of one measure, those of the law of T_m.
"""

from typing import Any

import jax
import jax.numpy as jnp

_CONSTANT = 1e-5  # standard deviation / mean of T^⅓ below which it is rounding only


def fused(scores: jax.Array, sharpness: Any) -> jax.Array:
    """(1/s) log mean_m exp(s z_m) over the last axis."""
    return jax.nn.logsumexp(sharpness * scores, axis=-1, b=1 / scores.shape[-1]) / sharpness


def root_moments(prepared: tuple, sizes: Any) -> tuple[jax.Array, jax.Array]:
    """Mean and standard deviation of T^⅓ by the law of every member (Wilson & Hilferty); or 0."""
    total, squares = (
        jnp.concatenate(of) for of in zip(*(one.moments() for one in prepared), strict=True)
    )
    unit = jnp.cbrt(sizes * total)
    width = 2 * squares / (9 * jnp.where(total > 0, total, 1) ** 2)  # 2/9ν
    return unit * (1 - width), unit * jnp.sqrt(width)


def _speaks(mean: jax.Array, spread: jax.Array) -> jax.Array:
    return ~(spread <= _CONSTANT * mean)  # NaN speaks, and is found out


def z_scores(roots: jax.Array, mean: jax.Array, spread: jax.Array) -> jax.Array:
    """z; 0 of members that say nothing."""
    speaks = _speaks(mean, spread)
    return jnp.where(speaks, (roots - mean) / jnp.where(speaks, spread, 1), 0)


def z_slopes(roots: jax.Array, mean: jax.Array, spread: jax.Array) -> jax.Array:
    """∂z/∂T."""
    speaks = _speaks(mean, spread)
    floor = jnp.maximum(roots, 1e-3 * mean)
    return jnp.where(speaks, 1 / (3 * jnp.where(speaks, floor**2 * spread, 1)), 0)
