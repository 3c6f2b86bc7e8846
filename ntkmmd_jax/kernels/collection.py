"""A collection of kernels: Gaussian and Laplace, each at several bandwidths.

    exp(−|x − x'|₂² / 2σ²)  and  exp(−√2 |x − x'|₁ / σ),

as in MMD-FUSE (Biggs, Schrab & Gretton 2023). The bandwidths reach from half the 5 % quantile to
twice the 95 % quantile of the distances between points, in the norm of the kernel. A collection is
an array (2, k) of them: first the k Gaussian ones, then the k Laplace ones.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.padding import cleared
from ntkmmd_jax.kernels.gaussian import ranked, sorted_ranks

QUANTILES = (0.05, 0.95)
_FEW = 2**16  # distances up to which they are sorted


def distances(x1: jax.Array, x2: jax.Array) -> tuple[jax.Array, jax.Array]:
    """|x − x'|₂² and |x − x'|₁, each of shape (n1, n2).

    By coordinates, without products: 0 where points coincide, and exact to rounding between points
    that are close to each other and far from the others.
    """
    x1, x2 = (x.reshape(len(x), -1).T for x in (x1, x2))  # (d, n)

    def add(totals: tuple, coordinate: tuple) -> tuple[tuple, None]:
        gap = coordinate[0][:, None] - coordinate[1]
        return (totals[0] + gap**2, totals[1] + jnp.abs(gap)), None

    zero = jnp.zeros((x1.shape[1], x2.shape[1]), x1.dtype)
    return jax.lax.scan(add, (zero, zero), (x1, x2), unroll=min(8, len(x1)))[0]


def exponents(x1: jax.Array, x2: jax.Array) -> tuple[jax.Array, jax.Array]:
    """½ |x − x'|₂² and √2 |x − x'|₁: a kernel is exp(−rate · exponent), see `rates`.

    Args:
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...).
    """
    squared, absolute = distances(x1, x2)
    return 0.5 * squared, math.sqrt(2) * absolute


def rates(bandwidths: jax.Array) -> jax.Array:
    """1/σ² of the Gaussian kernels and 1/σ of the Laplace kernels, shape (2, k).

    Args:
        bandwidths: σ of both families, shape (2, k).
    """
    return jnp.stack([1 / bandwidths[0] ** 2, 1 / bandwidths[1]])


def collection_bandwidths(
    points: jax.Array, count: int, *, geometric: bool, n: Any = None
) -> jax.Array:
    """The bandwidths σ of both families, shape (2, count).

    Args:
        points: Points without labels, shape (n, ...).
        count: How many of each.
        geometric: Whether each is the same multiple of the one before; else, the same step away.
        n: How many of the points are real; all, by default.
    """
    norms = distances(points, points)
    spaced = (_spaced(of, count, geometric, n) for of in (jnp.sqrt(norms[0]), norms[1]))
    return jnp.stack(list(spaced))


def family_bandwidths(
    points: jax.Array, family: int, count: int, *, geometric: bool, n: Any = None
) -> jax.Array:
    """Those of one family only, shape (count,): 0 of the Gaussian one, 1 of the Laplace one."""
    norm = distances(points, points)[family]
    return _spaced(norm if family else jnp.sqrt(norm), count, geometric, n)


def _spaced(of_pairs: jax.Array, count: int, geometric: bool, n: Any) -> jax.Array:
    """From half the 5 % to twice the 95 % quantile of the distances that are not 0."""
    n = len(of_pairs) if n is None else n
    of_pairs = cleared(cleared(of_pairs, n), n, axis=1)
    apart = of_pairs > 0
    some = jnp.sum(jnp.sum(apart.astype(int), axis=1))
    apart_only = jnp.where(apart, of_pairs, jnp.inf)
    shares = jnp.asarray(QUANTILES, of_pairs.dtype) * some.astype(of_pairs.dtype)
    ranks = jnp.floor(shares).astype(int)
    few = of_pairs.size <= _FEW
    low, high = (
        sorted_ranks(apart_only, ranks) if few else [ranked(apart_only, rank) for rank in ranks]
    )
    # All points may coincide: then any scale is as good.
    low, high = jnp.where(some > 0, low / 2, 1), jnp.where(some > 0, 2 * high, 1)
    steps = jnp.arange(count, dtype=of_pairs.dtype) / (count - 1)
    if geometric:
        return low * jnp.exp(steps * jnp.log(high / low))
    return low + steps * (high - low)
