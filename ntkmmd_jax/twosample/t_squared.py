"""Hotelling's T² on the span of the data, also where features depend on each other.

    T² = (n_X n_Y / n) δᵀ S⁺ δ,   δ = x̄ − ȳ,   S the pooled covariance over n − 2.

A feature that within the samples, about their own means, is a linear function of the features
before it (a constant one, a copy, a sum) is dropped: S is regular on the r that are kept. Where δ
obeys the same relations, T² does not depend on which ones stand for the others.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.precision import pinned
from ntkmmd_jax.pooled import Pooled


@pinned
def t_squared(samples: Pooled) -> tuple[jax.Array, jax.Array, jax.Array]:
    """T², the direction S⁺ (x̄ − ȳ) and the rank r of S, of samples (n_X + n_Y, d).

    The direction is 0 in dropped features. T² is NaN if δ is outside of the span: if a dropped
    feature breaks, between the samples, the relation that it obeys within them.
    """
    points, d = samples.points, samples.points.shape[1]
    n_x, n_y = padding.number(samples.n_x), padding.number(samples.n_y)
    n = n_x + n_y
    size = jnp.max(jnp.abs(points), axis=0)
    # A power of two: it rounds nothing, and no square overflows or vanishes.
    power = jnp.where(size == 0, 1, 4 * jnp.frexp(size)[0] / size)
    points, size = points * power, size * power
    points = points - padding.mean(points, samples.n)  # far from the origin, means lose digits
    samples = dataclasses.replace(samples, points=points)
    (mean_x, mean_y), residuals = samples.means, samples.residuals
    # In units of its own spread every feature counts alike; one without spread has its size.
    spread = jnp.sqrt(jnp.sum(residuals**2, axis=0) / (n - 2))
    rounding = 8 * jnp.finfo(points.dtype).eps
    varies = spread > rounding * size
    unit = jnp.where(varies, spread, jnp.where(size == 0, 1, size))
    noise = rounding * (size / unit + jnp.where(varies, math.sqrt(d), 0))
    z = jnp.where(varies, residuals / (unit * jnp.sqrt(jnp.asarray(n - 2, unit.dtype))), 0)
    root, noise = triangular_root(z, noise)
    kept = jnp.diagonal(root) > 0
    gap = (mean_x - mean_y) / unit
    regular = jnp.where(kept, root, jnp.eye(d, dtype=points.dtype))
    half = solve_triangular(regular, jnp.where(kept, gap, 0), trans="T")  # S = RᵀR in these units
    length2 = jnp.vdot(half, half)
    # A relation carries its noise, seen at the distance that the kept features are apart.
    broken = jnp.abs(gap - half @ root)
    spanned = jnp.all(kept | (broken <= noise * jnp.sqrt(1 + length2)))
    statistic = jnp.where(spanned, n_x * n_y / n * length2, jnp.nan)
    direction = solve_triangular(regular, half) / unit * power
    return statistic, direction, jnp.sum(kept)


def triangular_root(z: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The upper triangular R with RᵀR = zᵀz, with a row of zeros for each dependent column.

    Cholesky, three times over: z R⁻¹ is ever closer to orthogonal, so that in the end R has the
    digits of a QR factorisation, in matrix products. The first time a shift keeps it from failing
    (Fukaya et al. 2020, shifted CholeskyQR3); the second time dependent columns are found.

    Args:
        z: Columns of length 1, or 0, shape (n, d).
        noise: What rounding may have added to each column, shape (d,).

    Returns:
        R, whose pivots are positive for independent columns and else 0; and the noise of each
        column together with that of the columns that it is compared with.
    """
    shift = 4 * z.shape[1] * jnp.finfo(z.dtype).eps
    first = jnp.linalg.cholesky(z.T @ z + shift * jnp.eye(z.shape[1], dtype=z.dtype)).T
    first_inverse = _inverse(first)
    z = z @ first_inverse
    second, second_inverse, noise = independent_root(z.T @ z, first, first_inverse, noise)
    z = z @ second_inverse
    dropped = (jnp.diagonal(second) == 0).astype(z.dtype)
    third = jnp.linalg.cholesky(z.T @ z + jnp.diag(dropped)).T
    return third @ (second @ first), noise


def independent_root(
    gram: jax.Array, first: jax.Array, first_inverse: jax.Array, noise: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The upper triangular B with BᵀB = gram, zero in the rows of columns that depend on others.

    Column j of z is the sum of c_k times the columns k before it and of a rest, whose length is
    the pivot of B A, A the `first` factor of z. It depends on them if rounding explains the rest:

        pivot_j ≤ (noise_j² + Σ_k (c_k noise_k / 4)²)^½.

    A pivot is a root mean square; a quarter of the noise is still seven times that of rounding.

    Returns:
        B, its inverse on the independent columns and 0 on the others, and the right-hand sides.
    """
    d = len(gram)
    places = jnp.arange(d)

    def step(j: jax.Array, state: tuple) -> tuple:
        root, inverse, total = state
        here = (places == j).astype(gram.dtype)  # no indices: under vmap they would be gathers
        column, into = root @ here, first @ here
        rest = jnp.where(places < j, 0, here @ gram - column @ root)
        pivot = jnp.sqrt(jnp.maximum(rest @ here, 0))
        coefficients = first_inverse @ (inverse @ (root @ into))
        total_j = jnp.linalg.norm((here - coefficients / 4) * noise)
        kept = pivot * (into @ here) > total_j
        return (
            root + jnp.where(kept, jnp.outer(here, rest / pivot), 0),
            inverse + jnp.where(kept, jnp.outer(here - inverse @ column, here / pivot), 0),
            total + total_j * here,
        )

    # Where no column depends on others, which is the rule, all columns are done at once.
    root = jnp.linalg.cholesky(gram).T
    inverse = _inverse(root)
    shares = (
        jnp.where(jnp.eye(d, dtype=bool), 1, 1 / 4) * noise[:, None] * (first_inverse @ inverse)
    )
    regular = jnp.all(jnp.sum(shares**2, axis=0) < 1)  # where Cholesky has failed, NaN: not
    start = jax.tree.map(
        lambda done: jnp.where(regular, done, 0), (root, inverse, jnp.zeros_like(noise))
    )
    return jax.lax.fori_loop(jnp.where(regular, d, 0), d, step, start)


def _inverse(root: jax.Array) -> jax.Array:
    """R⁻¹, of an upper triangular R: products with it are faster than solving for each point."""
    return solve_triangular(root.T, jnp.eye(len(root), dtype=root.dtype), lower=True).T
