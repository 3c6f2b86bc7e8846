"""Do the samples differ by more than a tolerance? Large samples make everything significant.

    H0: MMD ≤ ε   against   MMD > ε,   and the other way round   H0: MMD ≥ ε   against   MMD < ε,

with the MMD of a kernel that is fixed, whose values set the unit of ε, and the bounds of
`kernels.estimated`. The Gaussian kernel at the median distance of x, the default, is at most 1, so
that an MMD is at most √2; its MMD is 0 for p = q alone. `tolerance_of` says what MMD a change has
that would still be accepted: a shift of a tenth of a standard deviation, say.

Both tests are limits in n, unlike the tests of p = q, which permute labels: under MMD = ε labels
are not exchangeable. What was measured, and where it does not hold: `docs/guides/level.md`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.checks import positive
from ntkmmd_jax._lib.points import as_points, as_samples, check_finite
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.telling import warn
from ntkmmd_jax._lib.tiles import tile_by_tile
from ntkmmd_jax.calibration import check_level
from ntkmmd_jax.kernels import EstimatedMMD, GaussianKernel, estimate_mmd
from ntkmmd_jax.kernels.functions import as_pytree

_ROWS = 256  # of kernel matrices that are held at once
_FEW = 50  # points of each, below which the normal law is not measured to hold


@record
class ToleranceResult:
    """How far two samples are apart, and whether that is more, or less, than a tolerance."""

    estimate: EstimatedMMD  # MMD², its standard error
    tolerance: Any  # () ε, in units of the MMD
    level: Any  # () of either verdict
    n_x: int = static(default=0)  # samples of p
    n_y: int = static(default=0)  # samples of q

    @property
    def pvalue(self) -> float:
        """Of H0: MMD ≤ ε. Small if the samples differ by more."""
        return float(self.estimate.above(self.tolerance**2))

    @property
    def pvalue_within(self) -> float:
        """Of H0: MMD ≥ ε. Small if the samples are equivalent: they differ by less."""
        return float(self.estimate.below(self.tolerance**2))

    @property
    def exceeds(self) -> bool:
        """Whether the samples differ by more than the tolerance."""
        return self.pvalue <= self.level

    @property
    def within(self) -> bool:
        """Whether they differ by less."""
        return self.pvalue_within <= self.level

    @property
    def mmd(self) -> float:
        """The estimated MMD."""
        return float(self.estimate.mmd)

    @property
    def interval(self) -> tuple[float, float]:
        """Ends for the MMD, each wrong with probability `level`: 1 − 2 · level for both.

        The tolerance lies below it where `exceeds`, above it where `within`, else between.
        """
        low, high = self.estimate.lower(self.level), self.estimate.upper(self.level)
        return float(np.sqrt(max(float(low), 0.0))), float(np.sqrt(float(high)))

    @property
    def verdict(self) -> str:
        """The answer in words."""
        if np.isnan(float(self.estimate.error)):
            return "no verdict: the estimate is not a number"
        if self.exceeds:
            return f"reject H0: MMD <= {self.tolerance:g}; they differ by more"
        if self.within:
            return f"reject H0: MMD >= {self.tolerance:g}; they differ by less"
        return f"undecided: {self.tolerance:g} lies within the interval"

    def __repr__(self) -> str:
        low, high = self.interval
        sure = 1 - 2 * float(self.level)
        return (
            f"ToleranceResult(n_x={self.n_x}, n_y={self.n_y})\n"
            f"  MMD        {self.mmd:.5g}, in [{low:.5g}, {high:.5g}] with confidence {sure:.0%}\n"
            f"  tolerance  {self.tolerance:.5g}\n"
            f"  p-values   {self.pvalue:.4g} of MMD <= tolerance, {self.pvalue_within:.4g} of >=\n"
            f"  {self.verdict}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as plain numbers, ready for JSON."""
        low, high = self.interval
        return {
            "mmd2": float(self.estimate.mmd2),
            "error": float(self.estimate.error),
            "mmd": self.mmd,
            "low": low,
            "high": high,
            "tolerance": float(self.tolerance),
            "pvalue": self.pvalue,
            "pvalue_within": self.pvalue_within,
            "exceeds": self.exceeds,
            "within": self.within,
            "level": float(self.level),
            "n_x": self.n_x,
            "n_y": self.n_y,
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate, its interval and the tolerance; returns the matplotlib axes."""
        from ntkmmd_jax import plotting

        return plotting.tolerance(self, ax=ax)


def tolerance_test(
    x: Any, y: Any, tolerance: float, *, kernel: Any = None, level: float = 0.05
) -> ToleranceResult:
    """Test whether two samples differ by more than a tolerance, or by less, or neither.

    Args:
        x: The reference, anything array-like, one row per sample.
        y: The other sample, with the same features; the sizes may differ.
        tolerance: ε, the MMD up to which a difference does not matter; `tolerance_of` helps.
        kernel: A `GaussianKernel`, a `TangentKernel`, or any k(x1, x2) of shape (n1, n2) that JAX
            can trace. By default the Gaussian kernel at the median distance of x.
        level: The probability of a false verdict "more", where the MMD is ε or less, and of a false
            verdict "less", where it is ε or more.

    Returns:
        A `ToleranceResult`: mmd, interval, pvalue, pvalue_within, exceeds, within, verdict, plot.

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 2)) + 0.1
        >>> ntk.two_sample_test(x, y, method="gmmd").reject  # significant …
        True
        >>> accepted = ntk.tolerance_of(x, lambda z: z + 0.3)
        >>> ntk.tolerance_test(x, y, accepted).within  # … and small
        True
    """
    positive("tolerance", tolerance)
    check_level(level)
    x, y = as_samples(x, y)
    check_finite(x, "x")
    check_finite(y, "y")
    if min(len(x), len(y)) < _FEW:
        warn(
            f"a tolerance test of {len(x)} + {len(y)} points rests on a normal law that is "
            f"measured from {_FEW} of each on; permutation tests of p = q hold at any size",
        )
    estimate = _estimate(_traced(kernel, x), x, y)
    return ToleranceResult(estimate, float(tolerance), level, n_x=len(x), n_y=len(y))


def tolerance_of(x: Any, change: Callable[[Any], Any], *, kernel: Any = None) -> float:
    """The MMD between a reference and itself after a change that would still be accepted.

    Without bias from n: pairs of different points only. Fix it once, from one reference.

    Args:
        x: The reference, anything array-like, one row per sample.
        change: From points (n, ...) to points (n, ...), each by itself: `lambda z: z + 0.1`.
        kernel: As of `tolerance_test`, and the same.

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> x = np.random.default_rng(0).normal(size=(200, 2))
        >>> ntk.tolerance_of(x, lambda z: z + 0.1) < ntk.tolerance_of(x, lambda z: z + 0.3)
        True
    """
    points = as_points(x, "x")
    changed = as_points(change(points), "change(x)")
    if points.shape != changed.shape:
        raise ValueError(
            f"change keeps the shape of the points; from {points.shape} it made {changed.shape}"
        )
    return float(_moved(_traced(kernel, points), points, changed))


def _traced(kernel: Any, reference: jax.Array) -> Any:
    """The kernel as a pytree that jit takes."""
    if kernel is None:
        return GaussianKernel.of(reference)
    if not callable(kernel):
        raise TypeError(f"kernel is a function k(x1, x2) or a kernel object; got {kernel!r}")
    return as_pytree(kernel)


@jit
def _estimate(kernel: Any, x: jax.Array, y: jax.Array) -> EstimatedMMD:
    return estimate_mmd(kernel, x, y)


@jit
def _moved(kernel: Any, points: jax.Array, changed: jax.Array) -> jax.Array:
    """√ of the mean of ⟨φ(z_i) − φ(z'_i), φ(z_j) − φ(z'_j)⟩ over i ≠ j, 0 if it is negative."""

    def rows(pairs: jax.Array) -> jax.Array:
        before, after = pairs[:, 0], pairs[:, 1]

        def moved(z: jax.Array, changed: jax.Array) -> jax.Array:
            return (kernel(before, z) - kernel(before, changed)) - (
                kernel(after, z) - kernel(after, changed)
            )

        return moved(points, changed).sum(1) - jnp.diagonal(moved(before, after))

    n = float(len(points))
    total = tile_by_tile(rows, jnp.stack([points, changed], axis=1), _ROWS).sum()
    return jnp.sqrt(jnp.maximum(total / (n * (n - 1)), 0))
