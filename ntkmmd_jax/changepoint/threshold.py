"""Thresholds from pilot data: the reference says how large T is when nothing has changed.

*Per look*: T between two disjoint blocks of it, retrained each time, is a null sample; the
threshold at level α is exceeded by a single look with probability α.

*For an average run length* A to a false alarm: looks overlap and share their block, so their
alarms come in clusters and a level per look says little about A. Instead whole streams are drawn
from the reference and watched against the block in use. Once the first window is full, false
alarms come at a nearly constant rate, so the run length beyond the window is nearly exponential,

    P(max of T over h frames > b) = 1 − exp(−(h − w) / (A − w)),

and b is that quantile of the maxima over h = A/4 frames. Among 1,000 streams about 220 exceed it,
which makes A good to 7 %, if the reference is: it should be much longer than the window.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import calibration
from ntkmmd_jax.changepoint.chart import Chart
from ntkmmd_jax.twosample.pilot import AT_ONCE, pair_statistics


def look_counts(length: int, window: int, stride: int) -> np.ndarray:
    """How many frames have been seen at each look: every `stride`, once the window is full."""
    first = -(-window // stride) * stride
    return np.arange(first, length + 1, stride)


def statistics(
    key: jax.Array,
    chart: Chart,
    block: jax.Array,
    frames: jax.Array,
    counts: np.ndarray,
    start: Any = 0,
) -> jax.Array:
    """T of the reference block against the window before every look, all standardised.

    Args:
        key: For the orders of training.
        chart: The statistic.
        block: Block of frames, as many as a window has.
        frames: The stream (N, ...).
        counts: Frames seen at each look, as `look_counts` gives them.
        start: Index of the first frame.
    """
    window = len(block)

    def look(count: jax.Array) -> jax.Array:
        seen = jax.lax.dynamic_slice_in_dim(frames, count - window, window)
        return chart(jax.random.fold_in(key, start + count - 1), block, seen)

    return jax.lax.map(look, jnp.asarray(counts), batch_size=AT_ONCE)


def pair_null(
    key: jax.Array, chart: Chart, reference: jax.Array, window: int, n_draws: int, contiguous: bool
) -> jax.Array:
    """Null sample (B,) of T per look: pairs of disjoint blocks of the standardised reference.

    One of less than two windows is cut into halves, and T is scaled as it goes with n under H0:
    by half / window for an MMD², by its root for a mean, not at all for Hotelling's T².
    """
    size, test = min(window, len(reference) // 2), chart.test
    scale, centre = (size / window) ** test.null_order, test.null_centre
    test.check_samples(size, size, reference.shape[1:])
    keys = jax.random.split(key, n_draws)
    values = pair_statistics(keys, chart, reference, (size, size), contiguous)
    return centre + scale * (values - centre)


def drawn_stream(key: jax.Array, reference: jax.Array, length: int, run: int) -> jax.Array:
    """A stream of its frames: runs of so many neighbours, at random, with replacement."""
    run = min(run, len(reference))
    starts = jax.random.randint(key, (-(-length // run),), 0, len(reference) - run + 1)
    return reference[(starts[:, None] + jnp.arange(run)).reshape(-1)[:length]]


def arl_threshold(
    key: jax.Array,
    chart: Chart,
    block: jax.Array,
    reference: jax.Array,
    stride: int,
    arl: float,
    n_runs: int,
    contiguous: bool,
) -> jax.Array:
    """The threshold for an average run length of `arl` frames from the start to a false alarm.

    Args:
        key: For the streams.
        chart: The statistic.
        block: The reference block in use.
        reference: Standardised frames that are not in it.
        stride: Frames between two looks.
        arl: A.
        n_runs: Streams.
        contiguous: Whether a stream is made of runs of `window` neighbours, or of single frames.
    """
    window = len(block)
    horizon = stride * math.ceil(max(arl / 4, 4 * window) / stride)
    counts = look_counts(horizon, window, stride)

    def largest(key: jax.Array) -> jax.Array:
        k_stream, k_looks = jax.random.split(key)
        frames = drawn_stream(k_stream, reference, horizon, window if contiguous else 1)
        return jnp.max(statistics(k_looks, chart, block, frames, counts))

    maxima = jax.lax.map(largest, jax.random.split(key, n_runs))
    return calibration.threshold(maxima, 1 - math.exp(-(horizon - window) / (arl - window)))


@jax.jit(static_argnames=("window", "stride", "arl", "n_draws", "contiguous"))
def calibrated(
    k_block: jax.Array,
    k_threshold: jax.Array,
    chart: Chart,
    reference: jax.Array,
    level: Any,
    threshold: Any,
    *,
    window: int,
    stride: int,
    arl: float | None,
    n_draws: int,
    contiguous: bool,
) -> tuple[jax.Array, jax.Array]:
    """The reference block, drawn from the reference and standardised, and the threshold.

    Args:
        k_block: For the block.
        k_threshold: For the pilot draws.
        chart: The statistic.
        reference: Frames (N, ...).
        level: Of a look.
        threshold: The threshold itself, or None.
        window: Frames in the block.
        stride: Frames between two looks.
        arl: The average run length, or None.
        n_draws: Pairs of blocks, or streams.
        contiguous: Whether blocks are runs of neighbours.
    """
    reference = chart.standard(reference)
    if contiguous:
        first = jax.random.randint(k_block, (), 0, len(reference) - window + 1)
        shuffled = jnp.roll(reference, -first, axis=0)
    else:
        shuffled = jax.random.permutation(k_block, reference)
    block, others = shuffled[:window], shuffled[window:]
    if threshold is not None:
        return block, jnp.asarray(threshold, reference.dtype)
    if arl is not None:
        return block, arl_threshold(
            k_threshold, chart, block, others, stride, arl, n_draws, contiguous
        )
    null = pair_null(k_threshold, chart, reference, window, n_draws, contiguous)
    return block, calibration.threshold(null, level)
