"""Calibration by pilot data: reference samples from p give the null law beforehand.

The test is prepared once (θ0, the bandwidth). Its statistic between two disjoint blocks of the
reference, trained anew each time and vmapped, many times over, is its law under H0; of `NetMMD` and
`NTKMMD` it is the symmetric one, while tests that need a split make it inside. What comes in later
is compared with a block of the reference and never retrains the null. The level is exact up to the
reference's size: all blocks come from one reference, so its own sampling error is shared by them.
"""

import dataclasses
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.files import load_leaves, refill, save_leaves, whole_file
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_points, check_finite, points_like
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import working
from ntkmmd_jax._lib.quick import soon
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.standard import Standard, blank_standard
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.networks import as_network
from ntkmmd_jax.twosample.calibrations import Calibration
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.evidence import Comparable, Evidence
from ntkmmd_jax.twosample.ntk import NTKMMD
from ntkmmd_jax.twosample.parts import Prepared
from ntkmmd_jax.twosample.recipe import from_recipe, recipe
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.twosample.taught import beside, taught
from ntkmmd_jax.twosample.verdicts import null_result

AT_ONCE = 16  # pairs of blocks whose statistic is computed at once


@record
class PilotReport:
    """What a pilot says of incoming samples; a batch of them has a leading axis."""

    statistics: jax.Array  # (...)
    pvalues: jax.Array  # (...)
    threshold: jax.Array  # ()
    level: jax.Array  # ()

    @property
    def reject(self) -> jax.Array:
        """Which samples differ from the reference."""
        return self.pvalues <= self.level


