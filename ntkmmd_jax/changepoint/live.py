"""The detector as an object, for those who want one: a state that remembers itself."""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ntkmmd_jax._lib.progress import track, working
from ntkmmd_jax.changepoint.detector import as_frames, check_statistics, init, jitted_step
from ntkmmd_jax.changepoint.state import BLOCK, State, load
from ntkmmd_jax.changepoint.watch import Report

_CHUNKS = (BLOCK, 16 * BLOCK)  # frames that are sent at once: two programs for any batch


class Detector:
    """The detector as an object, for those who want one: `update` frames, `save`, `load`.

    Args:
        key: A JAX key or an int seed.
        reference: Frames without change, in their order, array-like (N, ...).
        **options: Of `init`: window, stride, test, level, arl, after, ….

    Example:
        >>> rng = np.random.default_rng(0)
        >>> detector = Detector(0, rng.normal(size=(400, 2)), window=20, test="ntk")
        >>> detector.update(rng.normal(size=(40, 2)) + 3).first_alarm
        19
    """

    def __init__(self, key: Any, reference: Any, **options: Any) -> None:
        """As `init`."""
        self.state = init(key, reference, **options)

    def __repr__(self) -> str:
        state = self.state
        sizes = f"window={state.window}, stride={state.stride}, time={int(state.time)}"
        return f"Detector(test={state.chart.test!r}, {sizes}, threshold={state.threshold:.4g})"

    def update(self, frames: Any) -> Report:
        """Take frames; on an error the detector stays as it was."""
        frames = as_frames(frames, self.state.reference.shape[1:])
        state, report = run(self.state, frames)
        check_statistics(np.asarray(report.statistics[report.looked]))
        self.state = state
        return report

    def save(self, path: str | os.PathLike, **settings: Any) -> Path:
        """Save the state; as `State.save`."""
        return self.state.save(path, **settings)

    @classmethod
    def load(cls, path: str | os.PathLike, *, network: Any = None) -> "Detector":
        """Go on from a saved state."""
        detector = cls.__new__(cls)
        detector.state = load(path, network=network)
        return detector


def run(state: State, frames: jax.Array) -> tuple[State, Report]:
    """`step` without its checks, some frames at a time, filled up to one of two sizes."""
    reports, starts = [], range(0, len(frames), _CHUNKS[1])
    for at in track(starts, "frames", total=len(starts), show=len(starts) > 1):
        size = _CHUNKS[len(frames) - at > _CHUNKS[0]]
        part = np.zeros((size, *frames.shape[1:]), frames.dtype)
        n = min(size, len(frames) - at)
        part[:n] = frames[at : at + n]
        with working("frames"):
            state, report = jitted_step(state, part, n)
            reports.append(jax.tree.map(lambda leaf, n=n: np.asarray(leaf)[:n], report))
    whole: Any = jax.tree.map(lambda *leaves: np.concatenate(leaves), *reports)
    return state, whole
