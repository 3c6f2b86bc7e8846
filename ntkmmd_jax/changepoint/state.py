"""All that a detector knows, as a pytree of flat memory that saves, loads and goes on."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.files import load_leaves, refill, save_leaves, whole_file
from ntkmmd_jax._lib.padding import evenly
from ntkmmd_jax._lib.precision import pinned
from ntkmmd_jax._lib.quick import soon
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.changepoint.chart import WINDOWS, Chart, learned, make_chart, whole_windows
from ntkmmd_jax.changepoint.law import Moments
from ntkmmd_jax.changepoint.rows import Halves, Memory, Rows, rows_of
from ntkmmd_jax.changepoint.threshold import Threshold, given
from ntkmmd_jax.networks import as_network
from ntkmmd_jax.twosample.recipe import from_recipe, recipe

AFTER = ("hold", "rereference")
BLOCK = 64  # frames that go through one program together, wherever batches begin and end
_SCORED = 20  # windows of the reference over which a CUSUM takes the mean of its witness
_KIND = "detector's state"  # of its files
_LAYOUT = 5  # the order of the leaves in them


@record
class Cusum:
    """W ← max(0, W + η/unit − drift), with η the held-out gap of a witness."""

    unit: jax.Array  # () standard deviation of η while nothing changes
    drift: jax.Array  # () in units
    total: jax.Array  # () W
    halves: Halves | None = None  # of the reference, of a test with a fixed kernel


@record
class State:
    """All that the detector knows; `init` makes it."""

    chart: Chart  # T, and what is fixed of it
    reference: jax.Array  # (n, ...) standardised: a bucket, or the frames in use
    frames: jax.Array  # () of the reference
    threshold: jax.Array  # () what T must exceed
    threshold_interval: jax.Array  # (2,) where it may lie, 95 %, as far as the reference says
    moments: Moments  # of T_1, …, T_window while nothing changes
    memory: Memory | None  # of charts of T with rows of a kernel
    moved: Any  # what the reference adds to T of any window, of a test that is so made
    cusum: Cusum | None  # of a detector with drift
    buffer: jax.Array  # (m, ...) frames before the present block, and its own; standardised
    filled: jax.Array  # () frames of the present block
    pending: jax.Array  # (n + BLOCK, ...) of a new reference, as they came
    key: jax.Array  # for the orders of training
    time: jax.Array  # () index of the next frame
    count: jax.Array  # () frames since the reference; negative while a new one is gathered
    alarmed: jax.Array  # () bool: whether the last look was an alarm
    window: int = static()  # frames in it
    shortest: int | None = static()  # of all window lengths; None: the window alone
    stride: int = static()  # frames between two looks
    after: str = static()  # what to do after an event, one of `AFTER`

    @property
    def first(self) -> int:
        """Frames seen at the first look, but for the stride."""
        return self.window if self.shortest is None else self.shortest

    @property
    def rows(self) -> Rows | None:
        """The chart's kernel, if it has rows of one."""
        return chart_rows(self.chart, self.window)

    @property
    def kernel(self) -> Rows | None:
        """The same, of a CUSUM too."""
        return kernel_rows(self.chart, self.window)

    @property
    def recent(self) -> jax.Array:
        """The last `window` frames, standardised, oldest first."""
        start = len(self.buffer) - BLOCK + self.filled - self.window
        return jax.lax.dynamic_slice_in_dim(self.buffer, start, self.window)

    @pinned
    def witness(self) -> Any:
        """The witness of reference and window; it takes frames as `chart.standard` gives them."""
        key = jax.random.fold_in(self.key, self.time - 1)
        real = None if self.rows is None else self.frames
        return self.chart.witness(key, self.reference, self.recent, real)

    def save(self, path: str | os.PathLike, **settings: Any) -> Path:
        """Save to one `.npz` file, as a whole or not at all; `load` goes on from it.

        Args:
            path: The file.
            **settings: What else it shall say of how the detector was made, in plain values, for
                `saved_settings` to tell.
        """
        about = {"window": self.window, "shortest": self.shortest, "stride": self.stride}
        about |= {"after": self.after, "test": recipe(self.chart.test), "layout": _LAYOUT}
        about |= {"features": self.reference.shape[1:], "cusum": self.cusum is not None}
        about |= {"frames": [len(self.reference), len(self.pending)]}
        return save_leaves(path, self, kind=_KIND, settings=settings, **about)


def chart_rows(chart: Chart, window: int) -> Rows | None:
    """The kernel of a chart of T, if it has rows of one."""
    return None if chart.held else kernel_rows(chart, window)


def kernel_rows(chart: Chart, window: int) -> Rows | None:
    """The kernel of a chart of T or of η, if its test has a fixed one."""
    return rows_of(chart.test, chart.prepared, _buffered(window))


