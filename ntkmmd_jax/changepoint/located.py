"""A change from close by: its frame, an interval for that, and the coordinates that move.

*Frame.* The witness of the frames before and after the change is high before and low after. Each
frame is scored by a witness of bins that it is not in (the others of two halves), so that no score
has seen its own frame. With m midway between the mean scores of the two sides, the change is put at

    t* = argmax_t Σ_{i < t} (g(z_i) − m).

*Interval.* How far may t* be off? Blocks of a bin of scores are drawn from either side of t* and
laid out around it, the argmax is found again, and the quantile of how far it is off makes the
interval. It is no proof; `benchmarks/segment.py` counts how often it holds.

*Coordinates.* Has the level or the spread of a coordinate by itself changed? Contrasts of the means
of z and of |z| over the bins before and after are held against those of relabelled bins, and
against the largest over all coordinates: the p-values are adjusted for looking at all of them.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.changepoint.splits import raised
from ntkmmd_jax.measure import SignedMeasure

_REACH = 512  # frames to either side at which t* may be found again
_DRAWS = 400


@record
class Located:
    """Where and in what a change is."""

    frame: jax.Array  # () first frame after it
    low: jax.Array  # () its interval: from
    high: jax.Array  # () to, included
    level: jax.Array  # (d,) mean after − before, in standard deviations of the relabelled ones
    spread: jax.Array  # (d,) of the mean absolute values, likewise
    pvalues: jax.Array  # (d,) of the larger of the two, adjusted


@jit(static_argnames=("coverage", "size", "n_permutations"))
def locate(
    key: jax.Array,
    prepared: tuple,
    shares: jax.Array,
    scores: jax.Array,
    between: Any,
    correlation: Any,
    *,
    coverage: float,
    size: int,
    n_permutations: int,
) -> Located:
    """Locate a change between its neighbours.

    Args:
        key: For the draws of the interval, and the relabellings.
        prepared: The members of the test.
        shares: How much each of their statistics counts in the witness.
        scores: Frames, in normal scores, shape (n, d).
        between: Bins (low, cut, high): the change before it, where it is, and the one after it.
        correlation: Of neighbouring bins.
        coverage: Of the interval.
        size: Frames of a bin.
        n_permutations: Relabellings.
    """
    k_draws, k_labels = jax.random.split(key)
    bins, at = len(scores) // size, jnp.arange(len(scores)) // size
    before, after = sides(jnp.arange(bins), bins, *between)
    left, right = before[jnp.minimum(at, bins - 1)], after[jnp.minimum(at, bins - 1)]
    inside = at < bins
    held = held_out_scores(prepared, shares, scores, left & inside, right & inside, at % 2 == 0)
    of_left, of_right = _mean(held, left & inside), _mean(held, right & inside)
    steps = jnp.where(of_left < of_right, -1.0, 1.0) * (held - (of_left + of_right) / 2)
    low, high = between[0] * size, jnp.where(between[2] == bins, len(scores), between[2] * size)
    # Changes keep their order: none comes nearer to its neighbour than half way.
    first = jnp.where(low == 0, size, (between[0] + between[1]) // 2 * size + 1)
    last = jnp.where(high == len(scores), high - size, (between[1] + between[2]) // 2 * size)
    frame = _argmax_between(steps, first, last, low)
    away = _drawn_again(k_draws, steps, low, frame, high, size)
    half = away[math.ceil(coverage * _DRAWS) - 1]
    contrasts = _contrasts(k_labels, scores, before, after, correlation, size, n_permutations)
    return Located(
        frame, jnp.maximum(frame - half, low), jnp.minimum(frame + half, high), *contrasts
    )


def sides(place: jax.Array, bins: int, low: Any, cut: Any, high: Any) -> tuple:
    """Which bins lie before and after a cut, without those next to it or to another change."""
    first = jnp.where(low == 0, 0, low + 1)
    last = jnp.where(high == bins, bins, high - 1)
    return (place >= first) & (place < cut - 1), (place > cut) & (place < last)


def held_out_scores(
    prepared: tuple,
    shares: jax.Array,
    points: jax.Array,
    left: jax.Array,
    right: jax.Array,
    even: jax.Array,
) -> jax.Array:
    """The witness of the odd bins at the even ones and the other way round, shape (n,)."""

    def witness_of(half: jax.Array) -> jax.Array:
        # A side of one bin is in one half only: then it is not held out.
        x, y = (jnp.where(jnp.any(side & half), side & half, side) for side in (left, right))
        weights = _shares(x.astype(points.dtype)) - _shares(y.astype(points.dtype))
        measure = SignedMeasure(points, weights)
        total, start = jnp.zeros(len(points), points.dtype), 0
        for one in prepared:
            stop = start + len(one.filtered.times)
            witness = one.witness(one.moved(measure), shares[start:stop], points.shape[1:])
            total, start = total + witness(points), stop
        return total

    return jnp.where(even, witness_of(~even), witness_of(even))


def _shares(counts: jax.Array) -> jax.Array:
    """Counts over the last axis, as shares of their sum; 0 where there is none."""
    return counts / jnp.maximum(counts.sum(-1, keepdims=True), 1)


def _mean(values: jax.Array, where: jax.Array) -> jax.Array:
    return values @ _shares(where.astype(values.dtype))


def _argmax_between(steps: jax.Array, first: Any, last: Any, low: Any) -> jax.Array:
    """argmax_t Σ_{low ≤ i < t} of the steps, over t from first to last."""
    place = jnp.arange(len(steps) + 1)
    total = jnp.pad(jnp.cumsum(jnp.where(place[:-1] >= low, steps, 0)), (1, 0))
    return jnp.argmax(jnp.where((place >= first) & (place <= last), total, -jnp.inf))


def _drawn_again(
    key: jax.Array, steps: jax.Array, low: Any, frame: Any, high: Any, size: int
) -> jax.Array:
    """How far from the change the argmax of redrawn steps lies, the nearest first: (draws,)."""
    reach = min(_REACH, len(steps))
    k_left, k_right = jax.random.split(key)

    def walk(key: jax.Array, first: Any, last: Any, room: Any) -> jax.Array:
        """Sums of 1, 2, … steps, as far as there is room, in blocks of neighbours from one side."""
        starts = jax.random.uniform(key, (_DRAWS, -(-reach // size)))
        count = jnp.maximum(last - first - size + 1, 1).astype(starts.dtype)
        blocks = (first + jnp.floor(starts * count).astype(int))[..., None] + jnp.arange(size)
        drawn = steps[jnp.clip(blocks, 0, len(steps) - 1)].reshape(_DRAWS, -1)[:, :reach]
        return jnp.where(jnp.arange(1, reach + 1) <= room, jnp.cumsum(drawn, 1), jnp.nan)

    # One frame further back is one step less in the sum. The bin next to the change is not drawn
    # from: its frames have been chosen to lie on this side.
    back = -walk(k_left, low, jnp.maximum(frame - size, low + size), frame - low)
    forth = walk(k_right, jnp.minimum(frame + size, high - size), high, high - frame)
    both = jnp.concatenate([back[:, ::-1], jnp.zeros((_DRAWS, 1), steps.dtype), forth], axis=1)
    found = jnp.argmax(jnp.where(jnp.isnan(both), -jnp.inf, both), axis=1)
    return jnp.sort(jnp.abs(found - reach))


def _contrasts(
    key: jax.Array,
    scores: jax.Array,
    before: jax.Array,
    after: jax.Array,
    correlation: Any,
    size: int,
    n_permutations: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Contrasts of level and of spread of every coordinate, and their adjusted p-values."""
    bins = len(before)
    binned = scores[: bins * size].reshape(bins, size, -1)
    means = jnp.concatenate([binned.mean(1), jnp.abs(binned).mean(1)], axis=1)  # (s, 2d)
    both, count = before | after, n_permutations + 1
    bits = jax.random.bits(key, (count, bins)) >> 1
    others = jnp.uint32(2**32 - 1)
    ranks = jnp.argsort(jnp.argsort(jnp.where(both, bits, others), axis=1), axis=1)
    x = (ranks < before.sum()).at[0].set(before)
    of_x, of_y = (_shares(side.astype(means.dtype)) for side in (x, both & ~x))
    values = (of_y - of_x) @ means
    n, m = (jnp.maximum(side.sum(), 1).astype(means.dtype) for side in (before, after))
    values = values.at[0].divide(jnp.sqrt(raised(n, m, correlation)))
    spread = jnp.sqrt(jnp.mean(values**2, axis=0))
    values = jnp.where(spread > 0, values / jnp.where(spread > 0, spread, 1), 0)
    level, width = jnp.split(values, 2, axis=1)
    largest = jnp.maximum(jnp.abs(level), jnp.abs(width))  # (B + 1, d)
    exceeding = jnp.mean(largest.max(1)[:, None] >= largest[0] - 1e-4, axis=0)
    return level[0], width[0], exceeding
