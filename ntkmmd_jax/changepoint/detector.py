"""The streaming detector: `init` draws the reference and the threshold, `step` takes frames.

    state = init(key, reference, window=100)
    state, report = step(state, frames)

Both are pure, and the state is a pytree of O(window) memory that saves, loads and goes on. Every
`stride` frames, once the window is full, T of reference and window is held against the threshold.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.files import load_leaves, refill, save_leaves, whole_file
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_array, as_points, cast, check_finite
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.calibration import check_level
from ntkmmd_jax.changepoint.chart import Chart, chart_test, make_chart
from ntkmmd_jax.changepoint.threshold import calibrated
from ntkmmd_jax.networks import as_network
from ntkmmd_jax.twosample.recipe import from_recipe, recipe

AFTER = ("hold", "rereference")
_KIND = "detector's state"  # of its files
_LAYOUT = 2  # the order of the leaves in them


@record
class Report:
    """What `step` says of each of its k frames."""

    times: jax.Array  # (k,) index of the frame in the stream
    looked: jax.Array  # (k,) bool: whether there was a look after it
    statistics: jax.Array  # (k,) T, where looked; else NaN
    alarms: jax.Array  # (k,) bool: T exceeds the threshold
    events: jax.Array  # (k,) bool: an alarm where the look before had none

    @property
    def first_alarm(self) -> int | None:
        """The frame at which the first alarm is raised, or None."""
        return first_time(self.times, self.alarms)


def first_time(times: jax.Array, alarms: jax.Array) -> int | None:
    """The time of the first alarm, or None."""
    raised = np.asarray(alarms)
    return int(np.asarray(times)[raised.argmax()]) if raised.any() else None


@record
class State:
    """All that the detector knows; `init` makes it."""

    chart: Chart
    reference: jax.Array  # (window, ...) standardised
    buffer: jax.Array  # (window, ...) the last frames, standardised, oldest first
    threshold: jax.Array  # ()
    key: jax.Array  # for the orders of training
    time: jax.Array  # () index of the next frame
    count: jax.Array  # () frames since the reference; negative while a new one is gathered
    alarmed: jax.Array  # () bool: whether the last look was an alarm
    stride: int = static()
    after: str = static()  # what to do after an event, one of `AFTER`

    @property
    def window(self) -> int:
        """Frames in the window, and in the reference block."""
        return len(self.reference)

    def witness(self) -> Any:
        """The witness of reference and window; it takes frames as `chart.standard` gives them."""
        key = jax.random.fold_in(self.key, self.time - 1)
        return self.chart.witness(key, self.reference, self.buffer)

    def save(self, path: str | os.PathLike, **settings: Any) -> Path:
        """Save to one `.npz` file, as a whole or not at all; `load` goes on from it.

        Args:
            path: The file.
            **settings: What else it shall say of how the detector was made, in plain values, for
                `saved_settings` to tell.
        """
        about = {"window": self.window, "features": self.reference.shape[1:]}
        about |= {"stride": self.stride, "after": self.after, "test": recipe(self.chart.test)}
        about |= {"layout": _LAYOUT}
        return save_leaves(path, self, kind=_KIND, settings=settings, **about)


def load(path: str | os.PathLike, *, network: Any = None) -> State:
    """Read a saved state; `network` only if it is a function of your own."""
    network = None if network is None else as_network(network)
    leaves, header = load_leaves(path, _KIND)
    if header.get("layout") != _LAYOUT:
        raise ValueError(f"{path}: a state of an earlier version; make it anew from its reference")
    with whole_file(path):
        window, stride, after = (header[name] for name in ("window", "stride", "after"))
        check_sizes(window, stride)
        check_after(after)
        test = from_recipe(header["test"], network)

        def blank(key: jax.Array, reference: jax.Array) -> State:
            chart = make_chart(key, test, reference, window, standardize=True)
            return _start(chart, reference, jnp.zeros(()), key, 0, stride, after)

        like = jax.ShapeDtypeStruct((window, *header["features"]), jnp.result_type(float))
        return refill(jax.eval_shape(blank, jax.random.key(0), like), leaves, source=str(path))


def saved_settings(path: str | os.PathLike) -> dict[str, Any]:
    """How the detector of a saved state was made, as far as its file says."""
    _, header = load_leaves(path, _KIND)
    with whole_file(path):
        known = {name: header[name] for name in ("window", "stride", "after")}
        return known | dict(header.get("settings", {}))


def init(
    key: Any,
    reference: Any,
    *,
    window: int,
    stride: int = 10,
    test: Any = "net",
    standardize: bool = True,
    level: float = 0.01,
    arl: float | None = None,
    threshold: float | None = None,
    contiguous: bool = True,
    n_draws: int | None = None,
    after: str = "hold",
    time: int = 0,
) -> State:
    """Draw the reference block, fix the chart and find the threshold.

    Args:
        key: A JAX key or an int seed.
        reference: Pool of frames without change, array-like (N, ...); the reference block and the
            pilot blocks come from it.
        window: Frames in the window, and in the reference block.
        stride: Frames between two looks.
        test: Any method by name, or a test object.
        standardize: Whether to give every coordinate mean 0 and spread 1 over the reference.
        level: Probability of a false alarm per look.
        arl: Instead: the average run length to a false alarm, in frames from the start.
        threshold: Instead: the threshold itself.
        contiguous: Whether blocks of the reference are runs of neighbours, which keeps serial
            dependence; else frames at random, which makes more of independent frames.
        n_draws: Pairs of blocks (400 by default), or streams for `arl` (1,000).
        after: What follows an alarm: "hold" keeps the reference, and alarms last as long as T is
            high; "rereference" takes the next `window` frames for the new reference, and keeps
            threshold and standardisation.
        time: Index of the first frame to come.
    """
    key = as_key(key)
    reference = as_points(reference, "the reference")
    check_finite(reference, "the reference")
    _check_options(reference, window, stride, arl, threshold, after)
    if n_draws is None:
        n_draws = 400 if arl is None else 1000
    if not isinstance(n_draws, int | np.integer) or isinstance(n_draws, bool) or n_draws < 1:
        raise ValueError(
            "n_draws, the pairs of blocks or the streams behind the threshold, must be a whole "
            f"number of at least 1; got {n_draws!r}"
        )
    check_level(level, None if (threshold, arl) != (None, None) else n_draws)
    k_chart, k_block, k_threshold, k_looks = jax.random.split(key, 4)
    chart = make_chart(
        k_chart, chart_test(test, window), reference, window, standardize=standardize
    )
    options = {"window": window, "stride": stride, "arl": arl, "n_draws": n_draws}
    block, found = calibrated(
        k_block, k_threshold, chart, reference, level, threshold, contiguous=contiguous, **options
    )
    if not np.isfinite(found):
        raise ValueError(
            f"the pilot statistics have no quantile ({found}): the training diverges, or the "
            "covariance is singular; check the reference, or give a smaller learning rate"
        )
    return _start(chart, block, found, k_looks, time, stride, after)


def check_sizes(window: Any, stride: Any) -> None:
    """Refuse sizes that are no whole numbers, or too small."""
    for name, value, least in (("window", window, 2), ("stride", stride, 1)):
        whole(name, value, least)


def check_after(after: Any) -> None:
    """Refuse an unknown way to go on after an alarm."""
    if after not in AFTER:
        raise ValueError(f"after must be one of {AFTER}; got {after!r}")


def _check_options(
    reference: jax.Array,
    window: int,
    stride: int,
    arl: float | None,
    threshold: float | None,
    after: str,
) -> None:
    check_sizes(window, stride)
    if len(reference) < window + 2:
        raise ValueError(
            f"a window of {window} frames needs a longer reference: it has {len(reference)}; "
            f"two windows ({2 * window} frames) or more are best"
        )
    if arl is not None and threshold is not None:
        raise ValueError(f"give arl or threshold, not both; got {arl} and {threshold}")
    if arl is not None and not 2 * window < arl < float("inf"):
        raise ValueError(f"arl must exceed two windows, {2 * window} frames; got {arl}")
    check_after(after)


def _start(
    chart: Chart, block: jax.Array, threshold: Any, key: Any, time: int, stride: int, after: str
) -> State:
    zero = jnp.zeros((), jnp.int32)
    return State(
        chart, block, jnp.zeros_like(block), threshold, key, zero + time, zero, zero > 0,
        stride=int(stride), after=after,
    )  # fmt: skip


def step(state: State, frames: Any) -> tuple[State, Report]:
    """Take frames (k, ...), or a single one, in order: the new state, and a report on each.

    Frames one at a time or many at once give the same state and the same alarms. Frames that are
    not finite, or of another width, are an error, and the state given is as it was.
    """
    return jitted_step(state, as_frames(frames, state.reference.shape[1:]))


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


@jax.jit
def jitted_step(state: State, frames: jax.Array) -> tuple[State, Report]:
    """`step` without its checks."""
    return jax.lax.scan(take_frame, state, frames)


def take_frame(state: State, frame: jax.Array) -> tuple[State, Report]:
    """One frame: into the window and, if it is time for a look, T against the threshold."""
    window, time, count = state.window, state.time, state.count + 1
    buffer = jnp.concatenate([state.buffer[1:], state.chart.standard(frame)[None]])
    reference = jnp.where(count == 0, buffer, state.reference)  # a new one has been gathered
    looked = (count >= window) & (count % state.stride == 0)
    statistic = jax.lax.cond(
        looked,
        lambda: state.chart(jax.random.fold_in(state.key, time), reference, buffer),
        lambda: jnp.full((), jnp.nan, buffer.dtype),
    )
    alarm = looked & (statistic > state.threshold)
    event = alarm & ~state.alarmed
    alarmed = jnp.where(looked, alarm, state.alarmed)
    if state.after == "rereference":
        count, alarmed = jnp.where(event, -window, count), alarmed & ~event
    new = {"time": time + 1, "count": count, "alarmed": alarmed}
    state = dataclasses.replace(state, reference=reference, buffer=buffer, **new)
    return state, Report(time, looked, statistic, alarm, event)


def check_statistics(statistics: np.ndarray) -> None:
    """Refuse looks that say nothing."""
    if np.isnan(statistics).any():
        raise ValueError(
            "T is not a number: the training diverges (choose a smaller learning rate), or the "
            "covariance of a window is singular"
        )
