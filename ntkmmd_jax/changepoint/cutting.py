"""How long do frames remember? The length of bins, and what dependence is left between them.

Neighbouring sums Y over b frames differ by 2b V(b), on average of squares. Of independent frames
V(b) is their variance; of dependent ones it grows with b to the long-run variance. With
Ω = Σ_h γ(h) and κ = Σ_{h > 0} h γ(h) / Ω, the *memory* in frames,

    var Y = bΩ (1 − 2κ/b),   cov of neighbours = Ωκ,   V(b) = Ω (1 − 3κ/b),

up to what a bin has forgotten. Neighbouring bins then have the correlation κ/(b − 2κ), which raises
T (`splits.raised`), and which relabelled bins do not have. Of an autoregression of φ,
κ = φ/(1 − φ²): 0.67 for .5, 2.2 for .8.

Changes look like memory. But a change lies between few pairs of neighbours, so V is taken from the
*median* of their squared differences, at b up to n/16. κ is that of the autoregression with the
ratio V(2b)/V(b) that is seen, at b = 1 to begin with; every longer scale moves it into its own
interval, so that a motion that swings is not taken for one that wanders. Bins are ten times κ long,
and longer than the last scale at which neighbours go together or, as halves of a swing do, against
each other; if the series is long enough. A coordinate that remembers longer than the others, by
more than luck, has a κ of its own, which then is that of all: else it is taken for a change. In a
series that is too short for such bins, which is told of, what is left between them is that of all.
Coordinates are looked at as normal scores, and as their absolute values, for a spread that lasts.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from ntkmmd_jax._lib.telling import warn

MOST = 128  # bins
FEW = 20  # bins that a series is cut into at least, however long it remembers
_LEFT = 0.1  # κ/b that bins leave to the correction, if there are frames enough
_SEEN = 2.5  # κ/b up to which a scale b can tell: beyond it the ratio hardly grows
_AGAINST = -0.3  # log V(2b)/V(b) below which neighbours go against each other
_SLOWER = 1.5  # times κ, beyond which a coordinate has one of its own
_STARTS = 4096  # of pairs of neighbours that are looked at
_ERROR = (
    2.0  # standard error of the log-ratio of one coordinate, times √(n/b): measured, 1.3 to 2.6
)
_GRID = np.linspace(0.0, 0.98, 99)  # autoregressions


@dataclasses.dataclass(frozen=True)
class Binning:
    """How a series is cut into bins."""

    size: int  # frames of a bin
    bins: int
    memory: float = 0.0  # κ, in frames

    @property
    def correlation(self) -> float:
        """Of neighbouring bins: κ / (b − 2κ), and 0.75 at most."""
        left = min(self.memory / self.size, 0.3)
        return left / (1 - 2 * left)


def binning(scores: np.ndarray, size: int | None, most: int = MOST) -> Binning:
    """Cut a series into bins as long as it remembers; of a given size, if any.

    Args:
        scores: Normal scores of the series, shape (n, d).
        size: Frames of a bin: then nothing is estimated, and bins are taken for independent.
        most: Bins at most.
    """
    n = len(scores)
    if size is not None:
        return Binning(size, n // size)
    kappa, reach, slowest = memory(scores)
    wanted = _round(max(math.ceil(max(kappa, slowest) / _LEFT), reach))
    shortest, longest = -(-n // most), max(n // FEW, 1)
    found = max(min(wanted, longest), shortest)
    if wanted > 1.5 * found:
        warn(
            f"frames depend on each other over about {wanted} frames, and the series has {n}: "
            f"p-values may be too small. Some {FEW * wanted} frames would do. If it rather changes "
            "often, give the length of bins that are independent: bin",
        )
    return Binning(found, n // found, max(kappa, slowest if found >= wanted else 0))


def _round(size: int) -> int:
    """Up to 1, 2, 3, 4, 6, 8, 12, …: series of one length then share their programs."""
    power = 2 ** (size - 1).bit_length()  # the next power of 2
    return 3 * power // 4 if power > 2 and 3 * power // 4 >= size else power


class Remembered(NamedTuple):
    """How long a series remembers."""

    kappa: float  # of all coordinates together, in frames
    reach: int  # the length from which on neighbouring sums have nothing in common
    slowest: float  # κ of a coordinate that remembers longer than the others; 0: there is none


def memory(scores: np.ndarray) -> Remembered:
    """What normal scores (n, d) remember, or their sizes, whatever lasts longer."""
    centred = scores - scores.mean(0)
    varying = centred[:, centred.std(0) > 0]
    if not varying.size:
        return Remembered(0.0, 1, 0.0)
    size = np.abs(varying)
    found = [_memory(values) for values in (varying, size - size.mean(0))]
    return Remembered(*(max(both) for both in zip(*found, strict=True)))


def _memory(values: np.ndarray) -> Remembered:
    n, d = values.shape
    several = math.sqrt(_independent(values))
    lucky = max(1.5, 0.5 + math.sqrt(2 * math.log(d)))  # errors of the largest of d
    last, b, reach = np.log(_variance(values, 1)), 1, 1
    kappa, each, at_least = 0.0, np.zeros(d), np.zeros(d)
    while 2 * b <= max(n // 16, 2):
        here = np.log(_variance(values, 2 * b))
        ratios, error = here - last, _ERROR * math.sqrt(b / n)
        ratio, common = float(np.mean(ratios)), error / several
        kappa = _corrected(kappa, ratio, common, b)
        each, sure = _corrected(each, ratios, error, b), _kappa(ratios - lucky * error, b)
        at_least = np.maximum(at_least, _kappa(ratios - (lucky + 1) * error, b))  # at any scale
        together = max(_kappa(ratio - 1.5 * common, b), np.max(sure)) > _LEFT * b
        if together or ratio + 2 * common < _AGAINST:  # half a swing, the other half next to it
            reach = 2 * b
        last, b = here, 2 * b
    slow = each[at_least > _SLOWER * max(kappa, _LEFT)]
    return Remembered(float(kappa), reach, float(slow.max(initial=0)))


def _corrected(kappa: Any, ratio: Any, error: float, b: int) -> Any:
    """κ by what a scale b says, of which the first is the beginning."""
    least, most = _kappa(ratio - 1.5 * error, b), _kappa(ratio + 2 * error, b)
    raised = np.maximum(_kappa(ratio - error, b) if b == 1 else kappa, least)
    return np.where(most >= _SEEN * b, raised, np.minimum(raised, most))


def _variance(values: np.ndarray, b: int) -> np.ndarray:
    """V(b) of every coordinate, up to a common factor, by the median of squares."""
    starts = np.arange(0, len(values) - 2 * b + 1, max(1, len(values) // _STARTS))

    def of_column(column: np.ndarray) -> float:
        sums = np.concatenate([[0.0], np.cumsum(column, dtype=float)])
        gap = sums[starts + 2 * b] - 2 * sums[starts + b] + sums[starts]
        return float(np.median(gap**2)) / (2 * b)

    floor = np.finfo(float).tiny  # of a coordinate with more ties than not
    return np.maximum([of_column(column) for column in values.T], floor)


def _independent(values: np.ndarray) -> float:
    """As how many independent coordinates these are: tr(R)² / tr(R²), R their correlation."""
    some = values[:: max(1, len(values) // _STARTS)]
    spread = some.std(0)
    some = (some - some.mean(0))[:, spread > 0] / spread[spread > 0]
    gram = some.T @ some if some.shape[1] <= len(some) else some @ some.T
    return float(np.trace(gram) ** 2 / np.sum(gram**2)) if gram.size else 1.0


def _kappa(log_ratio: Any, b: int) -> Any:
    """κ of autoregressions with these log V(2b)/V(b), as far as b can tell."""
    found = np.interp(log_ratio, _log_ratios(b), _GRID / (1 - _GRID**2))
    return np.minimum(found, _SEEN * b)


def _log_ratios(b: int) -> np.ndarray:
    """log V(2b)/V(b) over the grid of autoregressions; it grows with φ."""
    short, double = _of_autoregression(b), _of_autoregression(2 * b)
    return np.maximum.accumulate(np.log(double / short))


def _of_autoregression(b: int) -> np.ndarray:
    """V(b) of autoregressions of variance 1: (var Y − cov(Y, Y')) / b, by sums of powers of φ."""
    phi = _GRID[1:]
    inner = (b * (1 - phi) - (1 - phi**b)) * phi / (1 - phi) ** 2
    variance = b + 2 * inner
    between = phi * ((1 - phi**b) / (1 - phi)) ** 2
    return np.concatenate([[1.0], (variance - between) / b])
