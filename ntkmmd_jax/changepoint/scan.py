"""The paper's Shewhart chart over a recorded series: a reference against sliding windows."""

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.files import load_leaves, save_leaves, whole_file
from ntkmmd_jax._lib.points import as_points, check_finite
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.changepoint.detector import check_statistics, init
from ntkmmd_jax.changepoint.event import Event, event_at
from ntkmmd_jax.changepoint.live import run
from ntkmmd_jax.changepoint.state import BLOCK, State, check_sizes, first_time
from ntkmmd_jax.changepoint.threshold import look_counts
from ntkmmd_jax.changepoint.watch import Report

_TOLD = 5  # events of a window, in words


@record
class Scan:
    """Statistics of a series at every look.

    Of several windows it has a leading axis, with NaN until each is full; iterate over it, or take
    `scan[100]`, for the scans of single windows.
    """

    times: jax.Array  # (k,) index of the last frame of the window
    statistics: jax.Array  # (..., k) T
    threshold: jax.Array  # (...) what T must exceed
    threshold_interval: jax.Array  # (..., 2) where it may lie, 95 %, as far as the reference says
    window: int | tuple[int, ...] = static()  # frames in it, or in each of several
    stride: int = static()  # frames between two looks
    reference: tuple[int, int] = static()  # its frames: from, and before
    method: str = static()  # of the test
    events: tuple[Event, ...] = static(default=())  # of all windows: alarms after looks without

    @property
    def alarms(self) -> jax.Array:
        """Where the statistic exceeds the threshold, shape (..., k)."""
        return self.statistics > self.threshold[..., None]

    @property
    def first_alarm(self) -> Any:
        """The frame at which the first alarm is raised, or None; a list for several windows."""
        return self._each(lambda one: first_time(one.times, one.alarms))

    def delay(self, change: int) -> Any:
        """Frames seen since the change, that of the first alarm included, or None if there is none.

        As in `run_lengths`: an alarm at the frame of the change itself has delay 1. A list for
        several windows.
        """

        def of_one(one: Scan) -> int | None:
            alarm = first_time(one.times, one.alarms & (one.times >= change))
            return None if alarm is None else alarm - change + 1

        return self._each(of_one)

    def false_alarms(self, change: int) -> Any:
        """Alarms before the change, and looks before it; a list of pairs for several windows."""

        def of_one(one: Scan) -> tuple[int, int]:
            before = np.asarray(one.times) < change
            return int(np.sum(np.asarray(one.alarms)[before])), int(before.sum())

        return self._each(of_one)

    def __iter__(self) -> Iterator["Scan"]:
        return (self[window] for window in self._windows)

    def __getitem__(self, window: int) -> "Scan":
        """The scan with one window size."""
        if window == self.window:
            return self
        if not isinstance(self.window, tuple) or window not in self.window:
            raise KeyError(f"no window {window!r}; there is {self.window}")
        i = self.window.index(window)
        full = ~np.isnan(self.statistics[i])
        about: dict[str, Any] = self._about | {"window": window}
        about["events"] = tuple(event for event in self.events if event.window == window)
        chosen = self.statistics[i][full], self.threshold[i], self.threshold_interval[i]
        return Scan(self.times[full], *chosen, **about)

    @property
    def _windows(self) -> tuple[int, ...]:
        return self.window if isinstance(self.window, tuple) else (self.window,)

    @property
    def _about(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("method", "window", "stride", "reference")}

    def _each(self, found: Callable[["Scan"], Any]) -> Any:
        several = isinstance(self.window, tuple)
        return [found(one) for one in self] if several else found(self)

    def plot(self, ax: Any = None, *, change: int | None = None) -> Any:
        """Statistic and threshold over time, as in the paper's Figure 4."""
        from ntkmmd_jax import plotting

        return plotting.scan(self, ax=ax, change=change)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values; None before a window is full."""
        rows, nothing = np.asarray(self.statistics), np.array(None, object)
        return self._about | {
            "times": np.asarray(self.times).tolist(),
            "statistics": np.where(np.isnan(rows), nothing, rows.astype(object)).tolist(),
            "threshold": np.asarray(self.threshold).tolist(),
            "threshold_interval": np.asarray(self.threshold_interval).tolist(),
            "alarms": np.asarray(self.alarms).tolist(),
            "first_alarm": self.first_alarm,
            "events": [event.to_dict() for event in self.events],
        }

    def save(self, path: str | os.PathLike) -> Path:
        """Save to one `.npz` file; `load` reads it back."""
        told = [event.to_dict() for event in self.events]
        return save_leaves(path, self, kind="Scan", **self._about, events=told)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Scan":
        """Read a saved scan."""
        leaves, header = load_leaves(path, "Scan")
        with whole_file(path):
            about: Any = {
                name: tuple(v) if isinstance(v, list) else v for name, v in header.items()
            }
            about["events"] = tuple(map(Event.from_dict, about.get("events", ())))
            times, statistics, threshold, interval = map(jnp.asarray, leaves)
            found = cls(times, statistics, threshold, interval, **about)
            for window in found._windows:
                check_sizes(window, None, found.stride)
            _bounds(found.reference, found.reference[1])
            lead = (len(found.window),) if isinstance(found.window, tuple) else ()
            shapes = found.statistics.shape, found.threshold.shape, interval.shape
            if shapes != ((*lead, *times.shape), lead, (*lead, 2)) or times.ndim != 1:
                raise ValueError(f"statistics and thresholds of shapes {shapes}")
            return found

    def __repr__(self) -> str:
        lines = [f"Scan with {self.method!r}: a look every {self.stride} frames"]
        for one in self:
            first = one.first_alarm
            said = "no alarm" if first is None else f"first alarm at frame {first}"
            share = f"{int(np.sum(one.alarms))} of {len(one.times)} looks above"
            lines.append(f"  window {one.window}: {said}, {share} {float(one.threshold):.4g}")
            lines += [f"    {event}" for event in one.events[:_TOLD]]
            if more := one.events[_TOLD:]:
                lines.append(f"    … and {len(more)} more, the last at frame {more[-1].time}")
        return "\n".join(lines)


def scan(
    key: Any,
    series: Any,
    *,
    reference: int | tuple[int, int] | slice,
    window: Any = 100,
    stride: int = 10,
    test: Any = "net",
    **options: Any,
) -> Scan:
    """Compare the reference with a window that slides over the frames after it.

    A look comes every `stride` frames, once the window is full. It is what a `Detector` with the
    same key says of the same frames; several sizes share θ0.

    Args:
        key: A JAX key or an int seed.
        series: Array-like (N, ...), one row per frame.
        reference: The frames without change: those before an index, or from one to another.
        window: Frames in the window, or several such sizes.
        stride: Frames between two looks.
        test: Any method by name, or a test object.
        **options: Of `init`: shortest, standardize, level, arl, threshold, drift, block, n_draws.
    """
    given, series = series, as_points(series, "the series")
    check_finite(series, "the series")
    start, stop = _bounds(reference, len(series))
    windows: tuple[int, ...] = tuple(np.atleast_1d(window).tolist())
    if not windows:
        raise ValueError("window has no sizes: give one or several")
    for size in windows:
        check_sizes(size, options.get("shortest"), stride)
    firsts = [options.get("shortest") or size for size in windows]
    rows = [look_counts(len(series) - stop, first, stride) for first in firsts]
    if not all(len(row) for row in rows):
        raise ValueError(
            f"a window of {max(windows)} frames does not fit between the end of the reference "
            f"({stop}) and that of the series ({len(series)})"
        )
    states = [
        init(key, series[start:stop], window=w, stride=stride, test=test, time=stop, **options)
        for w in windows
    ]
    reports = [run(state, series[stop:])[1] for state in states]
    columns = getattr(given, "columns", None)
    names = None if columns is None else list(columns)
    events = [
        event
        for state, report in zip(states, reports, strict=True)
        for event in _events(state, report, series, names)
    ]
    values = [report.statistics[report.looked] for report in reports]
    check_statistics(np.concatenate(values))
    longest = max(rows, key=len)
    table = np.full((len(windows), len(longest)), np.nan, values[0].dtype)
    for row, found in zip(table, values, strict=True):
        row[len(longest) - len(found) :] = found
    about = {"stride": int(stride), "reference": (start, stop), "window": windows}
    about |= {"method": states[0].chart.test.method, "events": tuple(events)}
    limits = (jnp.stack([s.threshold for s in states]),)
    limits += (jnp.stack([s.threshold_interval for s in states]),)
    found = Scan(jnp.asarray(stop + longest - 1), jnp.asarray(table), *limits, **about)
    return found if np.ndim(window) else found[windows[0]]


def _events(state: State, report: Report, series: jax.Array, names: Any) -> Iterator[Event]:
    """The events of a report, each explained by the window that it was raised by."""
    for i in np.flatnonzero(report.events):
        time, room = int(report.times[i]), len(state.buffer) - BLOCK
        seen = time + 1 - int(state.time)
        recent = state.chart.standard(series[time + 1 - min(seen, state.window) : time + 1])
        buffer = state.buffer.at[room - len(recent) : room].set(recent)
        at = {"buffer": buffer, "time": state.time + seen, "count": state.count + seen}
        yield event_at(dataclasses.replace(state, **at), time, report.statistics[i], names)
        if state.after == "rereference":  # later ones are held against another reference
            return


def _bounds(reference: Any, n: int) -> tuple[int, int]:
    """The frames of the reference: from, and before."""
    if isinstance(reference, slice):
        start, stop, step = reference.indices(n)
        if step != 1:
            raise ValueError(
                f"the reference has no gaps: give start and stop only, not {reference}"
            )
    elif np.ndim(reference) == 1 and len(reference) == 2:
        start, stop = map(int, reference)
    elif isinstance(reference, int | np.integer):
        start, stop = 0, int(reference)
    else:
        raise ValueError(f"reference takes an index, a pair or a slice; got {reference!r}")
    if not 0 <= start < stop <= n:
        raise ValueError(f"reference {start}:{stop} is no part of a series of {n} frames")
    return start, stop
