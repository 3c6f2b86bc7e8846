"""What tests with a collection of kernels share: every unbiased MMD² under every labelling.

    MMD²_k = mean_{i≠j} k(x_i, x_j) + mean_{i≠j} k(y_i, y_j) − 2 mean_ij k(x_i, y_j),
    N_k = Σ_{i≠j} k(z_i, z_j)² / n(n−1),   n = min(n_X, n_Y),   z all points,

so that √N_k, the same for every labelling, is the scale of MMD²_k (Biggs, Schrab & Gretton 2023).
A kernel matrix is made and used tile by tile, and all labellings of it are one product.
"""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tiles import even_size, tiled
from ntkmmd_jax.calibration import NullStatistics, Relabelling
from ntkmmd_jax.kernels import collection_bandwidths, exponents, rates
from ntkmmd_jax.pooled import Pooled, pooled
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.evidence import Comparable, Keys, Permuted, Pool, Refittable, Samples
from ntkmmd_jax.twosample.gaussian import unbiased_form
from ntkmmd_jax.witness import in_tiles, savable

POINTS = 1000  # pooled points beyond which bandwidths are those of a random subsample
TILE = 512  # rows and columns held at once: fit a cache, and but half of the matrix is made


@record
class Collected:
    """The statistics of K kernels."""

    mmd2: jax.Array  # (K, B + 1) unbiased, under every labelling
    scale: jax.Array  # (K,) √N_k
    tolerance: jax.Array  # (K,) rounding error of mmd2
    n: Any  # of the smaller sample

    @property
    def ratios(self) -> jax.Array:
        """MMD²_k / √N_k, shape (K, B + 1)."""
        return self.mmd2 / self.scale[:, None]

    def sharp(self, sharpness: Any) -> jax.Array:
        """λ = sharpness · √(n(n−1))."""
        n = jnp.asarray(self.n, self.scale.dtype)
        return jnp.asarray(sharpness, n.dtype) * jnp.sqrt(n * (n - 1))


def collected(relabelling: Relabelling, placed: jax.Array, bandwidths: jax.Array) -> Collected:
    """MMD² of the placed points (n, ...) under every labelling, for every kernel of (2, k)."""
    n_x, n_y = relabelling.sizes
    n, size = padding.number(relabelling.n), even_size(len(placed), TILE)
    points = tiled(placed, size)
    u = relabelling.labels.astype(placed.dtype) - jnp.reshape(n_x / n, (-1, 1))
    v = padding.cleared(jnp.concatenate([u, jnp.ones_like(u[:1])]), relabelling.n, axis=1)
    v = tiled(v.T, size, fill=0).swapaxes(1, 2)  # (tiles, B + 2, size): see `tiled_null`
    rate = rates(bandwidths)
    # Labels u sum to 0, so a constant may be taken off each kernel: then sums cancel less.
    strip = exponents(placed[:32], placed)
    constant = jnp.stack([_each(jnp.mean, *of) for of in zip(strip, rate, strict=True)])

    def add_tile(totals: tuple, tile: tuple[jax.Array, jax.Array]) -> tuple[tuple, None]:
        row, column = tile
        times = jnp.where(row == column, 1, 2).astype(u.dtype)  # below the diagonal, the mirror

        def sums(exponent: jax.Array, of_kernel: tuple) -> tuple[jax.Array, tuple]:
            kernel = jnp.exp(-of_kernel[0] * exponent)
            centred = kernel - of_kernel[1]
            left, right = v[row] @ centred, v[column]
            form = jnp.sum(left * right, axis=1)
            cross = (left @ right[-1] + right @ left[-1]) / 2
            squares = jnp.sum((kernel**2 * right[-1]).sum(1) * v[row, -1])
            spread = jnp.mean(jnp.abs(centred))
            return exponent, (times * form, times * cross, times * squares, times * spread)

        families = zip(exponents(points[row], points[column]), rate, constant, strict=True)
        found = [jax.lax.scan(sums, exponent, (r, c))[1] for exponent, r, c in families]
        both = jax.tree.map(lambda *of: jnp.concatenate(of), *found)
        return jax.tree.map(jnp.add, totals, both), None

    count = bandwidths.size
    zero = jnp.zeros((count, v.shape[1]), u.dtype)
    rows, columns = np.triu_indices(len(points))
    (form, cross, squares, spread), _ = jax.lax.scan(
        add_tile,
        (zero, zero, zero[:, 0], zero[:, 0]),
        (jnp.asarray(rows), jnp.asarray(columns)),
    )
    diagonal = 1 - constant.reshape(-1, 1)
    mmd2 = unbiased_form(form[:, :-1], cross[:, :-1], form[:, -1:], diagonal, n_x, n_y)
    least = padding.at_most(n_x, n_y)
    if relabelling.of_x is not None:
        least = jnp.mean(least)  # of all rows: one scale for all, and none knows which is observed
    scale = jnp.sqrt((squares - n) / (least * (least - 1)))  # the diagonal is 1
    tolerance = 16 * jnp.finfo(u.dtype).eps * spread / len(points) ** 2
    return Collected(relabelling.balanced(mmd2), scale, tolerance, least)


