"""The detector as an object, for those who want one: a state that remembers itself."""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ntkmmd_jax.changepoint.detector import (
    Report,
    as_frames,
    check_statistics,
    init,
    jitted_step,
    load,
)

_CHUNK = 64  # frames that are sent at once


class Detector:
    """The detector as an object, for those who want one: `update` frames, `save`, `load`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> detector = Detector(0, rng.normal(size=(200, 2)), window=20, test="ntk")
        >>> detector.update(rng.normal(size=(40, 2)) + 3).first_alarm
        19
    """

    def __init__(self, key: Any, reference: Any, **options: Any) -> None:
        """As `init`."""
        self.state = init(key, reference, **options)

    def update(self, frames: Any) -> Report:
        """Take frames; on an error the detector stays as it was."""
        frames = as_frames(frames, self.state.reference.shape[1:])
        state, reports, first = self.state, [], 0
        while first < len(frames):  # in chunks of two sizes, so that two programs are compiled
            size = _CHUNK if len(frames) - first >= _CHUNK else 1
            state, report = jitted_step(state, frames[first : first + size])
            reports.append(report)
            first += size
        report = jax.tree.map(lambda *leaves: np.concatenate(leaves), *reports)
        check_statistics(report.statistics[report.looked])
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