def _buffered(window: int) -> int:
    """Frames of the buffer: whole blocks that hold a window before the present one."""
    return (-(-window // BLOCK) + 1) * BLOCK


def in_use(held: int, frames: int, window: int) -> int:
    """How many frames of a reference T takes where every look passes over them: whole windows."""
    return min(whole_windows(frames, window), (WINDOWS + (_SCORED if held else 0)) * window)


def start(
    chart: Chart,
    reference: jax.Array,
    n: Any,
    found: Threshold,
    key: jax.Array,
    *,
    used: int,
    cusum: Cusum | None = None,
    time: Any = 0,
    window: int,
    shortest: int | None,
    stride: int,
    after: str,
) -> State:
    """A state before its first frame.

    Args:
        chart: T, and what is fixed of it.
        reference: In its own coordinates: its frames, or a bucket of them.
        n: How many of a bucket are real.
        found: The threshold.
        key: For the orders of training.
        used: How many of them T takes, unless it has rows of a kernel.
        cusum: Of a detector with drift.
        time: Index of the first frame to come.
        window: Frames in the window.
        shortest: Of all window lengths.
        stride: Frames between two looks.
        after: What follows an alarm.
    """
    rows, shape = chart_rows(chart, window), reference.shape[1:]
    standard, memory, moved = chart.standard(reference), None, None
    if rows is None:
        standard = standard[evenly(n, used)]
        moved = chart.moved(standard)
        kernel = kernel_rows(chart, window)
        if cusum is not None and kernel is not None:
            halves = Halves.of(kernel, standard, learned(used, window))
            cusum = dataclasses.replace(cusum, halves=halves)
    else:
        memory = Memory.of(rows, standard, window, _buffered(window), n)
    zero, gathered = jnp.zeros((), int), len(reference) + BLOCK if after == "rereference" else 0
    buffer, pending = (
        jnp.zeros((length, *shape), reference.dtype) for length in (_buffered(window), gathered)
    )
    return State(
        chart, standard, jnp.asarray(n, int), found.value, found.interval, found.moments,
        memory, moved, cusum, buffer, zero, pending, key, zero + time, zero, zero > 0,
        window=int(window), shortest=shortest, stride=int(stride), after=after,
    )  # fmt: skip


begin = soon(start, static_argnames=("used", "window", "shortest", "stride", "after"))


def load(path: str | os.PathLike, *, network: Any = None) -> State:
    """Read a saved state, to go on with.

    Args:
        path: What `State.save` wrote.
        network: The network of the test, only if it is a function of your own.
    """
    network = None if network is None else as_network(network)
    leaves, header = load_leaves(path, _KIND)
    if header.get("layout") != _LAYOUT:
        raise ValueError(f"{path}: a state of an earlier version; make it anew from its reference")
    with whole_file(path):
        about = {name: header[name] for name in ("window", "shortest", "stride", "after")}
        check_sizes(about["window"], about["shortest"], about["stride"])
        check_after(about["after"])
        test, shape = from_recipe(header["test"], network), tuple(header["features"])
        used, pending = header["frames"]
        like = jax.ShapeDtypeStruct((used, *shape), jnp.result_type(float))

        def blank(key: jax.Array, reference: jax.Array) -> State:
            held = about["stride"] if header["cusum"] else 0
            options: Any = {"standardize": True, "held": held}
            chart = make_chart(key, test, reference, about["window"], **options)
            more = {"cusum": Cusum(*jnp.zeros((3, 1))[:, 0]) if held else None, "used": used}
            blank = given(0.0, about["window"])
            state = start(chart, reference, used, blank, key, **more, **about)
            gathered = jnp.zeros((pending, *shape), reference.dtype)
            return dataclasses.replace(state, pending=gathered)

        return refill(jax.eval_shape(blank, jax.random.key(0), like), leaves, source=str(path))


def saved_settings(path: str | os.PathLike) -> dict[str, Any]:
    """How the detector of a saved state was made, as far as its file says."""
    _, header = load_leaves(path, _KIND)
    with whole_file(path):
        known = {name: header[name] for name in ("window", "shortest", "stride", "after")}
        return known | dict(header.get("settings", {}))


def check_sizes(window: Any, shortest: Any, stride: Any) -> None:
    """Refuse sizes that are no whole numbers, or too small, or a shortest above the longest."""
    for name, value, least in (("window", window, 2), ("stride", stride, 1)):
        whole(name, value, least)
    if shortest is not None:
        whole("shortest", shortest, 1)
        if not shortest <= window:
            raise ValueError(f"shortest must be at most window, {window}; got {shortest}")


def check_after(after: Any) -> None:
    """Refuse an unknown way to go on after an alarm."""
    if after not in AFTER:
        raise ValueError(f"after must be one of {AFTER}; got {after!r}")


def first_time(times: Any, alarms: Any) -> int | None:
    """The time of the first alarm, or None."""
    raised = np.asarray(alarms)
    return int(np.asarray(times)[raised.argmax()]) if raised.any() else None
