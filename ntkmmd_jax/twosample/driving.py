"""Which coordinates drive a difference, each by itself or by how it hangs together with others.

A coordinate is seen by the rank u of a point among all points and by its normal score s = Φ⁻¹(u).
Of every labelling of the pool, with means E_x and E_y over the points that it labels x and y,

    level        E_x s_i − E_y s_i
    spread       E_x s_i² − E_y s_i²
    shape        E_x cos(mπu_i) − E_y cos(mπu_i),           m = 2, …, 5
    dependence   artanh r_ij(x) − artanh r_ij(y),           j ≠ i,

r_ij(x) the correlation of s_i with s_j within x: a coordinate that merely moves or widens has the
correlations that it had. A wave of m = 2 is the spread of the middle, where s² is that of the
tails, and is called so. Each is taken in standard deviations z over all labellings. The largest of
m of them (the waves, the pairs of i) counts for √(z² − 2 log m), which has about the tail of one:
P(max > z) ≈ m exp(−z²/2). Of dependence there is also Σ_j z_ij², its cube root in standard
deviations, for correlations with many others. T_i is the largest of all kinds, and p-values are
those of the largest T by steps (Westfall & Young 1993): the coordinate with the k-th largest T is
held against max_l T_l of every labelling over itself and those behind it, and has at least the
p-value of the one before.

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
import numpy as np

from ntkmmd_jax._lib.keys import host_random
from ntkmmd_jax._lib.ranks import ranks, scores_of
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.calibration import as_strata, check_level, check_reach, labellings

KINDS = ("level", "spread", "spread", "shape", "shape", "shape", "dependence")
PAIRED = 128  # coordinates up to which pairs of them are looked at
_WAVES = (2, 3, 4, 5)  # m; 1 is nearly the level
_BINS = 1024  # points or bins that are labelled; 4 times as many of very unequal samples
_FEWEST = 16  # bins that a sample keeps, if it has as many points
_STRATIFIED = 8192  # points that are labelled within strata
_TIE = 1e-4  # T that differ by less are tied: what rounding makes of float32 is less than that
_PERFECT = 1 - 1e-4  # correlations beyond it are taken for this one


@record
class Driving:
    """What every coordinate says: d of them."""

    statistic: np.ndarray  # (d,) T
    pvalue: np.ndarray  # (d,) adjusted
    scores: np.ndarray  # (d, 7) in the order of KINDS; level and spread have the sign of x − y
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
    what fills no bin is left out. It is numpy's work: a program would take longer to compile than
    all of this takes to run.

    Args:
        key: For bins and labellings.
        x: Sample of p.
        y: Sample of q.
        level: At which p-values will be looked at; it must be possible to reach.
        n_permutations: B.
        strata: The stratum of every point of x, and of y, within which labels are permuted.
    """
    check_level(level, n_permutations)
    rng, n_x, n_y = host_random(key), len(x), len(y)
    if strata is None:
        size, (s_x, s_y) = _cut(n_x, n_y)
        stratum, ways = np.zeros(n_x + n_y), labellings(s_x, s_y, even=True)
    else:
        if n_x + n_y > _STRATIFIED:
            raise ValueError(f"strata are for at most {_STRATIFIED} points; got {n_x} + {n_y}")
        size, (s_x, s_y) = 1, (n_x, n_y)
        stratum, ways = as_strata(*strata, n_x, n_y)
    check_reach(ways, level, f"{s_x} + {s_y} {'points' if size == 1 else 'bins'}")
    of_x, of_y = (rng.permutation(n)[: s * size] for n, s in ((n_x, s_x), (n_y, s_y)))
    # Bins take random places, so that rounding knows no labels (see `calibration`).
    place = rng.permutation(s_x + s_y)
    bins = np.concatenate([of_x, n_x + of_y]).reshape(-1, size)[place]
    observed = place < s_x
    others = relabelled(rng, observed, stratum[bins[:, 0]], n_permutations)
    u = ranks(np.concatenate([x, y]))
    labels = np.concatenate([observed[None], others])
    kinds, partner = contrasts(labels, u[bins], scores_of(u)[bins])
    statistic = np.abs(kinds).max(2)
    pvalue = step_down(statistic) / (1 + n_permutations)
    return Driving(statistic[0], pvalue, kinds[0], partner)


