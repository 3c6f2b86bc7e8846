"""The Gaussian-kernel MMD tests, in quadratic and in linear time (Gretton et al. 2012).

    MMD² = Σ_ij w_i k(z_i, z_j) w_j,   k(z, z') = exp(−|z − z'|² / 2σ²),

with σ the median Euclidean distance of the pooled sample unless given. All labellings share one
kernel matrix, which is made and used tile by tile, so neither it nor any copy is ever whole.
"""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tiles import even_size, tiled
from ntkmmd_jax.calibration import NullStatistics, Relabelling
from ntkmmd_jax.kernels import gaussian_kernel, median_bandwidth
from ntkmmd_jax.measure import mean_gap
from ntkmmd_jax.pooled import Pooled, pooled
from ntkmmd_jax.twosample.analytic import weighted_chi2_law
from ntkmmd_jax.twosample.calibrations import Asymptotic
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.evidence import (
    Comparable,
    Keys,
    Law,
    Limited,
    Permuted,
    Pool,
    Refittable,
    Samples,
)
from ntkmmd_jax.witness import in_tiles, savable

MEDIAN_POINTS = 2000  # pooled points beyond which the median is that of a random subsample
MEDIAN_PAIRS = 500  # the same for the linear-time test, which takes the points by pairs (x, y)
_NORMAL_PAIRS = 100  # samples of each from which on "normal" of the linear test is measured to hold
TILE = 2048  # rows and columns of the kernel matrix that are held at once


