"""The Gaussian-kernel MMD tests, in quadratic and in linear time (Gretton et al. 2012).

    MMD² = Σ_ij w_i k(z_i, z_j) w_j,   k(z, z') = exp(−|z − z'|² / 2σ²),

with σ the median Euclidean distance of the pooled sample unless given. All labellings share one
kernel matrix, which is made and used tile by tile, so neither it nor any copy is ever whole.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax.calibration import (
    NullStatistics,
    Relabelling,
    check_level,
    check_reach,
    labellings,
    least_pvalue,
    relabel,
)
from ntkmmd_jax.kernels import gaussian_kernel, gaussian_profile, median_bandwidth
from ntkmmd_jax.measure import points_like, random_orders, signed_measure
from ntkmmd_jax.pytree import record, static
from ntkmmd_jax.twosample.analytic import asymptotic_result, normal_law, warn_if_too_few
from ntkmmd_jax.twosample.contract import (
    TwoSampleTest,
    analytic_result,
    check_calibration,
    null_result,
    permutation_result,
)
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.witness import in_blocks, savable

MEDIAN_POINTS = 2000  # pooled points beyond which the median is that of a random subsample
MEDIAN_PAIRS = 500  # the same for the linear-time test, which takes the points by pairs (x, y)
_NORMAL_PAIRS = 100  # samples of each from which on "normal" of the linear test is measured to hold
TILE = 2048  # rows and columns of the kernel matrix that are held at once


@savable
@record
class KernelWitness:
    """g(z) = Σ_i w_i k(z, z_i), the witness of the Gaussian MMD; call it at any points."""

    points: jax.Array  # (n, ...)
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


@jax.jit
def _witness_values(witness: KernelWitness, points: jax.Array) -> jax.Array:
    def values(block: jax.Array) -> jax.Array:
        return gaussian_kernel(block, witness.points, witness.bandwidths) @ witness.weights

    return in_blocks(values, points)


class _GaussianTest(TwoSampleTest):
    """What the two share: the bandwidth, σ or a tuple of multiples of the median, all traced."""

    def __post_init__(self) -> None:
        bandwidth = self.bandwidth
        if isinstance(bandwidth, str):
            bandwidth = (1.0,) if bandwidth == "median" else ()
        values = bandwidth if isinstance(bandwidth, tuple) else (bandwidth,)
        known = [c for c in values if isinstance(c, int | float | np.generic)]
        if not values or not all(0 < c < math.inf for c in known):
            raise ValueError(
                "bandwidth must be 'median', a positive number, or a tuple of positive multiples "
                f"of the median; got {self.bandwidth!r}"
            )
        object.__setattr__(self, "bandwidth", bandwidth)

    def bandwidths(self, points: jax.Array) -> jax.Array:
        """σ, or the multiples of the median distance of these points, shape (k,)."""
        if not isinstance(self.bandwidth, tuple):
            return jnp.asarray(self.bandwidth, points.dtype).reshape(1)
        median = median_bandwidth(points)
        return jnp.stack([jnp.asarray(c, points.dtype) * median for c in self.bandwidth])


@record
class GaussianMMD(_GaussianTest):
    """The MMD with a Gaussian kernel on all data, calibrated by permuting all labels.

    The median is over all pairs of up to 2000 pooled points; beyond, over those of a random
    subsample of 2000, drawn without regard to the labels, so that the level stays exact.
    Quadratic time; memory of B + 1 labellings and a tile of the kernel matrix.
    """

    unbiased: bool = static(default=False)
    bandwidth: Any = "median"  # or σ; or a tuple: the mean of kernels at multiples of the median
    calibration: str = static(default="full")  # or "asymptotic": the weighted χ² law, n³
    n_permutations: int = static(default=400)
    shared_pool: bool = static(default=False)  # one pool of labellings for all replicas
    level: Any = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_calibration(self, ("full", "asymptotic"))
        check_level(self.level, self.n_permutations)

    @property
    def uses_lapack(self) -> bool:
        """The asymptotic law takes eigenvalues."""
        return self.calibration == "asymptotic"

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "gmmd"

    def run(self, key: jax.Array, x: jax.Array, y: jax.Array) -> TwoSampleResult:
        """Place the points in the pool of labellings, and take the MMD² of each."""
        measure, n_x, n_y = signed_measure(x, y), len(x), len(y)
        relabelling = relabel(key, n_x, n_y, self.n_permutations, shared=self.shared_pool)
        # The arrangement is uniform under H0, so its first places are a sample without labels.
        placed = relabelling.placed(measure.points)
        bandwidths = self.bandwidths(placed[:MEDIAN_POINTS])
        witness = KernelWitness(measure.points, measure.weights, bandwidths)
        about = {"witness": witness, "method": self.method, "n_x": n_x, "n_y": n_y}
        if self.calibration == "asymptotic":
            kernel = gaussian_kernel(measure.points, measure.points, bandwidths)
            return asymptotic_result(kernel, n_x, self.level, unbiased=self.unbiased, **about)
        null = tiled_null(relabelling, placed, bandwidths, unbiased=self.unbiased)
        return permutation_result(relabelling, null, self.level, **about)

    def check_sizes(self, n_x: int, n_y: int) -> None:
        """Refuse sizes at which the level cannot be reached."""
        if self.calibration == "full":
            check_reach(labellings(n_x, n_y, even=True), self.level, f"{n_x} + {n_y} points")


def tiled_null(
    relabelling: Relabelling, placed: jax.Array, bandwidths: jax.Array, *, unbiased: bool
) -> NullStatistics:
    """MMD² of the placed points (n, ...) under every labelling, tile by tile of the kernel matrix.

    With labels l ∈ {0, 1}, u = l − n_X/n and c = 1/n_X + 1/n_Y, the weights are w = c u. Of
    q = uᵀKu, a = uᵀK1 and s = 1ᵀK1, the biased MMD² is c² q, and the unbiased one linear in all.
    """
    n_x, n = relabelling.n_x, len(placed)
    n_y, tiles = n - n_x, math.ceil(n / TILE)
    padding = -n % tiles
    points = jnp.concatenate([placed, jnp.repeat(placed[:1], padding, axis=0)])
    points = points.reshape(tiles, -1, *placed.shape[1:])
    u = relabelling.labels.astype(placed.dtype) - n_x / n
    v = jnp.pad(jnp.concatenate([u, jnp.ones((1, n), u.dtype)]), ((0, 0), (0, padding)))
    v = v.reshape(len(v), tiles, -1).swapaxes(0, 1)  # (tiles, B + 2, size)
    # Weights sum to 0, so a constant may be taken off K: then sums over tiles cancel less.
    strip = gaussian_kernel(placed[:32], placed, bandwidths)
    constant = strip.mean()

    def add_tile(totals: tuple, tile: tuple[jax.Array, jax.Array]) -> tuple[tuple, None]:
        row, column = tile
        kernel = gaussian_kernel(points[row], points[column], bandwidths) - constant
        times = jnp.where(row == column, 1, 2).astype(u.dtype)  # below the diagonal, the mirror
        left, right = jnp.matmul(v[row], kernel, precision="highest"), v[column]
        form = jnp.sum(left * right, axis=1)
        cross = (left @ right[-1] + right @ left[-1]) / 2
        return (totals[0] + times * form, totals[1] + times * cross), None

    zero = jnp.zeros(v.shape[1], u.dtype)
    upper = tuple(jnp.asarray(index) for index in np.triu_indices(tiles))
    (form, cross), _ = jax.lax.scan(add_tile, (zero, zero), upper)
    q, a, s = form[:-1], cross[:-1], form[-1]
    tolerance = 16 * jnp.finfo(u.dtype).eps * jnp.mean(jnp.abs(strip - constant))
    if not unbiased:
        return NullStatistics((1 / n_x + 1 / n_y) ** 2 * q, tolerance)
    p, xx, yy, xy = n_x / n, 1 / (n_x * (n_x - 1)), 1 / (n_y * (n_y - 1)), 1 / (n_x * n_y)
    values = (
        (xx + yy + 2 * xy) * q
        + 2 * (p * xx - (1 - p) * yy - (1 - 2 * p) * xy) * a
        + (p**2 * xx + (1 - p) ** 2 * yy - 2 * p * (1 - p) * xy) * s
        - (1 / (n_x - 1) + 1 / (n_y - 1)) * (1 - constant)  # the diagonal
    )
    return NullStatistics(values, tolerance)


@record
class LinearTimeMMD(_GaussianTest):
    """The linear-time MMD: the mean of h over disjoint blocks of two pairs (x₁,y₁), (x₂,y₂).

        h = k(x₁,x₂) + k(y₁,y₂) − k(x₁,y₂) − k(x₂,y₁)

    Under H0 the members of each pair are exchangeable, and swapping x₁ with y₁ turns h into
    k(y₁,x₂) + k(x₁,y₂) − k(y₁,y₂) − k(x₂,x₁) = −h. So the signs of the m blocks are independent
    and fair whatever the |h| are, and flipping them at random permutes the labels, in linear time:
    calibration "permutation", exact. Pairs are swapped at random before anything is computed, and
    the signs that undo it are the observed row of B + 1, so that rounding knows no labels.

    "normal" takes mean(h) √m / sd(h) of the m blocks as standard normal, a limit: its level of 5 %
    is 9.5 % at n = 8 per sample, 6.7 % at 20, 5.6 to 6.1 % at 40 and 60, and 5 % from 100 on.

    Pairs and blocks are formed at random. Of samples of unequal size the larger loses its excess,
    chosen at random, and an odd pair is left out. The median is that of the first 500 pairs, a
    set that no swap changes. A statistic without a witness.
    """

    bandwidth: Any = "median"  # or σ; or a tuple: the mean of kernels at multiples of the median
    calibration: str = static(default="permutation")  # or "normal"
    n_permutations: int = static(default=400)  # of calibration "permutation"
    level: Any = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_calibration(self, ("normal", "permutation"))
        check_level(self.level, None if self.calibration == "normal" else self.n_permutations)

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "gmmd-lin"

    def run(self, key: jax.Array, x: jax.Array, y: jax.Array) -> TwoSampleResult:
        """Pair at random, average h over the blocks, compare with its standard error or flips."""
        n_x, n_y = len(x), len(y)
        m = min(n_x, n_y) // 2
        k_pair, k_flip = jax.random.split(key)
        order_x, order_y = random_orders(k_pair, n_x, n_y)
        x, y = x[order_x[: 2 * m]], y[order_y[: 2 * m]]
        rows = 1 + self.n_permutations if self.calibration == "permutation" else 1
        words = jax.random.bits(k_flip, (rows, math.ceil(m / 32)))
        observed = jnp.zeros(2 * m, bool).at[::2].set(signs(words[0], m) < 0)  # pairs to swap
        observed = observed.reshape(-1, *[1] * (x.ndim - 1))
        x, y = jnp.where(observed, y, x), jnp.where(observed, x, y)
        bandwidths = self.bandwidths(jnp.concatenate([x[:MEDIAN_PAIRS], y[:MEDIAN_PAIRS]]))

        def k(z1: jax.Array, z2: jax.Array) -> jax.Array:
            return gaussian_profile(jnp.sum((z1 - z2).reshape(m, -1) ** 2, axis=1), bandwidths)

        x1, x2, y1, y2 = x[::2], x[1::2], y[::2], y[1::2]
        h = (k(x1, x2) + k(y1, y2)) - (k(x1, y2) + k(x2, y1))
        about = {"method": self.method, "n_x": n_x, "n_y": n_y}
        if self.calibration == "normal":
            h = signs(words[0], m) * h
            law = normal_law(h.mean(), h.std(ddof=1) / math.sqrt(m), self.level)
            return analytic_result(h.mean(), *law, self.level, **about)
        values = jax.lax.map(lambda row: jnp.mean(signs(row, m) * h), words)
        tolerance = 4 * jnp.finfo(h.dtype).eps * jnp.mean(jnp.abs(h))
        about |= {"least": least_pvalue(values, tolerance)}
        return null_result(values[0], values[1:], self.level, tolerance, **about)

    def check_sizes(self, n_x: int, n_y: int) -> None:
        """Refuse sizes at which the level cannot be reached; warn where the limit law fails."""
        m = min(n_x, n_y) // 2
        if m < 2:
            raise ValueError(f"gmmd-lin needs 4 samples of each; got n_x = {n_x}, n_y = {n_y}")
        if self.calibration == "normal":
            warn_if_too_few(self.method, "normal", (n_x, n_y), _NORMAL_PAIRS)
        else:
            check_reach(2 ** min(m, 60), self.level, f"{m} blocks of two pairs (x, y)")


def signs(words: jax.Array, m: int) -> jax.Array:
    """±1, as the bits of 32-bit words have it, shape (m,)."""
    bits = (words[:, None] >> jnp.arange(32, dtype=words.dtype)) & 1
    return 2.0 * bits.reshape(-1)[:m] - 1
