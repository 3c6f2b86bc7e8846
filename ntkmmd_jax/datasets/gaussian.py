"""Gaussian samplers: mean shift, covariance shift, mixtures and blobs."""

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.normals import normal

Sample = tuple[jax.Array, jax.Array]


def mean_shift(
    key: jax.Array, n_x: int, n_y: int, *, delta: float | jax.Array, dim: int = 100
) -> Sample:
    """p = N(0, I), q = N(μ, I) with |μ| = δ, the same in every coordinate.

    Args:
        key: A JAX key.
        n_x: Samples of p.
        n_y: Samples of q.
        delta: δ; 0 is H0.
        dim: Dimension d.

    Example:
        >>> x, y = mean_shift(jax.random.key(0), 30, 20, delta=1.0, dim=3)
        >>> x.shape, y.shape
        ((30, 3), (20, 3))
    """
    k_x, k_y = jax.random.split(key)
    x = normal(k_x, (n_x, dim))
    return x, normal(k_y, (n_y, dim)) + delta / jnp.sqrt(dim)


def covariance_shift(
    key: jax.Array, n_x: int, n_y: int, *, rho: float | jax.Array, dim: int = 100
) -> Sample:
    """p = N(0, I), q = N(0, I + ρE) with E the all-ones matrix: a factor √ρ common to all.

    Args:
        key: A JAX key.
        n_x: Samples of p.
        n_y: Samples of q.
        rho: ρ; 0 is H0.
        dim: Dimension d.
    """
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


def mixture4(key: jax.Array, n_x: int, n_y: int, *, sigma: float | jax.Array) -> Sample:
    """p = ¼ Σ N((±20, ±20), I); q the same, but N((−20, −20), σ²I) in one of the four modes, d = 2.

    The mixture of Biggs, Schrab & Gretton (2023).

    Args:
        key: A JAX key.
        n_x: Samples of p.
        n_y: Samples of q.
        sigma: σ; 1 is H0.
    """
    k_x, k_y, k_modes = jax.random.split(key, 3)
    signs = jax.random.rademacher(k_modes, (n_x + n_y, 2), dtype=jnp.result_type(float))
    changed = jnp.all(signs[n_x:] < 0, axis=1, keepdims=True)
    y = jnp.where(changed, sigma, 1) * normal(k_y, (n_y, 2))
    return normal(k_x, (n_x, 2)) + 20 * signs[:n_x], y + 20 * signs[n_x:]


def blobs(key: jax.Array, n_x: int, n_y: int, *, strength: float | jax.Array = 1.0) -> Sample:
    """p = ⅑ Σ_i N(m_i, 0.03 I) with m_i = (⌊i/3⌋, i mod 3), i = 0 to 8; q has covariances c_i too.

    c_i = −0.02 − 0.002 i before the blob in the middle, 0 in it, 0.02 + 0.002 (i − 5) after it:
    the Blob problem of Liu et al. (2020), as their paper states it. (Their code takes L for Lᵀ in
    the Cholesky factor, which makes the variances unequal as well.)

    Args:
        key: A JAX key.
        n_x: Samples of p.
        n_y: Samples of q.
        strength: A factor of all c_i, at most 1.15; 0 is H0.
    """
    k_x, k_y, k_modes = jax.random.split(key, 3)
    mode = jax.random.randint(k_modes, (n_x + n_y,), 0, 9)
    mean = jnp.stack([mode // 3, mode % 3], axis=1).astype(jnp.result_type(float))
    i = jnp.arange(9, dtype=mean.dtype)
    covariance = jnp.sign(i - 4) * (0.02 + 0.002 * jnp.where(i < 4, i, i - 5))
    r = strength * covariance[mode[n_x:]] / 0.03
    z = normal(k_y, (n_y, 2))
    y = jnp.stack([z[:, 0], r * z[:, 0] + jnp.sqrt(1 - r**2) * z[:, 1]], axis=1)
    x = normal(k_x, (n_x, 2))
    return jnp.sqrt(0.03) * x + mean[:n_x], jnp.sqrt(0.03) * y + mean[n_x:]
