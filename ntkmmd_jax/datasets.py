"""Samplers `(key, n_x, n_y, **parameters) -> (x, y)` of the paper's experiments."""

import jax
import jax.numpy as jnp

Sample = tuple[jax.Array, jax.Array]


def mean_shift(key: jax.Array, n_x: int, n_y: int, *, delta: float, dim: int = 100) -> Sample:
    """p = N(0, I), q = N(μ, I) with |μ| = δ, the same in every coordinate."""
    k_x, k_y = jax.random.split(key)
    x = jax.random.normal(k_x, (n_x, dim))
    return x, jax.random.normal(k_y, (n_y, dim)) + delta / jnp.sqrt(dim)


def covariance_shift(key: jax.Array, n_x: int, n_y: int, *, rho: float, dim: int = 100) -> Sample:
    """p = N(0, I), q = N(0, I + ρE) with E the all-ones matrix: a factor √ρ common to all."""
    k_x, k_y, k_common = jax.random.split(key, 3)
    x = jax.random.normal(k_x, (n_x, dim))
    common = jnp.sqrt(rho) * jax.random.normal(k_common, (n_y, 1))
    return x, jax.random.normal(k_y, (n_y, dim)) + common
