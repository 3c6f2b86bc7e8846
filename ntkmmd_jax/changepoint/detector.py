"""The streaming detector: `init` takes the reference and finds the threshold, `step` takes frames.

    state = init(key, reference, window=100)
    state, report = step(state, frames)

Both are pure. Every `stride` frames, once the window is full, T of reference and window is held
against the threshold; with `shortest`, the largest of the standardised T of all window lengths.

Frames go through programs of `BLOCK` frames that begin where the detector did, whatever batches
they come in: a frame has the same place in the same program, and so the same bits.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.padding import rows_in_bucket
from ntkmmd_jax._lib.points import as_array, as_points, cast, check_finite
from ntkmmd_jax._lib.precision import jit, pinned
from ntkmmd_jax._lib.progress import working
from ntkmmd_jax._lib.quick import soon
from ntkmmd_jax.calibration import check_level
from ntkmmd_jax.changepoint.by_parts import of_test
from ntkmmd_jax.changepoint.by_rows import of_rows
from ntkmmd_jax.changepoint.chart import Chart, chart_test, make_chart
from ntkmmd_jax.changepoint.cusum import of_cusum
from ntkmmd_jax.changepoint.state import (
    BLOCK,
    Cusum,
    State,
    begin,
    chart_rows,
    check_after,
    check_sizes,
    in_use,
    kernel_rows,
)
from ntkmmd_jax.changepoint.threshold import (
    OF_CUSUM,
    OF_HALVES,
    WINDOWS,
    Wanted,
    given,
    warn_if_doubtful,
)
from ntkmmd_jax.changepoint.trained import of_trained, tangent_rows
from ntkmmd_jax.changepoint.watch import Report, advance
from ntkmmd_jax.twosample import TwoSampleTest
from ntkmmd_jax.twosample.learning import WitnessTest
from ntkmmd_jax.twosample.taught import beside, taught


@pinned
def init(
    key: Any,
    reference: Any,
    *,
    window: int,
    shortest: int | None = None,
    stride: int = 10,
    test: Any = "net",
    standardize: bool = True,
    level: float = 0.01,
    arl: float | None = None,
    threshold: float | None = None,
    drift: float | None = None,
    block: int | None = None,
    n_draws: int | None = None,
    after: str = "hold",
    time: int = 0,
) -> State:
    """Take the reference, fix the chart and find the threshold.

    A reference that is too short for what is asked, for its memory, is told of in a warning, with
    the number of frames that would do; `State.threshold_interval` is what it leaves open.

    Args:
        key: A JAX key or an int seed; of `ntk` and alike for θ0 and the draws behind the threshold.
        reference: Frames without change, in their order, array-like (N, ...). A test that learns
            from them beforehand, as "ntk-fuse" does, has the first half for that, and is held
            against the second.
        window: Frames in the window.
        shortest: Watch all window lengths from this to `window`, each standardised, for the largest
            (online kernel CUSUM, Wei & Xie 2022); of tests with a fixed kernel, `ntk` and `gmmd`.
        stride: Frames between two looks.
        test: Any method by name, or a test object.
        standardize: Whether to give every coordinate mean 0 and spread 1 over the reference, and
            to leave none more than 5 from the mean.
        level: Probability of a false alarm per look.
        arl: Instead: the average run length to a false alarm, in frames from the start.
        threshold: Instead: the threshold itself.
        drift: Add up what the witness of the window gains on each `stride` frames that it has not
            seen, in standard deviations, less this drift (CUSUM); of tests with a witness. From .25
            on the sum settles within some 100 looks, and its level is that of any later one.
        block: Frames of the blocks in which the reference is resampled; unless given, as long as
            it remembers, by its autocorrelation.
        n_draws: Windows, or streams, drawn from the reference: 2,000 windows of a test with a
            kernel, beside 32 on which a network is trained; 1,000 of others, and 1,000 streams
            behind a run length or all lengths; 400 where a test learns for each, and of a CUSUM.
        after: What follows an alarm: "hold" keeps the reference, and alarms last as long as T is
            high; "rereference" takes as many frames as the reference has for the new one, with its
            own coordinates and law.
        time: Index of the first frame to come.
    """
    reference = as_points(reference, "the reference")
    check_finite(reference, "the reference")
    sizes = {"window": window, "stride": stride}
    check_sizes(window, shortest, stride)
    test, total = chart_test(test, window), len(reference)
    points, reference = taught(test, reference)
    learned = total - len(reference)
    _check_options(reference, learned, window, shortest, stride, arl, threshold, drift, after)
    if block is not None:
        whole("block", block)
        if not block <= len(reference) // 4:
            raise ValueError(f"block must be at most a quarter of the reference; got {block}")
    k_chart, k_threshold, k_looks = jax.random.split(as_key(key), 3)
    held, size = 0 if drift is None else stride, len(reference)
    points, n, least = rows_in_bucket(points)
    options: Any = {"standardize": standardize, "held": held, "n": n, "least": least}
    chart = make_chart(k_chart, test, points, window, **options)
    if test.fits:
        reference, n, _ = rows_in_bucket(reference)
    else:
        reference = points
    rows, used = chart_rows(chart, window), in_use(held, size, window)
    standard, cusum, found = _standard(chart, reference), None, None
    tangent = None if drift is not None or rows is not None else tangent_rows(chart, standard)
    if n_draws is None:
        if rows is not None or tangent is not None:
            n_draws = 2000 if (arl, shortest) == (None, None) else 1000
        else:
            n_draws = 400 if drift is not None or _learns(test) else 1000
    whole("n_draws, the windows or streams behind the threshold,", n_draws)
    check_level(level, None if (threshold, arl) != (None, None) else n_draws)
    if shortest is not None and rows is None:
        raise ValueError(
            f"all window lengths are for tests with a fixed kernel, such as ntk and gmmd; "
            f"{test.method} has one window"
        )
    wanted = Wanted(level=level, arl=arl, draws=n_draws, block=block, **sizes)
    asked = standard, n, wanted
    if threshold is not None:
        found = given(threshold, window)
    with working(f"threshold of {test.method}"):
        if rows is not None and (found is None or shortest is not None):
            found = of_rows(k_threshold, rows, *asked, shortest=shortest, fixed=threshold)
        elif drift is not None:
            kernel = kernel_rows(chart, window)
            law, unit = of_cusum(k_threshold, chart, kernel, *asked, size=used, drift=drift)
            found = found or law
            cusum = Cusum(unit, jnp.asarray(drift, unit.dtype), jnp.zeros_like(unit))
        elif found is None and tangent is not None:
            found = of_trained(k_threshold, chart, tangent, *asked, size=used)
        elif found is None:
            found = of_test(k_threshold, chart, *asked, size=used)
        jax.block_until_ready(found.value)
    if not np.isfinite(found.value):
        raise ValueError(
            f"the statistics of the reference have no quantile ({found.value}): the training "
            "diverges, or the covariance is singular; check the reference, or give a smaller "
            "learning rate"
        )
    if threshold is None:
        times = 1.0 if drift is None else OF_CUSUM
        halves = arl is not None and drift is None and rows is None and tangent is None
        windows = WINDOWS * (OF_HALVES if halves else 1)
        told = {"times": times, "windows": windows, "learned": learned}
        warn_if_doubtful(found, size, window, **told)
    about: Any = {**sizes, "shortest": shortest, "after": after, "time": time, "used": used}
    return begin(chart, reference, n, found, k_looks, cusum=cusum, **about)


def _learns(test: TwoSampleTest) -> bool:
    """Whether T of a pair of samples is of something learned from that pair."""
    return test.split_at is not None or isinstance(test, WitnessTest)


@soon
def _standard(chart: Chart, frames: jax.Array) -> jax.Array:
    return chart.standard(frames)


def _check_options(
    reference: jax.Array,
    learned: int,
    window: int,
    shortest: int | None,
    stride: int,
    arl: float | None,
    threshold: float | None,
    drift: float | None,
    after: str,
) -> None:
    if len(reference) < window + 2:
        raise ValueError(
            f"a window of {window} frames needs a longer reference: it has {len(reference)}"
            f"{beside(learned)}; "
            f"{WINDOWS} windows ({WINDOWS * window} frames) or more are best"
        )
    if threshold is None and not np.ptp(np.asarray(reference), axis=0).any():
        raise ValueError(
            f"the reference stands still: its {len(reference)} frames are all the same, and do not "
            "say how far frames go while nothing changes; take others, or give a threshold"
        )
    if arl is not None and threshold is not None:
        raise ValueError(f"give arl or threshold, not both; got {arl} and {threshold}")
    if arl is not None and not 2 * window < arl < float("inf"):
        raise ValueError(f"arl must exceed two windows, {2 * window} frames; got {arl}")
    if drift is not None and not (0 <= drift < float("inf") and shortest is None):
        raise ValueError(f"drift is a number of at least 0, without shortest; got {drift}")
    if drift is not None and not stride < window:
        raise ValueError(f"drift: the stride, {stride}, must be shorter than the window, {window}")
    check_after(after)


def step(state: State, frames: Any) -> tuple[State, Report]:
    """Take frames (k, ...), or a single one, in order: the new state, and a report on each.

    Frames one at a time or many at once give the same state and the same alarms. Frames that are
    not finite, or of another width, are an error, and the state given is as it was.

    Args:
        state: As `init` or the last `step` gave it.
        frames: Array-like, in order.
    """
    frames = as_frames(frames, state.reference.shape[1:])
    return jitted_step(state, frames, len(frames))


def as_frames(frames: Any, features: tuple[int, ...]) -> jax.Array:
    """Frames (k, ...) of finite numbers, out of anything array-like; a single one has k = 1."""
    if isinstance(frames, int | float) or getattr(frames, "ndim", 1) == 0:  # of one coordinate
        frames = jnp.reshape(frames, 1)
    points = cast(as_array(frames, "the frames"))
    if points.shape[1:] != features and points.shape in (features, (*features, 1)):  # a single one
        points = points.reshape(1, *features)
    if points.shape[1:] != features:
        raise ValueError(
            f"the detector takes frames of shape {features}, or many of them; got {points.shape}"
        )
    if not isinstance(points, Tracer):
        check_finite(points, "the frames")
    return points


@jit
def jitted_step(state: State, frames: jax.Array, n: Any) -> tuple[State, Report]:
    """`step` without its checks, of the first n frames; what it says of others means nothing."""
    k = len(frames)
    frames = jnp.concatenate([frames, jnp.zeros((BLOCK, *frames.shape[1:]), frames.dtype)])
    blank = jnp.zeros(k + BLOCK, bool)
    times = jnp.zeros(k + BLOCK, state.time.dtype)
    said = Report(times, blank, jnp.zeros(k + BLOCK, frames.dtype), blank, blank)

    def take(carry: tuple) -> tuple:
        state, said, at = carry
        block = jax.lax.dynamic_slice_in_dim(frames, at, BLOCK)
        state, new, used = advance(state, block, jnp.minimum(n - at, BLOCK))
        write = lambda old, new: jax.lax.dynamic_update_slice(old, new, (at,))  # noqa: E731
        return state, jax.tree.map(write, said, new), at + used

    begin = (state, said, jnp.zeros((), int))
    state, said, _ = jax.lax.while_loop(lambda carry: carry[2] < n, take, begin)
    return state, jax.tree.map(lambda leaf: leaf[:k], said)


def check_statistics(statistics: np.ndarray) -> None:
    """Refuse looks that say nothing."""
    if np.isnan(statistics).any():
        raise ValueError(
            "T is not a number: the training diverges (choose a smaller learning rate), or the "
            "covariance of a window is singular"
        )
