"""How many bins a test without a split labels: one a point while n is small, then a fixed number.

Labellings of bins are exact at any number of them, so this is about power and time only.
"""

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax.bins import Bins, Cut, cut_in_bucket, cut_into_bins
from ntkmmd_jax.calibration import labellings
from ntkmmd_jax.pooled import Pooled

POINTS = 1024  # pooled points up to which each is a bin of its own
BINS = 256  # beyond
PADDED = 16_384  # points up to which a bucket saves more time than it costs, in linear time


def bins_of(n_x: int, n_y: int, bins: int | None = None) -> Bins | None:
    """The bins of n_X + n_Y points, or None where every point is one.

    Args:
        n_x: Points of x.
        n_y: Points of y.
        bins: About how many; by default one a point up to `POINTS`, then `BINS`. More than points
            are one a point.
    """
    n = n_x + n_y
    if bins is None:
        bins = n if n <= POINTS else BINS
    found = cut_into_bins(n_x, n_y, min(bins, n))
    return None if len(found) == n else found


def bins_of_pooled(samples: Pooled, bins: int | None = None) -> Cut | None:
    """The bins of samples, in a bucket or not; within strata every point is one."""
    places = len(samples.points)
    if samples.is_plain:
        return bins_of(samples.n_x, samples.n_y, bins)
    if samples.within is not None or places <= POINTS:
        return None
    return cut_in_bucket(samples.n_x, samples.n_y, BINS, padding.least(places), places)


def bins_pad(n_x: int, n_y: int) -> bool:
    """Whether bins in a bucket are those of samples of these sizes: neither is much the smaller."""
    n = n_x + n_y
    return n <= POINTS or cut_into_bins(n_x, n_y, BINS).size == n // BINS


def bins_reach(bins: Bins) -> tuple[int, str]:
    """How many values labellings of bins give to an MMD², and of what."""
    return labellings(bins.x, bins.y, even=True), f"{bins.x} + {bins.y} bins of {bins.size}"


def check_bins(bins: int | None, only_with: str | None = None) -> None:
    """Refuse a number of bins that is none, or bins where there is no use for them."""
    if bins is None:
        return
    if only_with is not None:
        raise ValueError(f"bins are for a test without a split: use {only_with}")
    whole("bins", bins, 4)
