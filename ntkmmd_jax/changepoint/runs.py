"""Run lengths: how many frames a chart sees until its first alarm.

The first look has a chance p of an alarm to itself; from then on alarms come at a nearly constant
rate. Streams that end at a horizon say no more than that they had none, so

    ARL = w + (1 − p) · (frames watched beyond the first look, w) / (alarms beyond it),

with p the share of streams that have an alarm at the first look. Where every stream has its alarm,
it is their mean.
"""

from typing import Any

import numpy as np

from ntkmmd_jax._lib.records import record, static


@record
class RunLengths:
    """First alarms of simulated streams, in frames seen since the change, or since the start."""

    lengths: Any  # (r,) the horizon where there was no alarm
    alarmed: Any  # (r,) bool
    horizon: int = static()  # frames seen at the last look
    first: int = static(default=0)  # frames seen at the first look

    @property
    def mean(self) -> float:
        """The mean run length: ARL without a change, EDD with one.

        Without any alarm beyond the first look, where streams go on without one, it is infinite.
        """
        beyond = np.asarray(self.lengths, float) - self.first
        later = int(np.sum(np.asarray(self.alarmed) & (beyond > 0)))
        if not later:
            return float(self.first) if np.all(self.alarmed) else float("inf")
        return self.first + float(np.mean(beyond > 0) * np.sum(beyond) / later)

    @property
    def error(self) -> float:
        """Its standard error; for a constant rate where some streams had no alarm."""
        alarms = int(np.sum(self.alarmed))
        if alarms == len(self.alarmed):
            return float(np.std(self.lengths) / np.sqrt(alarms))
        return (self.mean - self.first) / np.sqrt(alarms) if alarms else float("inf")

    @property
    def missed(self) -> float:
        """The share of streams without an alarm."""
        return float(1 - np.mean(self.alarmed))


def first_alarms(statistics: np.ndarray, looks: np.ndarray, threshold: float) -> RunLengths:
    """The run lengths of statistics (r, k) at k looks, after so many frames each."""
    above = statistics > threshold
    alarmed = above.any(1)
    lengths = np.where(alarmed, looks[above.argmax(1)], looks[-1])
    return RunLengths(lengths, alarmed, horizon=int(looks[-1]), first=int(looks[0]))


def threshold_for(statistics: np.ndarray, looks: np.ndarray, arl: float) -> float:
    """The least threshold for which streams run `arl` frames on average: by bisection."""
    values = np.unique(statistics.max(1))  # no other threshold changes an alarm for the first time
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        enough = first_alarms(statistics, looks, values[middle]).mean >= arl
        low, high = (low, middle) if enough else (middle + 1, high)
    return float(values[low])