@record
class PilotNull(Calibration):
    """The null law of a statistic, precomputed from reference samples; `pilot_null` makes it.

    Use it as `pilot(key, samples)`, or as `NTKMMD(train_fraction=None, calibration=pilot)`.
    """

    word: ClassVar[str] = "pilot"
    needs: ClassVar[type[Evidence]] = Comparable

    test: TwoSampleTest  # whose statistic it is
    prepared: Prepared  # θ0, or what else the test fixes beforehand
    reference: jax.Array  # (N, ...)
    null: jax.Array  # (B,)
    sizes: tuple[int, int] = static()  # of a block of reference, and of an incoming sample
    contiguous: bool = static(default=False)  # whether blocks are runs of neighbours
    coordinates: Standard | None = None  # those of the reference, if the test standardises

    @property
    def params(self) -> Prepared:
        """The earlier name of `prepared`, for one version more."""
        warnings.warn("PilotNull.params is now `prepared`", DeprecationWarning, stacklevel=2)
        return self.prepared

    @property
    def pool(self) -> jax.Array:
        """The earlier name of `reference`, for one version more."""
        warnings.warn("PilotNull.pool is now `reference`", DeprecationWarning, stacklevel=2)
        return self.reference

    def statistic(self, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        """T of two samples, prepared as the pilot is; the key is for the order of training."""
        if self.coordinates is not None:
            x, y = self.coordinates(x), self.coordinates(y)
        return self.test.compared(key, self.prepared, x, y).statistic()

    def prepare(self, test: TwoSampleTest, key: jax.Array, points: jax.Array) -> Prepared:
        """As the pilot is, for samples with the features of its reference."""
        points_like(points, self.reference.shape[1:])
        return self.prepared

    def standard(
        self, test: TwoSampleTest, key: jax.Array, points: jax.Array, n: Any
    ) -> Standard | None:
        """Those of the reference: the null law holds in them."""
        return self.coordinates

    def result(self, key: jax.Array, evidence: Comparable, level: Any) -> TwoSampleResult:
        """The statistic among those of the reference."""
        return null_result(evidence.statistic(), self.null, level, witness=evidence.witness)

    def check(self, test: TwoSampleTest) -> None:
        """Refuse another kind of test: its statistic has another law."""
        super().check(test)
        if type(test) is not type(self.test):
            raise ValueError(f"a pilot of {type(self.test).__name__} is none of {test.described}")
        if test.standardize != self.test.standardize:
            raise ValueError(
                f"a pilot with standardize={self.test.standardize} is none of {test.described} "
                f"with standardize={test.standardize}: its coordinates are fixed by its reference"
            )

    def check_sizes(self, test: TwoSampleTest, n_x: int, n_y: int) -> None:
        """Refuse samples of other sizes than the pilot's."""
        if (n_x, n_y) != self.sizes:
            raise ValueError(f"the pilot is for samples of sizes {self.sizes}; got {(n_x, n_y)}")

    def __call__(self, key: Any, samples: Any, *, level: float = 0.05) -> PilotReport:
        """Compare samples (n, ...), or many (k, n, ...) at once, with blocks of the reference.

        Args:
            key: A JAX key or an int seed, for the blocks and the order of training.
            samples: Incoming samples of the pilot's size.
            level: Probability of a false rejection.
        """
        samples = jnp.asarray(samples, self.reference.dtype)
        shape = (self.sizes[1], *self.reference.shape[1:])
        if samples.shape[-len(shape) :] != shape or samples.ndim not in (
            len(shape),
            len(shape) + 1,
        ):
            raise ValueError(
                f"the pilot takes samples of shape {shape}, or many of them; got {samples.shape}"
            )
        if not isinstance(samples, Tracer):
            check_finite(samples.reshape(-1, *shape[1:]), "samples")
        calibration.check_level(level)
        return _report(self, as_key(key), samples, level, single=samples.ndim == len(shape))

    def save(self, path: str | os.PathLike) -> Path:
        """Save to one `.npz` file; `load` reads it back."""
        header = {"kind": "PilotNull", "test": recipe(self.test)}
        header |= {"sizes": self.sizes, "contiguous": self.contiguous}
        leaves = (self.prepared, self.coordinates, self.reference, self.null)
        return save_leaves(path, leaves, **header)

    @classmethod
    def load(cls, path: str | os.PathLike, *, network: Any = None) -> "PilotNull":
        """Read a saved pilot; `network` only if it is a function of your own."""
        network = None if network is None else as_network(network)
        leaves, header = load_leaves(path, "PilotNull")
        with whole_file(path):
            test = from_recipe(header["test"], network)
            reference, null = leaves[-2:]
            n, m = header["sizes"]
            if reference.ndim < 2 or null.ndim != 1 or not 0 < int(n) + int(m) <= len(reference):
                raise ValueError(f"blocks of {n} and {m} of a reference of shape {reference.shape}")
            points = jax.ShapeDtypeStruct(reference.shape, jnp.result_type(float))
            like = jax.eval_shape(test.prepare, jax.random.key(0), points)
            like = (like, blank_standard(points) if test.standardize else None)
            prepared, coordinates = refill(like, leaves[:-2], source=str(path))
            about = {"sizes": (int(n), int(m)), "contiguous": bool(header["contiguous"])}
            about["coordinates"] = coordinates
            return cls(test, prepared, jnp.asarray(reference), jnp.asarray(null), **about)


@jit(static_argnames="single")
def _report(
    pilot: PilotNull, key: jax.Array, samples: jax.Array, level: Any, *, single: bool
) -> PilotReport:
    def one(inputs: tuple[jax.Array, jax.Array]) -> jax.Array:
        key, sample = inputs
        k_block, k_train = jax.random.split(key)
        (block,) = blocks(k_block, pilot.reference, pilot.sizes[:1], pilot.contiguous)
        return pilot.statistic(k_train, block, sample)

    many = samples[None] if single else samples
    statistics = in_batches(one, (jax.random.split(key, len(many)), many), AT_ONCE)
    pvalues = jax.vmap(partial(calibration.pvalue, null=pilot.null))(statistics)
    if single:
        statistics, pvalues = statistics[0], pvalues[0]
    threshold = calibration.threshold(pilot.null, level)
    return PilotReport(statistics, pvalues, threshold, jnp.asarray(level, statistics.dtype))


def blocks(
    key: jax.Array, reference: jax.Array, sizes: tuple[int, ...], contiguous: bool
) -> list[jax.Array]:
    """Disjoint blocks of the sizes given: at random points, or runs of neighbours.

    Runs keep the serial dependence of a series. Their order and the gaps between them are random.
    """
    n, needed = len(reference), sum(sizes)
    if not contiguous:
        picked = jnp.argsort(jax.random.bits(key, (n,)))[:needed]
        return [reference[part] for part in jnp.split(picked, np.cumsum(sizes)[:-1])]
    k_gaps, k_order = jax.random.split(key)
    gaps = jnp.sort(jax.random.randint(k_gaps, (len(sizes),), 0, n - needed + 1))
    order = jax.random.permutation(k_order, len(sizes))
    lengths = jnp.asarray(sizes)[order]
    starts = gaps + jnp.cumsum(lengths) - lengths
    where = jnp.argsort(order)
    return [
        jax.lax.dynamic_slice_in_dim(reference, starts[where[i]], size)
        for i, size in enumerate(sizes)
    ]


def pair_statistics(
    keys: jax.Array,
    statistic: Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
    reference: jax.Array,
    sizes: tuple[int, int],
    contiguous: bool,
) -> jax.Array:
    """A null sample (B,): for each key, `statistic(key, x, y)` of two disjoint blocks."""

    def draw(key: jax.Array) -> jax.Array:
        k_blocks, k_train = jax.random.split(key)
        return statistic(k_train, *blocks(k_blocks, reference, sizes, contiguous))

    return in_batches(draw, keys, AT_ONCE)


def pilot_null(
    key: Any,
    reference: Any,
    n: int | tuple[int, int],
    *,
    test: TwoSampleTest | None = None,
    n_draws: int = 400,
    contiguous: bool = False,
) -> PilotNull:
    """Precompute the null law of a test's statistic from reference samples of p.

    Args:
        key: A JAX key or an int seed, for θ0, the blocks and the orders of training.
        reference: Reference samples, array-like (N, ...), N at least the size of two blocks.
        n: Size of a block of reference and of an incoming sample, or a pair of both.
        test: Any test, for its statistic; by default `NTKMMD`, exact. Of `NTKMMD` and `NetMMD` it
            is the symmetric statistic; a test that needs a split makes it inside.
        n_draws: Pairs of blocks, B.
        contiguous: Whether blocks are runs of neighbours, for a series with serial dependence.

    Example:
        >>> from ntkmmd_jax.networks import mlp
        >>> reference = np.random.default_rng(0).normal(size=(100, 2))
        >>> pilot = pilot_null(0, reference, 20, test=NTKMMD(mlp(16)), n_draws=50)
        >>> bool(pilot(1, reference[:20] + 3).reject)
        True
    """
    if not isinstance(test, TwoSampleTest | None):
        raise TypeError(f"a pilot is for a test object, such as NTKMMD(); got {test!r}")
    test = (NTKMMD() if test is None else test).for_pairs()
    reference = as_points(reference, "the reference")
    check_finite(reference, "the reference")
    points, reference = taught(test, reference)
    n_x, n_y = (n, n) if isinstance(n, int) else n
    if min(n_x, n_y) < 2 or n_x + n_y > len(reference):
        sizes = (n_x, n_y)
        raise ValueError(
            f"blocks of {sizes} do not fit into a reference of {len(reference)} points"
            f"{beside(len(points)) if test.fits else ''}"
        )
    whole("n_draws, the pairs of blocks behind the null,", n_draws)
    test.check_samples(n_x, n_y, reference.shape[1:])
    with working(f"pilot of {test.method}"):
        k_init, k_draws = jax.random.split(as_key(key))
        coordinates, prepared = _fixed(k_init, test, points)
        about: Any = {"sizes": (n_x, n_y), "contiguous": contiguous, "coordinates": coordinates}
        empty = PilotNull(test, prepared, reference, jnp.zeros(0), **about)
        null = jax.block_until_ready(_draws(empty, jax.random.split(k_draws, n_draws)))
        return dataclasses.replace(empty, null=null)


@soon
def _fixed(key: jax.Array, test: TwoSampleTest, points: jax.Array) -> tuple:
    """Coordinates, and what the test fixes in them."""
    coordinates = test.standard(key, points)
    standardized = points if coordinates is None else coordinates(points)
    return coordinates, test.prepare(key, standardized)


@jit
def _draws(pilot: PilotNull, keys: jax.Array) -> jax.Array:
    return pair_statistics(keys, pilot.statistic, pilot.reference, pilot.sizes, pilot.contiguous)