@savable
@record
class KernelWitness:
    """g(z) = Σ_i w_i k(z, z_i), the witness of the Gaussian MMD; call it at any points."""

    points: jax.Array  # (n, ...); some may be padding, of weight 0
    weights: jax.Array  # (n,)
    bandwidths: jax.Array  # (k,) the kernel is the mean of k Gaussians

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (m, ...): large where p exceeds q. Shape (m,)."""
        return _witness_values(self, points_like(points, self.points.shape[1:]))

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        return {"points": self.points.shape, "kernels": len(self.bandwidths)}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "KernelWitness":
        """A witness of zeros, to be refilled with saved leaves; it has no network."""
        shapes = (described["points"], described["points"][:1], (described["kernels"],))
        return cls(*(jnp.zeros(shape) for shape in shapes))


@jit
def _witness_values(witness: KernelWitness, points: jax.Array) -> jax.Array:
    def values(block: jax.Array) -> jax.Array:
        return gaussian_kernel(block, witness.points, witness.bandwidths) @ witness.weights

    return in_tiles(values, points)


@record
class GaussianTest(TwoSampleTest):
    """What the two share: the bandwidth, σ or a tuple of multiples of the median, all traced.

    Args:
        bandwidth: "median" (of the pooled distances), σ, or a tuple: the mean of the kernels at
            these multiples of the median.
    """

    bandwidth: Any = "median"  # or σ; or a tuple: the mean of kernels at multiples of the median

    def __post_init__(self) -> None:
        super().__post_init__()
        bandwidth = self.bandwidth
        if isinstance(bandwidth, str):
            bandwidth = (1.0,) if bandwidth == "median" else ()
        values = bandwidth if isinstance(bandwidth, tuple) else (bandwidth,)
        known = [c for c in values if isinstance(c, int | float | np.number)]
        if not values or not all(0 < c < math.inf for c in known):
            raise ValueError(
                "bandwidth must be 'median', a positive number, or a tuple of positive multiples "
                f"of the median; got {self.bandwidth!r}"
            )
        object.__setattr__(self, "bandwidth", bandwidth)

    def prepare(self, key: jax.Array, points: jax.Array) -> jax.Array:
        """σ or multiples of the median, shape (k,)."""
        return self.bandwidths(jax.random.permutation(key, points)[:MEDIAN_POINTS])

    def prepare_run(self, key: jax.Array, points: jax.Array) -> None:
        """Nothing: the median is that of placed points, lest its rounding follow the labels."""
        return None

    def bandwidths(self, points: jax.Array, n: Any = None) -> jax.Array:
        """σ, or the multiples of the median distance of these n points, shape (k,)."""
        if not isinstance(self.bandwidth, tuple):
            return jnp.asarray(self.bandwidth, points.dtype).reshape(1)
        median = median_bandwidth(points, n)
        return jnp.stack([jnp.asarray(c, points.dtype) * median for c in self.bandwidth])


@record
class KernelEvidence(Refittable, Limited, Comparable):
    """All points, and the bandwidths (k,) if they are fixed beforehand."""

    test: "GaussianMMD"
    bandwidths: jax.Array | None
    samples: Pooled

    def _fixed(self, points: jax.Array) -> jax.Array:
        """The bandwidths, from points without labels unless they are fixed."""
        if self.bandwidths is not None:
            return self.bandwidths
        some = points[:MEDIAN_POINTS]
        return self.test.bandwidths(some, padding.at_most(self.samples.n, len(some)))

    def _witness(self, bandwidths: jax.Array) -> KernelWitness:
        measure = self.samples.measure
        return KernelWitness(measure.points, measure.weights, bandwidths)

    @property
    def witness(self) -> KernelWitness:
        """The kernel mean of x minus that of y."""
        return self._witness(self._fixed(self.samples.points))

    def refitted(self, key: jax.Array, pool: Pool) -> Permuted:
        """The MMD² of every labelling, from the kernel matrix of the placed points."""
        relabelling = pool.relabel(key, self.samples)
        # The arrangement is uniform under H0, so its first places are a sample without labels.
        placed = relabelling.placed(self.samples.points)
        bandwidths = self._fixed(placed)
        null = tiled_null(relabelling, placed, bandwidths, unbiased=self.test.unbiased)
        return Permuted(null, relabelling.observed, self._witness(bandwidths))

    def limit(self, key: jax.Array, level: Any) -> Law:
        """The weighted χ² law."""
        points, n = self.samples.points, self.samples.n
        order = padding.random_order(jax.random.bits(key, (len(points),)), n)
        bandwidths = self._fixed(points[order])
        kernel = gaussian_kernel(points, points, bandwidths)
        about = {"unbiased": self.test.unbiased, "witness": self._witness(bandwidths)}
        return weighted_chi2_law(kernel, self.samples, level, **about)

    def statistic(self) -> jax.Array:
        """The biased MMD²."""
        measure = self.samples.measure
        return mean_gap(self.witness(measure.points), measure.weights)


@record
class GaussianMMD(GaussianTest):
    """The MMD with a Gaussian kernel on all data, calibrated by permuting all labels.

    The median is over all pairs of up to 2000 pooled points; beyond, over those of a random
    subsample of 2000, drawn without regard to the labels, so that the level stays exact.
    Quadratic time; memory of B + 1 labellings and a tile of the kernel matrix (Gretton et al.
    2012).

    Args:
        unbiased: Whether the statistic leaves the diagonal of the kernel out.

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> x = np.random.default_rng(0).normal(size=(40, 2))
        >>> ntk.GaussianMMD(bandwidth=1.0)(0, x, x[:30] + 1).concrete().reject
        True
    """

    stratifies: ClassVar[bool] = True

    unbiased: bool = static(default=False)

    @property
    def uses_lapack(self) -> bool:
        """The asymptotic law takes eigenvalues."""
        return isinstance(self.calibration, Asymptotic)

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "gmmd"

    @property
    def pads_up_to(self) -> int:
        """Beyond, quadratic time (cubic, of the law) costs more than it takes to compile."""
        return 1024 if isinstance(self.calibrated_by, Asymptotic) else 4096

    @property
    def evidence_type(self) -> type[KernelEvidence]:
        """The kernel of all points."""
        return KernelEvidence

    def keys(self, key: jax.Array) -> Keys:
        """One use of the key: for the labellings, or for the points of the median."""
        return Keys(key, key, key, key)

    def evidence(
        self, key: jax.Array, prepared: jax.Array | None, train: Samples, held: Samples
    ) -> KernelEvidence:
        """The points; with bandwidths, if they are fixed."""
        return KernelEvidence(self, prepared, pooled(held))


def tiled_null(
    relabelling: Relabelling, placed: jax.Array, bandwidths: jax.Array, *, unbiased: bool
) -> NullStatistics:
    """MMD² of the placed points (n, ...) under every labelling, tile by tile of the kernel matrix.

    With labels l ∈ {0, 1}, u = l − n_X/n and c = 1/n_X + 1/n_Y, the weights are w = c u. Of
    q = uᵀKu, a = uᵀK1 and s = 1ᵀK1, the biased MMD² is c² q, and the unbiased one linear in all.
    """
    n_x, n_y = relabelling.sizes
    size = even_size(len(placed), TILE)
    points = tiled(placed, size)  # (tiles, size, ...)
    u = relabelling.labels.astype(placed.dtype) - jnp.reshape(n_x / (n_x + n_y), (-1, 1))
    v = padding.cleared(jnp.concatenate([u, jnp.ones_like(u[:1])]), relabelling.n, axis=1)
    v = tiled(v.T, size, fill=0).swapaxes(1, 2)  # (tiles, B + 2, size)
    # Weights sum to 0, so a constant may be taken off K: then sums over tiles cancel less.
    strip = gaussian_kernel(placed[:32], placed, bandwidths)
    constant = strip.mean()

    def add_tile(totals: tuple, tile: tuple[jax.Array, jax.Array]) -> tuple[tuple, None]:
        row, column = tile
        kernel = gaussian_kernel(points[row], points[column], bandwidths) - constant
        times = jnp.where(row == column, 1, 2).astype(u.dtype)  # below the diagonal, the mirror
        left, right = v[row] @ kernel, v[column]
        form = jnp.sum(left * right, axis=1)
        cross = (left @ right[-1] + right @ left[-1]) / 2
        return (totals[0] + times * form, totals[1] + times * cross), None

    zero = jnp.zeros(v.shape[1], u.dtype)
    rows, columns = np.triu_indices(len(points))
    upper = (jnp.asarray(rows), jnp.asarray(columns))
    (form, cross), _ = jax.lax.scan(add_tile, (zero, zero), upper)
    q, a, s = form[:-1], cross[:-1], form[-1]
    tolerance = 16 * jnp.finfo(u.dtype).eps * jnp.mean(jnp.abs(strip - constant))
    if not unbiased:
        return NullStatistics(relabelling.balanced((1 / n_x + 1 / n_y) ** 2 * q), tolerance)
    mmd2 = unbiased_form(q, a, s, 1 - constant, n_x, n_y)
    return NullStatistics(relabelling.balanced(mmd2), tolerance)


def unbiased_form(
    q: jax.Array, a: jax.Array, s: jax.Array, diagonal: jax.Array, n_x: int, n_y: int
) -> jax.Array:
    """The unbiased MMD² from uᵀKu, uᵀK1 and 1ᵀK1 (see `tiled_null`), K the same on its diagonal."""
    n = n_x + n_y
    p, xx, yy, xy = n_x / n, 1 / (n_x * (n_x - 1)), 1 / (n_y * (n_y - 1)), 1 / (n_x * n_y)
    return (
        (xx + yy + 2 * xy) * q
        + 2 * (p * xx - (1 - p) * yy - (1 - 2 * p) * xy) * a
        + (p**2 * xx + (1 - p) ** 2 * yy - 2 * p * (1 - p) * xy) * s
        - (1 / (n_x - 1) + 1 / (n_y - 1)) * diagonal
    )
