"""The power of a test over the sample size, as a curve of one parameter.

    π(n) = Φ(Φ⁻¹(α) + b n^γ),   γ = 3/4,

so that π(0) is the level α and b > 0 says that the laws differ. A known direction would give
γ = 1/2, one that has to be found from many, γ = 1. Measured between powers of .15 and .97 (mean
shift in d = 10, n = 20 to 160), γ is .70 to .85 for net, ntk-full, gmmd and hotelling alike.
"""

import dataclasses
import math
from statistics import NormalDist

import numpy as np

GAMMA = 0.75
_NORMAL = NormalDist()
_CLOSE = 1e-6  # powers are kept as far from 0 and 1
_STEPS = 80  # of the bisection


@dataclasses.dataclass(frozen=True)
class Curve:
    """π(n) at a level, with the standard error of b."""

    level: float
    slope: float  # b
    error: float

    def power(self, n: float, errors: float = 0.0) -> float:
        """π(n), with b moved by so many standard errors."""
        slope = self.slope + errors * self.error
        return _NORMAL.cdf(_NORMAL.inv_cdf(self.level) + slope * n**GAMMA)

    def size(self, power: float, errors: float = 0.0) -> float:
        """The n of a power, with b moved by so many standard errors; inf where there is none."""
        slope = self.slope + errors * self.error
        rise = _NORMAL.inv_cdf(power) - _NORMAL.inv_cdf(self.level)
        if rise <= 0:
            return 0.0
        return (rise / slope) ** (1 / GAMMA) if slope > 0 else math.inf


def fitted(
    level: float,
    sizes: np.ndarray,
    rejections: np.ndarray,
    n_runs: int,
    *,
    share: float,
    pilot: int,
) -> Curve:
    """Fit b to all parts of a pilot together, and its error to how they differ.

    The slopes b_s of random parts, a `share` f of the pilot each, vary by V = σ²/N (1/f − 1) for
    an error of σ²/N of b itself, beside the binomial error 1/I of a fit, I the information on b.
    Where nearly none or all are rejected parts cannot differ; but the statistic of the whole pilot
    has a noise of its own. In units of u = b N^γ it is about 1 under H0, and measured (hotelling,
    mean shifts) to be about √(1 + u/8) else: the error is that at least.

    Args:
        level: α.
        sizes: Sample sizes (k,).
        rejections: Of every part at every size (parts, k).
        n_runs: Replicas of every part at every size.
        share: f.
        pilot: N.
    """
    parts = len(rejections)
    slope = _slope(level, sizes, rejections.sum(0), parts * n_runs)
    each = np.array([_slope(level, sizes, counts, n_runs) for counts in rejections])
    noise = 1 / _information(level, sizes, slope, n_runs)
    between = max(each.var(ddof=1) - noise, 0.0) / (1 / share - 1)
    least = pilot**-GAMMA * math.sqrt(1 + max(slope, 0.0) * pilot**GAMMA / 8)
    return Curve(level, slope, max(math.sqrt(between + noise / parts), least))


def _powers(level: float, sizes: np.ndarray, slope: float) -> tuple[np.ndarray, np.ndarray]:
    """π at every size, and its derivative by b."""
    u = _NORMAL.inv_cdf(level) + slope * sizes**GAMMA
    power = np.clip([_NORMAL.cdf(v) for v in u], _CLOSE, 1 - _CLOSE)
    return power, np.array([_NORMAL.pdf(v) for v in u]) * sizes**GAMMA


def _slope(level: float, sizes: np.ndarray, rejections: np.ndarray, n_runs: int) -> float:
    """b of largest likelihood: where its derivative, which falls, is 0."""
    # Half a replica of either outcome: b stays finite where all or none are rejected.
    rate = (rejections + 0.5) / (n_runs + 1)
    low, high = -8 / sizes[0] ** GAMMA, 8 / sizes[0] ** GAMMA
    for _ in range(_STEPS):
        middle = (low + high) / 2
        power, by_slope = _powers(level, sizes, middle)
        score = np.sum((rate - power) * by_slope / (power * (1 - power)))
        low, high = (middle, high) if score > 0 else (low, middle)
    return (low + high) / 2


def _information(level: float, sizes: np.ndarray, slope: float, n_runs: int) -> float:
    power, by_slope = _powers(level, sizes, slope)
    return max(float(n_runs * np.sum(by_slope**2 / (power * (1 - power)))), 1e-12)
