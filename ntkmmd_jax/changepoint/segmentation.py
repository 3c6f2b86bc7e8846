"""Several changes in a recording: binary segmentation (Vostrikova 1981), with p-values.

    segment(series) -> Segmentation

The series is cut into bins as long as its frames depend on each other (`cutting`), and one Gram
matrix a member has all that is asked of them. A stretch of bins is split at its best cut if that is
more than luck (`splits`), then both sides of it, without the bins next to the cut, which may hold
frames of the other side. No cut of the whole is an answer too: nothing has changed.

**What is promised.** A stretch of m of the s bins is tested at level α m/s. Stretches without a
change whose parent has one are disjoint, so their levels add up to α at most: with probability
1 − α no stretch without a change is split, if cuts fall where changes are, and if bins of one
segment are exchangeable, as they are for independent frames. Without any change this is exact: a
single test of all bins. With bins chosen from the data, and with dependence, it is approximate;
`benchmarks/segment.py` measures it. The p-value of a change is adjusted likewise: p s/m, and at
least that of the stretch before; it is at most α for all changes that are reported.

Coordinates are seen as normal scores: the normal quantile of a frame's rank among all frames. So
neither units nor heavy tails matter, nor does a jump of one change hide the next one. What changes
is the law of single frames: of a change in their order alone, as of a pace, give differences too.
"""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_array, check_finite, column_names
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import track, working
from ntkmmd_jax._lib.ranks import normal_scores
from ntkmmd_jax._lib.records import record
from ntkmmd_jax._lib.telling import warn
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.calibration import check_level, check_reach
from ntkmmd_jax.changepoint.cutting import MOST, Binning, binning
from ntkmmd_jax.changepoint.located import locate
from ntkmmd_jax.changepoint.segmented import Change, Segmentation
from ntkmmd_jax.changepoint.splits import LEAST, best_split
from ntkmmd_jax.kernels import Filtered
from ntkmmd_jax.twosample.at_times import AtTimes
from ntkmmd_jax.twosample.fused import FusedNTK
from ntkmmd_jax.twosample.members import Scale

COVERAGE = 0.95  # of the intervals of changes
# Chosen by power over ten statistics and their sets, on single changes of mean, spread, correlation
# and shape: long training sees what is rare, short training what is common. `MarginalUnits` see one
# coordinate of many.
TEST = FusedNTK(
    members=(Scale(1 / 2, times=(2.0**3,)), Scale(0.8, times=(2.0**7, 2.0**13))), landmarks=128
)
_PREPARED = 4096  # frames that members are prepared from
_AT_ONCE = 4096  # frames whose features are held
_EVERY = 2 * LEAST + 1  # bins that a series has at least


@record
class MarginalUnits:
    """z_i and |z_i| of every coordinate, of one spread: the kernel sees each by itself."""

    def __call__(self, points: jax.Array) -> jax.Array:
        """h(z), shape (n, 2d)."""
        return jnp.concatenate([points, jnp.abs(points) / math.sqrt(1 - 2 / math.pi)], axis=1)


def members(key: jax.Array, frames: jax.Array) -> tuple[AtTimes, ...]:
    """What sees changes: the scales of `TEST`, and every coordinate by itself."""
    units = MarginalUnits()
    no_filter = jnp.zeros((0, 0, 0), frames.dtype)  # at time 0 there is none
    mean = units(frames).mean(0)
    alone = Filtered(units, mean, no_filter.sum(0), no_filter, times=(0.0,))
    return *TEST.prepare(key, frames), AtTimes(alone)


def segment(
    series: Any,
    *,
    level: float = 0.05,
    bin: int | None = None,
    bins: int = MOST,
    n_permutations: int = 999,
    key: Any = 0,
    progress: bool = True,
) -> Segmentation:
    """Find the changes of a recorded series; none is an answer.

    Args:
        series: Array-like (n, ...), one row per frame. Columns that rise or fall at every frame, as
            time stamps do, are left out, with a warning.
        level: Probability of any change in a series without one.
        bin: Frames of a bin, within which they may depend on each other. By default as the series
            itself says; given, bins are taken for independent.
        bins: Bins at most.
        n_permutations: Orders of the bins that the observed one is held against.
        key: A JAX key or an int seed.
        progress: Whether to show progress on a terminal.

    Example:
        >>> series = np.random.default_rng(1).normal(size=(240, 3))
        >>> series[100:, 2] += 4
        >>> segment(series, bin=6, n_permutations=199).changes
        [100]
    """
    values = as_array(series, "the series")
    check_finite(values, "the series")
    whole("bins", bins, _EVERY)
    check_level(level, n_permutations)
    if bin is not None:
        whole("bin", bin)
    n = len(values)
    if n // (bin or 1) < _EVERY:
        least = _EVERY * (bin or 1)
        raise ValueError(
            f"a series of {n} frames has {n // (bin or 1)} bins of {bin or 1}; {_EVERY} are the "
            f"least: give {least} frames{' or shorter bins' if bin else ''}"
        )
    scores, kept = _without_clocks(np.asarray(values).reshape(n, -1))
    cut = binning(scores, bin, bins)
    check_reach(_orders(cut.bins), level, f"{cut.bins} bins")
    k_grams, k_splits, k_places = jax.random.split(as_key(key), 3)
    frames = jnp.asarray(scores, jnp.result_type(float))
    with working("segment", show=progress):
        prepared, grams = jax.block_until_ready(bin_grams(k_grams, frames, size=cut.size))
    options = {"level": level, "n_permutations": n_permutations}
    found = sorted(
        track(significant_cuts(k_splits, grams, cut, **options), "changes found", show=progress)
    )
    edges = [0, *(change[0] for change in found), cut.bins]
    changes = [
        _located(
            jax.random.fold_in(k_places, i),
            prepared,
            frames,
            cut,
            tuple(edges[i : i + 3]),
            change,
            n_permutations,
        )
        for i, change in enumerate(track(found, "changes located", show=progress))
    ]
    profile = scores[: cut.bins * cut.size].reshape(cut.bins, cut.size, -1).mean(1)
    return Segmentation(tuple(changes), n, cut, level, COVERAGE, profile, _names(series, kept))