def _cut(n_x: int, n_y: int) -> tuple[int, tuple[int, int]]:
    """Points of a bin, and bins of x and of y."""
    fewest, most = min(n_x, n_y), 4 * _BINS
    size = max(1, min(-(-(n_x + n_y) // _BINS), fewest // _FEWEST))
    return size, (min(n_x // size, most), min(n_y // size, most))


def relabelled(
    rng: np.random.Generator, labels: np.ndarray, strata: np.ndarray, n_permutations: int
) -> np.ndarray:
    """Labels (s,) permuted within strata (s,), uniformly: (B, s)."""
    by_stratum = np.argsort(strata, kind="stable")
    wanted = labels[by_stratum]  # how many of every stratum are x is the same in every row
    random = np.argsort(strata + rng.random((n_permutations, len(labels))), axis=1)
    permuted = np.zeros(random.shape, bool)
    np.put_along_axis(permuted, random, wanted, axis=1)
    return permuted


def contrasts(labels: np.ndarray, u: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The contrasts of all labellings, (B + 1, d, 7) in the order of KINDS, and partners.

    Args:
        labels: Row 0 the observed ones, True for x: (B + 1, bins).
        u: Ranks of the points of every bin, shape (bins, size, d).
        s: Their normal scores.

    Returns:
        The contrasts, and the partner (d,) of every coordinate in the observed dependence.
    """
    shares, d = labels.astype(s.dtype) / labels[0].sum(), s.shape[2]
    waves = [np.cos(m * math.pi * u) for m in _WAVES]
    sums = np.concatenate([f.mean(1) for f in (s, s**2, *waves)], axis=1)  # (bins, 6d)
    z = _standardized(shares @ (sums - sums.mean(0))).reshape(len(labels), -1, d)
    kinds = [z[:, 0], z[:, 1], *np.moveaxis(_one_of(len(_WAVES), z[:, 2:]), 1, 0)]
    if not 1 < d <= PAIRED:
        return np.stack([*kinds, np.zeros_like(kinds[0])], axis=2), np.full(d, -1)
    of_y = (1 / len(labels[0]) - shares * labels[0].mean()) / (1 - labels[0].mean())
    groups = [Moments(weights, s) for weights in (shares, of_y)]
    dependence, partner = zip(*(_dependence(groups, i) for i in range(d)), strict=True)
    return np.stack([*kinds, np.stack(dependence, axis=1)], axis=2), np.array(partner)


class Moments:
    """Means and standard deviations of normal scores, in one group of every labelling."""

    def __init__(self, weights: np.ndarray, s: np.ndarray):
        self.weights, self.s = weights, s  # (B + 1, bins), (bins, size, d)
        self.mean = weights @ s.mean(1)  # (B + 1, d)
        self.deviation = np.sqrt(np.maximum(weights @ (s**2).mean(1) - self.mean**2, 0))

    def fisher(self, i: int) -> np.ndarray:
        """artanh of the correlations of coordinate i with all others, 0 with itself: (B + 1, d)."""
        product = self.weights @ (self.s[:, :, i, None] * self.s).mean(1)
        scale = self.deviation[:, i, None] * self.deviation
        covariance = product - self.mean[:, i, None] * self.mean
        r = covariance / np.where(scale > 1e-6, scale, np.inf)
        r[:, i] = 0
        return np.arctanh(np.clip(r, -_PERFECT, _PERFECT))


def _dependence(groups: list[Moments], i: int) -> tuple[np.ndarray, int]:
    """How much the correlations of coordinate i differ, (B + 1,), and with whom most."""
    of_x, of_y = (group.fisher(i) for group in groups)
    z = _standardized(of_x - of_y)
    one = _one_of(z.shape[1] - 1, np.abs(z).max(1))
    many = _standardized(np.cbrt(np.sum(z**2, axis=1)))
    return np.maximum(one, many), int(np.argmax(np.abs(z[0])))


def _standardized(values: np.ndarray) -> np.ndarray:
    """Values (B + 1, ...) in standard deviations over all labellings; 0 of what does not vary."""
    centred = values - values.mean(0)
    deviation = np.sqrt(np.mean(centred**2, axis=0))
    varies = deviation > 1e-6 * (1 + np.abs(values).max(0))
    return np.where(varies, centred / np.where(varies, deviation, 1), 0)


def _one_of(m: int, z: np.ndarray) -> np.ndarray:
    """Deviations of which the largest of m counts: less what that has by itself."""
    return np.sign(z) * np.sqrt(np.maximum(z**2 - 2 * math.log(m), 0))


def step_down(values: np.ndarray) -> np.ndarray:
    """How many of B + 1 labellings reach the observed T of every coordinate, by steps: (d,).

    Args:
        values: T of every labelling and coordinate, shape (B + 1, d), the observed one first.
    """
    order = np.argsort(-values[0], kind="stable")
    behind = np.maximum.accumulate(values[:, order[::-1]], axis=1)[:, ::-1]
    exceeding = np.sum(behind >= values[0, order] - _TIE, axis=0)
    adjusted = np.empty_like(exceeding)
    adjusted[order] = np.maximum.accumulate(exceeding)
    return adjusted
