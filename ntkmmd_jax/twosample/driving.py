"""Which coordinates drive a difference, each by itself or by how it hangs together with others.

A coordinate is seen by the rank u of a point among all points and by its normal score s = Φ⁻¹(u).
Of every labelling of the pool, with means E_x and E_y over the points that it labels x and y,

    level        E_x s_i − E_y s_i
    spread       E_x s_i² − E_y s_i²
    shape        E_x cos(mπu_i) − E_y cos(mπu_i),           m = 3, …, 6
    dependence   artanh r_ij(x) − artanh r_ij(y),           j ≠ i,

r_ij(x) the correlation of s_i with s_j within x: a coordinate that merely moves or widens has the
correlations that it had. Each is taken in standard deviations z over all labellings. The largest of
m of them counts for √(z² − 2 log m), which has about the tail of one: m exp(−z²/2). Of dependence
there is also Σ_j z_ij², its cube root in standard deviations, for correlations with many others.
T_i is the largest of all kinds, and p-values are those of the largest T by steps (Westfall & Young
1993): the coordinate with the k-th largest T is held against max_l T_l of every labelling over
itself and those behind it, and has at least the p-value of the one before.

**What is promised.** If x and y have one law, the probability that any coordinate has p ≤ α is at
most α, exactly: all of this is one statistic of labelled points, and the pool is exact for every
statistic (`calibration`). If they differ, let the coordinates I have jointly one law in x and y.
Without dependence, T_i for i in I is a statistic of the coordinates in I alone, which are
exchangeable, and the maximum over more is larger: the probability of any p ≤ α in I is at most α,
exactly again. Dependence of i in I on a j beyond I is no statistic of I: there it is approximate,
as correlations are compared by Fisher's z; `benchmarks/explain.py` measures it.

A coordinate may be named for what it shares with a neighbour: marginal laws do not say which of two
correlated coordinates is the cause. And a difference of three coordinates that no two of them have
is in none of these.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.ranks import ranks
from ntkmmd_jax._lib.records import record
from ntkmmd_jax._lib.tiles import tile_by_tile
from ntkmmd_jax.calibration import as_strata, check_level, check_reach, labellings
from ntkmmd_jax.calibration.pools import relabel
from ntkmmd_jax.calibration.strata import relabel_within

KINDS = ("level", "spread", "shape", "dependence")
PAIRED = 128  # coordinates up to which pairs of them are looked at
_WAVES = (3, 4, 5, 6)  # m of the shape; 1 and 2 are nearly level and spread
_BINS = 1024  # points or bins that are labelled; 4 times as many of very unequal samples
_FEWEST = 16  # bins that a sample keeps, if it has as many points
_STRATIFIED = 8192  # points that are labelled within strata
_AT_ONCE = 64  # labellings whose correlations are held
_TIE = 1e-4  # statistics in standard deviations that differ by less are tied
_PERFECT = 1 - 1e-4  # correlations beyond it are taken for this one


@record
class Driving:
    """What every coordinate says: d of them."""

    statistic: np.ndarray  # (d,) T
    pvalue: np.ndarray  # (d,) adjusted
    scores: np.ndarray  # (d, 4) of every kind; level and spread have the sign of x − y
    partner: np.ndarray  # (d,) whose dependence has changed most; −1 if no pair was looked at


def driving(
    key: jax.Array,
    x: np.ndarray,
    y: np.ndarray,
    *,
    level: float,
    n_permutations: int,
    strata: tuple[Any, Any] | None = None,
) -> Driving:
    """Test every coordinate of samples (n_X, d) and (n_Y, d).

    Up to 1,024 points each has a label of its own; beyond, bins of points have, about as many, and
    what fills no bin is left out.

    Args:
        key: For bins and labellings.
        x: Sample of p.
        y: Sample of q.
        level: At which p-values will be looked at; it must be possible to reach.
        n_permutations: B.
        strata: The stratum of every point of x, and of y, within which labels are permuted.
    """
    check_level(level, n_permutations)
    n_x, n_y = len(x), len(y)
    size, bins = (1, (n_x, n_y)) if strata is not None else _cut(n_x, n_y)
    found = None
    if strata is not None:
        if n_x + n_y > _STRATIFIED:
            raise ValueError(f"strata are for at most {_STRATIFIED} points; got {n_x} + {n_y}")
        found, ways = as_strata(*strata, n_x, n_y)
        found = jnp.asarray(found)
    else:
        ways = labellings(*bins, even=True)
    check_reach(ways, level, f"{bins[0]} + {bins[1]} {'points' if size == 1 else 'bins'}")
    u = jnp.asarray(ranks(np.concatenate([x, y])))
    given = {"n_x": n_x, "size": size, "bins": bins, "n_permutations": n_permutations}
    exceeding, *others = _driving(key, u, found, **given)
    # Counts over B + 1 in double precision: a p-value that equals the level compares equal.
    pvalue = np.asarray(exceeding, float) / (1 + n_permutations)
    statistic, scores, partner = map(np.asarray, others)
    return Driving(statistic, pvalue, scores, partner)


def _cut(n_x: int, n_y: int) -> tuple[int, tuple[int, int]]:
    """Points of a bin, and bins of x and of y."""
    fewest, most = min(n_x, n_y), 4 * _BINS
    size = max(1, min(-(-(n_x + n_y) // _BINS), fewest // _FEWEST))
    return size, (min(n_x // size, most), min(n_y // size, most))


@jit(static_argnames=("n_x", "size", "bins", "n_permutations"))
def _driving(
    key: jax.Array,
    u: jax.Array,
    strata: jax.Array | None,
    *,
    n_x: int,
    size: int,
    bins: tuple[int, int],
    n_permutations: int,
) -> tuple[jax.Array, ...]:
    k_bins, k_pool = jax.random.split(key)
    if strata is None:
        pool = relabel(k_pool, *bins, n_permutations)
        members = _members(k_bins, n_x, len(u) - n_x, size, bins)
    else:
        pool = relabel_within(k_pool, n_x, strata, n_permutations)
        members = jnp.arange(len(u))[:, None]
    # Computed from arranged points: rounding knows places, and no labels (see `calibration`).
    values = contrasts(pool.labels, u[members[pool.order]])
    exceeding = step_down(jnp.max(jnp.abs(values.kinds), axis=2), pool.observed)
    scores = values.kinds[pool.observed]
    return exceeding, jnp.max(jnp.abs(scores), axis=1), scores, values.partner[pool.observed]


def _members(key: jax.Array, n_x: int, n_y: int, size: int, bins: tuple[int, int]) -> jax.Array:
    """Which points are in which bin, those of x first, at random: (bins, size)."""
    bits, rows = jax.random.bits(key, (n_x + n_y,)), jnp.arange(n_x + n_y)
    order = jax.lax.sort(((rows >= n_x).astype(bits.dtype), bits, rows), num_keys=2)[2]
    of_x, of_y = order[: bins[0] * size], order[n_x : n_x + bins[1] * size]
    return jnp.concatenate([of_x, of_y]).reshape(-1, size)


@record
class Contrasts:
    """Of every labelling and coordinate."""

    kinds: jax.Array  # (B + 1, d, 4) in the order of KINDS
    partner: jax.Array  # (B + 1, d)


def contrasts(labels: jax.Array, u: jax.Array) -> Contrasts:
    """The contrasts of all labellings (B + 1, s) of s bins with ranks (s, size, d)."""
    s = jax.scipy.special.ndtri(u)
    labels, d = labels.astype(s.dtype), u.shape[2]
    waves = [jnp.cos(m * math.pi * u) for m in _WAVES]
    sums = jnp.concatenate([f.mean(1) for f in (s, s**2, *waves)], axis=1)  # (s, 6d)
    z = _standardized(labels @ (sums - sums.mean(0))).reshape(len(labels), -1, d)
    kinds = [z[:, 0], z[:, 1], _largest(z[:, 2:], axis=1)]
    nobody = jnp.full(kinds[0].shape, -1)
    if not 1 < d <= PAIRED:
        return Contrasts(jnp.stack([*kinds, jnp.zeros_like(kinds[0])], axis=2), nobody)
    dependence, partner = _dependence(labels, s)
    return Contrasts(jnp.stack([*kinds, dependence], axis=2), partner)


def _standardized(values: jax.Array) -> jax.Array:
    """Values (B + 1, ...) in standard deviations over all labellings; 0 of what does not vary."""
    centred = values - values.mean(0)
    deviation = jnp.sqrt(jnp.mean(centred**2, axis=0))
    varies = deviation > 1e-5 * (1 + jnp.max(jnp.abs(values), axis=0))
    return jnp.where(varies, centred / jnp.where(varies, deviation, 1), 0)


def _largest(z: jax.Array, axis: int) -> jax.Array:
    """The largest of m deviations along an axis, less what the largest of m has by itself."""
    price = 2 * math.log(z.shape[axis])
    return jnp.sqrt(jnp.maximum(jnp.max(z**2, axis=axis) - price, 0))


def _dependence(labels: jax.Array, s: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How much correlations of every coordinate differ, and with whom most, both (B + 1, d)."""
    d, share = s.shape[2], labels[:1].sum(1, keepdims=True) / labels.shape[1]
    first, second = np.triu_indices(d, 1)
    sums = [s.mean(1), (s**2).mean(1), (s[..., first] * s[..., second]).mean(1)]
    sums = jnp.concatenate(sums, axis=1)  # (bins, 2d + pairs)
    overall = sums.mean(0)

    def gap(rows: jax.Array) -> jax.Array:
        of_x = rows @ sums / rows.sum(1, keepdims=True)
        of_y = (overall - share * of_x) / (1 - share)
        return _fisher(of_x, d, first, second) - _fisher(of_y, d, first, second)

    z = _standardized(tile_by_tile(gap, labels, _AT_ONCE))  # (B + 1, pairs)
    place = np.zeros((d, d), int)
    place[first, second] = place[second, first] = np.arange(len(first))
    others = np.array([[j for j in range(d) if j != i] for i in range(d)])  # (d, d − 1)

    def of_coordinates(rows: jax.Array) -> jax.Array:
        each = rows[:, place[np.arange(d)[:, None], others]]  # (rows, d, d − 1)
        who = jnp.asarray(others)[jnp.arange(d), jnp.argmax(jnp.abs(each), axis=2)]
        together = jnp.cbrt(jnp.sum(each**2, axis=2))
        return jnp.stack([_largest(each, axis=2), together, who.astype(rows.dtype)], axis=1)

    one, many, who = jnp.moveaxis(tile_by_tile(of_coordinates, z, _AT_ONCE), 1, 0)
    return jnp.maximum(one, _standardized(many)), who.astype(int)


def _fisher(means: jax.Array, d: int, first: np.ndarray, second: np.ndarray) -> jax.Array:
    """artanh of the correlations of all pairs, from means of s, s² and products."""
    m, square, product = means[:, :d], means[:, d : 2 * d], means[:, 2 * d :]
    deviation = jnp.sqrt(jnp.maximum(square - m**2, 0))
    scale = deviation[:, first] * deviation[:, second]
    r = (product - m[:, first] * m[:, second]) / jnp.where(scale > 1e-6, scale, jnp.inf)
    return jnp.arctanh(jnp.clip(r, -_PERFECT, _PERFECT))


def step_down(values: jax.Array, observed: Any) -> jax.Array:
    """How many of B + 1 labellings reach the observed T of every coordinate, by steps: (d,).

    Args:
        values: T of every labelling and coordinate, shape (B + 1, d).
        observed: The row of the observed labelling, which is among those counted.
    """
    own = values[observed]
    order = jnp.argsort(-own)
    behind = jax.lax.cummax(values[:, order], axis=1, reverse=True)
    exceeding = jnp.sum(behind >= own[order] - _TIE, axis=0)
    return jnp.zeros_like(exceeding).at[order].set(jax.lax.cummax(exceeding))
