"""The Gaussian kernel k(x, x') = exp(−|x − x'|² / 2σ²), with σ the median distance.

As of Gretton et al. (2012).
"""

from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.padding import cleared, is_full, mean
from ntkmmd_jax._lib.points import as_points
from ntkmmd_jax._lib.precision import pinned


def gaussian_kernel(x1: Any, x2: Any, bandwidth: Any) -> jax.Array:
    """k(x, x') = exp(−|x − x'|² / 2σ²), shape (n1, n2).

    Args:
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...).
        bandwidth: σ, or several of shape (k,): the mean of their kernels.
    """
    x1, x2 = as_points(x1, "x1"), as_points(x2, "x2")
    return gaussian_profile(squared_distances(x1, x2), bandwidth)


def gaussian_profile(squared: jax.Array, bandwidth: Any) -> jax.Array:
    """exp(−r² / 2σ²) of squared distances r²; the mean over several σ of shape (k,).

    Args:
        squared: r², of any shape.
        bandwidth: σ, or several of them.
    """
    sigmas = jnp.atleast_1d(jnp.asarray(bandwidth, squared.dtype))
    kernels = (jnp.exp(-0.5 * squared / sigma**2) for sigma in sigmas)
    return reduce(jnp.add, kernels) / len(sigmas)


@pinned
def squared_distances(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """|x − x'|² = |x|² + |x'|² − 2 x·x', shape (n1, n2): one matrix product.

    Args:
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...).
    """
    x1, x2 = (x.reshape(len(x), -1) for x in (x1, x2))
    centre = x2.mean(0)  # distances do not change, and less cancels
    x1, x2 = x1 - centre, x2 - centre
    norms1, norms2 = jnp.sum(x1**2, axis=1), jnp.sum(x2**2, axis=1)
    product = x1 @ x2.T
    return jnp.maximum(norms1[:, None] + norms2 - 2 * product, 0)


def median_distance(points: jax.Array, n: Any = None) -> jax.Array:
    """The median Euclidean distance of the n(n−1)/2 pairs of points (n, ...), a scalar.

    The float of rank k is found by bisection over the bits of a float, which order as the floats
    do: a count per bit, where a sort takes fifty times as long.

    Args:
        points: Points, or a bucket of them.
        n: How many of a bucket are real; all, by default.
    """
    n = len(points) if n is None else n
    pairs = _pairs(points, n)
    count = n * (n - 1) // 2
    pick = (count - 1) // 2, count // 2  # the middle one, or the middle two
    low = ranked(pairs, pick[0])
    above = jnp.min(jnp.where(pairs > low, pairs, jnp.inf))
    high = jnp.where(_count_up_to(pairs, low) > pick[1], low, above)
    return (jnp.sqrt(low) + jnp.sqrt(high)) / 2


def _pairs(points: jax.Array, n: Any) -> jax.Array:
    """The squared distance of every pair of real points, once; all else is infinite."""
    squared = squared_distances(points, points)
    i, j = jnp.arange(len(points))[:, None], jnp.arange(len(points))
    if not is_full(len(points), n):
        return jnp.where((i < j) & (j < n), squared, jnp.inf)
    # The upper rows, each filled up with the row that mirrors it: half the numbers to count.
    once = (j > i) | ((j < i) & (2 * i != n - 1))
    pairs = jnp.where(once, jnp.where(j > i, squared, squared[::-1, ::-1]), jnp.inf)
    return pairs[: (n + 1) // 2]


def median_bandwidth(points: jax.Array, n: Any = None) -> jax.Array:
    """The median distance of the points, and never 0.

    Where more than half of the pairs coincide it is their root mean square distance; where all
    do, 1, since then any scale is as good.

    Args:
        points: Points, or a bucket of them, shape (n, ...).
        n: How many of them are real; all, by default.
    """
    n = len(points) if n is None else n
    median = median_distance(points, n)
    spread = jnp.sum(cleared(points - mean(points, n), n) ** 2)
    median = jnp.where(median == 0, jnp.sqrt(2 * spread / jnp.asarray(n - 1, spread.dtype)), median)
    return jnp.where(median == 0, 1, median)


def ranked(values: jax.Array, rank: int | jax.Array) -> jax.Array:
    """The value ≥ 0 that has `rank` others before it in order."""
    bits = jnp.finfo(values.dtype).bits
    integer = jnp.dtype(f"int{bits}")
    as_float = partial(jax.lax.bitcast_convert_type, new_dtype=values.dtype)

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        middle = low + (high - low) // 2
        enough = _count_up_to(values, as_float(middle)) > rank
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    infinity = jax.lax.bitcast_convert_type(jnp.asarray(jnp.inf, values.dtype), integer)
    start = (jnp.zeros((), integer), infinity)
    return as_float(jax.lax.fori_loop(0, bits - 1, halve, start)[1])


def sorted_ranks(values: jax.Array, ranks: jax.Array) -> jax.Array:
    """The same of several ranks and few values, by a sort of bits: compiled and run in less time.

    Integers sort ten times as fast as floats; beyond some 10⁵ of them, counts are faster.
    """
    integer = jnp.dtype(f"int{jnp.finfo(values.dtype).bits}")
    ordered = jnp.sort(jax.lax.bitcast_convert_type(values, integer).ravel())
    return jax.lax.bitcast_convert_type(ordered[ranks], values.dtype)


def _count_up_to(values: jax.Array, limit: jax.Array) -> jax.Array:
    rows = jnp.sum((values <= limit).astype(values.dtype), axis=1)  # floats sum faster
    return jnp.sum(rows.astype(int))
