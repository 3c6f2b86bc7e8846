"""What `segment` finds: changes, each with its interval, p-value and coordinates."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from ntkmmd_jax._lib.help import with_help
from ntkmmd_jax._lib.records import shown
from ntkmmd_jax.changepoint.cutting import Binning


@with_help
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Change:
    """One change of a series."""

    frame: int  # the first after the change
    interval: tuple[int, int]  # frames between which it lies, both included
    pvalue: float  # adjusted
    score: float  # S, in standard deviations of the best cut of a member under relabelling
    level: np.ndarray  # (d,) by how many standard deviations the level of each coordinate rises
    spread: np.ndarray  # (d,) its spread, likewise
    pvalues: np.ndarray  # (d,) of the larger of both, adjusted for the number of coordinates

    __repr__ = shown

    @property
    def coordinates(self) -> np.ndarray:
        """The coordinates by how much they move, the strongest first."""
        return np.argsort(-np.maximum(np.abs(self.level), np.abs(self.spread)), kind="stable")

    def driving(self, level: float = 0.05) -> list[int]:
        """The coordinates that move by themselves, the strongest first.

        The probability that any is among them that does not is at most the level. None, where
        coordinates change only together, as in a correlation.
        """
        return [int(i) for i in self.coordinates if self.pvalues[i] <= level]

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        about = {"frame": self.frame, "interval": list(self.interval), "pvalue": self.pvalue}
        arrays = {name: getattr(self, name).tolist() for name in ("level", "spread", "pvalues")}
        return about | {"score": self.score, "coordinates": self.driving(), **arrays}


@with_help
@dataclasses.dataclass(frozen=True, eq=False)
class Segmentation:
    """The changes of a series of n frames; none, if nothing has changed."""

    found: tuple[Change, ...]  # in order
    n: int  # frames
    binning: Binning  # how the series was cut into bins
    significance: float  # the level of the whole
    coverage: float  # of the intervals
    profile: np.ndarray  # (bins, d) mean normal score of every coordinate in every bin
    names: tuple[str, ...] | None = None  # of the coordinates

    @property
    def changes(self) -> list[int]:
        """The first frame of every segment but the first."""
        return [change.frame for change in self.found]

    @property
    def intervals(self) -> list[tuple[int, int]]:
        """Where the changes lie, in the order of the changes."""
        return [change.interval for change in self.found]

    @property
    def pvalues(self) -> list[float]:
        """Of the changes, adjusted: each is at most the level."""
        return [change.pvalue for change in self.found]

    @property
    def segments(self) -> list[tuple[int, int]]:
        """Stretches between changes: first frame, and the one after the last."""
        edges = [0, *self.changes, self.n]
        return list(itertools.pairwise(edges))

    def plot(self, ax: Any = None, *, known: Any = ()) -> Any:
        """Changes with their intervals over the series, bin by bin; known changes dotted."""
        from ntkmmd_jax import plotting

        return plotting.segmentation(self, ax=ax, known=known)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {
            "changes": self.changes,
            "intervals": [list(interval) for interval in self.intervals],
            "pvalues": self.pvalues,
            "segments": [list(part) for part in self.segments],
            "level": self.significance,
            "coverage": self.coverage,
            "frames": self.n,
            "bin": self.binning.size,
            "bins": self.binning.bins,
            "memory": self.binning.memory,
            "names": None if self.names is None else list(self.names),
            "details": [change.to_dict() for change in self.found],
        }

    def __repr__(self) -> str:
        cut = self.binning
        lines = [
            f"{len(self.found) or 'No'} change{'s' * (len(self.found) != 1)} in {self.n} frames "
            f"at level {self.significance:g} ({cut.bins} bins of {cut.size} frames)"
        ]
        for change in self.found:
            moving = change.driving()
            said = ", ".join(str(self.names[i] if self.names else i) for i in moving[:5])
            said += f" and {len(moving) - 5} more" if len(moving) > 5 else ""
            what = f"in {said}" if moving else "in no coordinate by itself"
            low, high = change.interval
            lines.append(f"  frame {change.frame} [{low}, {high}]: p = {change.pvalue:.2g}, {what}")
        return "\n".join(lines)