def _without_clocks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores of the columns that are no clocks, and which these are."""
    before, after = values[:-1], values[1:]
    clocks = np.all(after > before, axis=0) | np.all(after < before, axis=0)
    if clocks.all():
        raise ValueError(
            "every column rises or falls at every frame, as time does: take differences first"
        )
    if clocks.any():
        which = np.flatnonzero(clocks).tolist()
        warn(
            f"left out: columns {which} rise or fall at every frame, as time stamps do",
        )
    return normal_scores(values[:, ~clocks]), np.flatnonzero(~clocks)


def _names(series: Any, kept: np.ndarray) -> tuple[str, ...] | None:
    """Names of the columns that were kept: of a data frame, or their numbers if any was not."""
    columns = column_names(series)
    if columns is not None:
        return tuple(columns[i] for i in kept)
    return None if len(kept) == kept.max() + 1 else tuple(map(str, kept))


@jit(static_argnames="size")
def bin_grams(key: jax.Array, frames: jax.Array, *, size: int) -> tuple[tuple, jax.Array]:
    """The members, and the Gram matrices of bins of frames by each statistic: (members, s, s).

    Bins take random places before anything is computed, so that rounding does not know the time.
    """
    k_place, k_some, k_members = jax.random.split(key, 3)
    bins = len(frames) // size
    order = jax.random.permutation(k_place, bins)
    placed = frames[: bins * size].reshape(bins, size, -1)[order]
    everything = placed.reshape(bins * size, -1)
    some = jax.random.choice(k_some, len(everything), (min(_PREPARED, len(everything)),), False)
    prepared = members(k_members, everything[some])

    def grams(filtered: Any) -> jax.Array:
        def sums(points: jax.Array) -> jax.Array:
            return filtered(points).sum(0)

        vectors = in_batches(sums, placed, max(1, _AT_ONCE // size))
        vectors = vectors - vectors.mean(0)
        return filtered.filtered(vectors) @ vectors.T

    found = jnp.concatenate([grams(one.filtered) for one in prepared])
    back = jnp.argsort(order)
    return prepared, found[:, back][:, :, back]


def significant_cuts(
    key: jax.Array, grams: jax.Array, cut: Binning, *, level: float, n_permutations: int
) -> Iterator[tuple[int, float, float, Any]]:
    """Cuts, adjusted p-values, scores and shares of members, as stretches are split."""
    stretches, tested = [(0, cut.bins, 0.0)], 0
    while stretches:
        low, high, least = stretches.pop()
        share = (high - low) / cut.bins
        if high - low < 2 * LEAST or 1 / (1 + n_permutations) > level * share:
            continue  # no p-value could be small enough
        k_orders, tested = jax.random.fold_in(key, tested), tested + 1
        best = best_split(
            k_orders, grams, low, high, cut.correlation, n_permutations=n_permutations
        )
        if not np.isfinite(best.score):
            raise ValueError(f"the statistic of bins {low}:{high} is {float(best.score)}")
        rank = round(float(best.pvalue) * (1 + n_permutations))  # its digits are those of float32
        pvalue = max(least, min(1.0, rank / (1 + n_permutations) / share))
        if pvalue <= level:
            at = int(best.cut)
            yield at, pvalue, float(best.score), best.shares
            stretches += [(low, at - 1, pvalue), (at + 1, high, pvalue)]


def _located(
    key: jax.Array,
    prepared: tuple,
    frames: jax.Array,
    cut: Binning,
    between: tuple[int, int, int],
    change: tuple[int, float, float, Any],
    n_permutations: int,
) -> Change:
    _, pvalue, score, shares = change
    found = locate(
        key,
        prepared,
        shares,
        frames,
        between,
        cut.correlation,
        coverage=COVERAGE,
        size=cut.size,
        n_permutations=n_permutations,
    )
    interval = int(found.low), int(found.high)
    level, spread, pvalues = (np.asarray(v) for v in (found.level, found.spread, found.pvalues))
    return Change(int(found.frame), interval, pvalue, score, level, spread, pvalues)


def _orders(bins: int) -> int:
    """How many values S takes over all orders of the bins: a series read backwards has the same."""
    return int(np.prod(np.arange(1, min(bins, 12) + 1))) // 2