def _each(function: Any, exponent: jax.Array, rate: jax.Array) -> jax.Array:
    """A function of each kernel matrix exp(−rate · exponent), one at a time, stacked."""
    return jax.lax.map(lambda r: function(jnp.exp(-r * exponent)), rate)


def fused(found: Collected, sharpness: Any) -> jax.Array:
    """(1/λ) log mean_k exp(λ MMD²_k / √N_k), λ = sharpness · √(n(n−1)), shape (B + 1,).

    At infinite sharpness it is the largest of them.
    """
    ratios = found.ratios
    largest = jnp.max(ratios, axis=0)
    sharp = found.sharp(sharpness)
    below = jnp.where(ratios < largest, sharp * (ratios - largest), 0)  # ∞ · 0 is no number
    mean = jnp.mean(jnp.exp(below), axis=0)
    # At least the largest counts, also where rounding puts it below itself.
    return largest + jnp.log(jnp.maximum(mean, 1 / len(ratios))) / sharp


@savable
@record
class CollectionWitness:
    """g(z) = Σ_k c_k Σ_i w_i k(z, z_i), c_k the share of a kernel; call it at any points."""

    points: jax.Array  # (n, ...)
    weights: jax.Array  # (n,)
    bandwidths: jax.Array  # (2, k) Gaussian and Laplace
    shares: jax.Array  # (2, k) sum to 1

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (m, ...): large where p exceeds q. Shape (m,)."""
        return _witness_values(self, points_like(points, self.points.shape[1:]))

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        return {"points": self.points.shape, "kernels": self.bandwidths.shape}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "CollectionWitness":
        """A witness of zeros, to be refilled with saved leaves; it has no network."""
        points, kernels = described["points"], described["kernels"]
        return cls(*(jnp.zeros(shape) for shape in (points, points[:1], kernels, kernels)))


@jit
def _witness_values(witness: CollectionWitness, points: jax.Array) -> jax.Array:
    def values(block: jax.Array) -> jax.Array:
        families = exponents(block, witness.points), rates(witness.bandwidths), witness.shares
        gaussian, laplace = (
            share @ _each(lambda kernel: kernel @ witness.weights, exponent, rate)
            for exponent, rate, share in zip(*families, strict=True)
        )
        return gaussian + laplace

    return in_tiles(values, points)


@record
class CollectionEvidence(Refittable, Comparable):
    """All points, and the bandwidths (2, k) if they are fixed beforehand."""

    test: "CollectionTest"
    bandwidths: jax.Array | None
    samples: Pooled

    def _found(self, relabelling: Relabelling) -> tuple[Collected, jax.Array]:
        # The arrangement is uniform under H0, so its first places are a sample without labels.
        placed, bandwidths = relabelling.placed(self.samples.points), self.bandwidths
        if bandwidths is None:
            some = placed[:POINTS]
            bandwidths = self.test.bandwidths(some, padding.at_most(self.samples.n, len(some)))
        return collected(relabelling, placed, bandwidths), bandwidths

    def _as_labelled(self) -> tuple[Collected, jax.Array]:
        """The statistics of the labels as they are."""
        n_x, n_y = self.samples.n_x, self.samples.n_y
        places = jnp.arange(len(self.samples.points))
        return self._found(Relabelling(places[None] < n_x, places, jnp.asarray(0), n_x, n_y))

    def _witness(self, bandwidths: jax.Array, shares: jax.Array) -> CollectionWitness:
        measure = self.samples.measure
        shares = shares.reshape(bandwidths.shape)
        return CollectionWitness(measure.points, measure.weights, bandwidths, shares)

    @property
    def witness(self) -> CollectionWitness:
        """Of the kernels that speak loudest."""
        found, bandwidths = self._as_labelled()
        return self._witness(bandwidths, self.test.shares(found, jnp.asarray(0)))

    def refitted(self, key: jax.Array, pool: Pool) -> Permuted:
        """The statistic of every labelling, from the kernel matrices of the placed points."""
        relabelling = pool.relabel(key, self.samples)
        found, bandwidths = self._found(relabelling)
        witness = self._witness(bandwidths, self.test.shares(found, relabelling.observed))
        return Permuted(self.test.joined(found), relabelling.observed, witness)

    def statistic(self) -> jax.Array:
        """The kernels fused, on the scale √N_k."""
        return fused(self._as_labelled()[0], self.test.sharp)[0]


@record
class CollectionTest(TwoSampleTest):
    """Base of the tests with a collection of kernels, k Gaussian and k Laplace ones.

    Args:
        n_bandwidths: k, bandwidths of each of both laws.
        geometric: Whether bandwidths grow by a factor, or by a step.
    """

    stratifies: ClassVar[bool] = True
    quick_up_to: ClassVar[int] = 256  # many kernels: beyond, it would run for tenths of a second

    null_order: ClassVar[float] = 0.0  # T has its scale in itself

    n_bandwidths: int = static(default=10)  # k
    geometric: bool = static(default=False)  # whether bandwidths grow by a factor, or by a step

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("n_bandwidths", self.n_bandwidths, least=2)

    def joined(self, found: Collected) -> NullStatistics:
        """One statistic of all kernels, under every labelling."""
        raise NotImplementedError

    def shares(self, found: Collected, row: jax.Array) -> jax.Array:
        """The part of each kernel (K,) in the statistic of a labelling."""
        raise NotImplementedError

    @property
    def sharp(self) -> Any:
        """The sharpness of `fused`, where there is no pool of labellings to compare with."""
        return math.inf

    @property
    def evidence_type(self) -> type[CollectionEvidence]:
        """The kernels of all points."""
        return CollectionEvidence

    def keys(self, key: jax.Array) -> Keys:
        """One use of the key: for the labellings, or for the points of the bandwidths."""
        return Keys(key, key, key, key)

    @property
    def pads_up_to(self) -> int:
        """Beyond, quadratic time costs more than it takes to compile."""
        return 4096

    def bandwidths(self, points: jax.Array, n: Any = None) -> jax.Array:
        """Those of n of these points, shape (2, k); of all, by default."""
        return collection_bandwidths(points, self.n_bandwidths, geometric=self.geometric, n=n)

    def prepare(self, key: jax.Array, points: jax.Array) -> jax.Array:
        """The bandwidths, shape (2, k)."""
        return self.bandwidths(jax.random.permutation(key, points)[:POINTS])

    def prepare_run(self, key: jax.Array, points: jax.Array) -> None:
        """Nothing: bandwidths are those of placed points, lest their rounding follow the labels."""
        return None

    def evidence(
        self, key: jax.Array, prepared: jax.Array | None, train: Samples, held: Samples
    ) -> CollectionEvidence:
        """The points; with bandwidths, if they are fixed."""
        return CollectionEvidence(self, prepared, pooled(held))

    def scratch(self, n: int) -> int:
        """Numbers that a run holds: the labellings of n points, and tiles of a kernel."""
        return 3 * self.n_permutations * n + 4 * min(n, TILE) ** 2

    def check_samples(self, n_x: int, n_y: int, features: tuple[int, ...] | None = None) -> None:
        """Refuse samples of one point, which have no unbiased MMD²."""
        super().check_samples(n_x, n_y, features)
        if min(n_x, n_y) < 2:
            raise ValueError(f"{self.method} needs 2 samples of each; got {n_x} and {n_y}")
