"""Where does a stretch of bins split best, and could that be luck?

Of bins a, …, e − 1 cut at c, with n = c − a bins before and m = e − c after, T is read off the Gram
matrix G of the bins, by its sums over rectangles:

    T(a, c, e) = nm / (n + m) · wᵀ G w,   w = 1/n before c and −1/m from c on.

All cuts c of *seeded* intervals [a, e) (Kovács et al. 2023: every length down to a few bins, each
length in steps of half of it) are looked at, so that a change is seen at its best: between its two
neighbours, not against whatever lies beyond them. Every T is brought to one scale by its own law
over B + 1 orders of the bins, the observed one and B random ones, as in `twosample.fused`:

    z = (T^⅓ − mean) / standard deviation,   members fused into a soft maximum,   S = max over cuts.

If nothing changes and bins are exchangeable, all B + 1 orders are alike, and so is what is computed
from them: S of the observed order is as likely to have any rank as every other, so that the
p-value (1 + #{S ≥ observed}) / (1 + B) is exact for the maximum over all cuts and intervals.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.twosample.soft_maximum import fused

LEAST = 2  # bins on either side of a cut
_DECAY = 2**-0.5  # of the lengths of intervals
_SHARPNESS = 3.0  # of the soft maximum over members, as in `FusedNTK`
_AT_ONCE = 8  # orders whose sums over rectangles are held
_TIE = 1e-4  # in units of z: rounding
_TINY = 1e-30  # a root of T that is 0 has a slope too
_CONSTANT = 1e-5  # standard deviation / mean of T^⅓ below which it is rounding only


@record
class Split:
    """The best cut of a stretch of bins."""

    cut: jax.Array  # () first bin after it
    score: jax.Array  # () S
    pvalue: jax.Array  # ()
    shares: jax.Array  # (members,) how much each T counts in S at the cut: ∂S/∂T


@functools.cache
def seeded_cuts(bins: int) -> np.ndarray:
    """All (a, c, e) with [a, e) a seeded interval and c a cut of it, shape (k, 3)."""
    found, length = set(), float(bins)
    while length >= 2 * LEAST:
        whole, count = math.ceil(length), 2 * math.ceil(bins / length - 1e-9) - 1
        found |= {(i * (bins - whole) // max(count - 1, 1), whole) for i in range(count)}
        length *= _DECAY
    cuts = [
        (a, c, a + size)
        for a, size in sorted(found)
        for c in range(a + LEAST, a + size - LEAST + 1)
    ]
    return np.asarray(cuts, np.int32).reshape(-1, 3)


def random_orders(key: jax.Array, bins: int, low: Any, high: Any, count: int) -> jax.Array:
    """Orders of all bins, shape (count, bins): the first as it is, others random in [low, high)."""
    place = jnp.arange(bins)
    region = (place >= low).astype(int) + (place >= high).astype(int)
    inside = jax.random.bits(key, (count, bins)).at[0].set(place.astype(jnp.uint32))
    bits = jnp.where(region == 1, inside, place.astype(jnp.uint32))
    keys = (jnp.broadcast_to(region, bits.shape), bits, jnp.broadcast_to(place, bits.shape))
    return jax.lax.sort(keys, dimension=1, num_keys=2)[2]


def cut_statistics(gram: jax.Array, orders: jax.Array, cuts: jax.Array) -> jax.Array:
    """T(a, c, e) of every order of the bins and every cut (k, 3), shape (orders, k)."""
    a, c, e = cuts.T
    before, after = (c - a).astype(gram.dtype), (e - c).astype(gram.dtype)

    def of_order(order: jax.Array) -> jax.Array:
        rows = _running(gram[order][:, order])
        sums = jnp.pad(_running(rows.T), ((1, 0), (1, 0)))  # [i, j]: of bins before i and before j
        xx = sums[c, c] - 2 * sums[a, c] + sums[a, a]
        yy = sums[e, e] - 2 * sums[c, e] + sums[c, c]
        xy = sums[c, e] - sums[c, c] - sums[a, e] + sums[a, c]
        mmd2 = xx / before**2 + yy / after**2 - 2 * xy / (before * after)
        return before * after / (before + after) * mmd2

    return in_batches(of_order, orders, _AT_ONCE)


def _running(rows: jax.Array) -> jax.Array:
    """Sums of the first rows, one after the other: on a CPU in half the time of `cumsum`."""

    def add(total: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        return total + row, total + row

    return jax.lax.scan(add, jnp.zeros_like(rows[0]), rows)[1]


def raised(before: jax.Array, after: jax.Array, correlation: Any) -> jax.Array:
    """By which factor a correlation of neighbouring bins raises the mean of T.

    Of n + m bins around a cut, n − 1 pairs of neighbours lie before it, m − 1 after it, and one
    across: 1 + 2ρ ((n − 1)/n² + (m − 1)/m² − 1/nm) / (1/n + 1/m), which tends to 1 + 2ρ.
    """
    pairs = (before - 1) / before**2 + (after - 1) / after**2 - 1 / (before * after)
    return 1 + 2 * correlation * pairs / (1 / before + 1 / after)


@jit(static_argnames="n_permutations")
def best_split(
    key: jax.Array,
    grams: jax.Array,
    low: Any,
    high: Any,
    correlation: Any,
    *,
    n_permutations: int,
) -> Split:
    """The best cut of bins [low, high), and its p-value.

    Args:
        key: For the orders.
        grams: Gram matrices of all bins, one a member, shape (members, s, s).
        low: The first bin.
        high: The bin after the last.
        correlation: Of neighbouring bins, which other orders do not have: T of the observed one is
            divided by what it is raised by. 0 for none: then p is exact.
        n_permutations: B.
    """
    bins = grams.shape[1]
    orders = random_orders(key, bins, low, high, n_permutations + 1)
    a, c, e = jnp.asarray(seeded_cuts(bins)).T
    a, e = jnp.maximum(a, low), jnp.minimum(e, high)
    allowed = (c - a >= LEAST) & (e - c >= LEAST)
    cuts = jnp.where(allowed, jnp.stack([a, c, e]), jnp.arange(3)[:, None]).T
    sizes = jnp.diff(cuts, axis=1).astype(grams.dtype)
    factor = raised(sizes[:, 0], sizes[:, 1], correlation)
    inside = (jnp.arange(bins) >= low) & (jnp.arange(bins) < high)

    def scores(gram: jax.Array) -> tuple[jax.Array, jax.Array]:
        values = cut_statistics(_centred(gram, inside), orders, cuts)
        roots = jnp.cbrt(jnp.maximum(values.at[0].divide(factor), 0))
        mean, spread = roots.mean(0), roots.std(0)
        speaks = ~(spread <= _CONSTANT * mean)  # NaN speaks, and is found out
        spread = jnp.where(speaks, spread, 1)
        flat = 3 * spread * jnp.maximum(roots[0], 1e-3 * mean + _TINY) ** 2
        return jnp.where(speaks, (roots - mean) / spread, 0), jnp.where(speaks, 1 / flat, 0)

    each, slopes = jax.lax.map(scores, grams)  # (members, B + 1, k), (members, k)
    together = fused(jnp.moveaxis(each, 0, -1), _SHARPNESS)  # (B + 1, k)
    together = jnp.where(allowed, together, -jnp.inf)
    largest, best = together.max(axis=1), together[0].argmax()
    pvalue = calibration.pvalue(largest[0], largest[1:], _TIE)
    shares = jax.nn.softmax(_SHARPNESS * each[:, 0, best]) * slopes[:, best]
    return Split(c[best], largest[0], pvalue, shares)


def _centred(gram: jax.Array, inside: jax.Array) -> jax.Array:
    """G of vectors less their mean over the bins inside, and 0 outside: nothing large is summed."""
    kept = inside.astype(gram.dtype)
    mean = kept / kept.sum()
    columns = mean @ gram
    centred = gram - columns - columns[:, None] + columns @ mean
    return kept[:, None] * centred * kept
