"""Gaussian samplers: mean shift, covariance shift, mixtures."""

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.normals import normal

Sample = tuple[jax.Array, jax.Array]


def mean_shift(
    key: jax.Array, n_x: int, n_y: int, *, delta: float | jax.Array, dim: int = 100
) -> Sample:
    """p = N(0, I), q = N(μ, I) with |μ| = δ, the same in every coordinate."""
    k_x, k_y = jax.random.split(key)
    x = normal(k_x, (n_x, dim))
    return x, normal(k_y, (n_y, dim)) + delta / jnp.sqrt(dim)


def covariance_shift(
    key: jax.Array, n_x: int, n_y: int, *, rho: float | jax.Array, dim: int = 100
) -> Sample:
    """p = N(0, I), q = N(0, I + ρE) with E the all-ones matrix: a factor √ρ common to all."""
    k_x, k_y, k_common = jax.random.split(key, 3)
    x = normal(k_x, (n_x, dim))
    common = jnp.sqrt(rho) * normal(k_common, (n_y, 1))
    return x, normal(k_y, (n_y, dim)) + common


def gaussian_mixture(
    key: jax.Array,
    n_x: int,
    n_y: int,
    *,
    example: int = 1,
    dim: int = 10,
    stratified: bool = False,
) -> Sample:
    """p = ½N(0, I) + ½N(½·1, I); q has the same two means and other covariances.

    Example 1: I, but ±½ between the first two coordinates, + in the first mode and − in the second
    (Liu et al. 2020). Example 2: I + 0.1·E in both modes, E all-ones with zeros on the diagonal.

    Args:
        key: A JAX key.
        n_x: Samples of p.
        n_y: Samples of q.
        example: 1 or 2; it fixes the program, so it is no parameter to trace.
        dim: Dimension d, at least 2.
        stratified: Whether each sample has exactly half of its points in each mode, in turn (the
            first mode has the odd one out), as in the code of Liu et al.; else each point draws its
            mode. Stratified points are not independent: the modes' share does not vary, nor does
            its part of the statistic, so a test calibrated for independent points is conservative.
    """
    if example not in (1, 2):
        raise ValueError(f"example must be 1 or 2; got {example!r}")
    if dim < 2:
        raise ValueError(f"the mixture needs dim of at least 2; got {dim}")
    k_x, k_y, k_modes, k_common = jax.random.split(key, 4)
    if stratified:
        second = (jnp.concatenate([jnp.arange(n_x), jnp.arange(n_y)]) % 2 == 1)[:, None]
    else:
        second = jax.random.bernoulli(k_modes, 0.5, (n_x + n_y, 1))
    mean = jnp.where(second, 0.5, 0.0)
    x = normal(k_x, (n_x, dim)) + mean[:n_x]
    y = normal(k_y, (n_y, dim))
    if example == 1:
        r = jnp.where(second[n_x:, 0], -0.5, 0.5)
        y = y.at[:, 1].set(r * y[:, 0] + jnp.sqrt(1 - r**2) * y[:, 1])
    else:  # I + 0.1·E = 0.9·I + 0.1·11ᵀ: a factor common to all coordinates
        y = jnp.sqrt(0.9) * y + jnp.sqrt(0.1) * normal(k_common, (n_y, 1))
    return x, y + mean[n_x:]
