"""The contract of every test: an immutable pytree, called as `test(key, x, y) -> TwoSampleResult`.

    run = split -> prepare -> evidence -> calibration

on x and y as they are or, with `standardize`, in the coordinates of `standard.py`; the witness
always takes points as they are.

Pure, jittable and vmappable. What fixes shapes or structure is static; numbers such as the
learning rate and the level are traced, so a sweep over them compiles once. Charts and pilots
prepare once, and take the statistic of many pairs of samples.
"""

import dataclasses
from collections.abc import Hashable
from functools import cached_property
from typing import Any, ClassVar, Self

import jax
from jax.core import Tracer

from ntkmmd_jax._lib import quick
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_samples
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import check_record, record, static
from ntkmmd_jax._lib.standard import Standard, standard_of
from ntkmmd_jax.calibration import labellings
from ntkmmd_jax.measure import held_out, split, split_sizes
from ntkmmd_jax.networks import Network, check_network
from ntkmmd_jax.pooled import Pooled, in_bucket, pooled, split_pooled
from ntkmmd_jax.twosample import kept
from ntkmmd_jax.twosample.calibrations import (
    Calibration,
    Permuting,
    as_calibration,
    default_calibration,
)
from ntkmmd_jax.twosample.evidence import Evidence, Keys, Sample
from ntkmmd_jax.twosample.parts import OfParts, Prepared
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.twosample.standard import in_units

_PROGRAMS = 64  # compiled tests that are kept
_STANDARD = 1  # folded into the key of a run; the other keys are split from it


@record
class TwoSampleTest(OfParts):
    """Base of the tests: checks shapes in Python, then runs one jitted program.

    Args:
        level: The probability of a false rejection, in (0, 1); traced.
        calibration: "test", "permutation", "full", "normal", "asymptotic", "theory", "anytime", an
            object such as `Normal()`, or a `PilotNull`; None takes the first that applies.
        n_permutations: B, of calibrations that permute labels.
        shared_pool: Whether replicas under `vmap` share one pool of labellings, which is faster.
        standardize: Whether the test sees every coordinate with pooled mean 0 and spread 1.
    """

    even: ClassVar[bool] = True  # T stays the same when x and y change places
    normal_from: ClassVar[int] = 20  # points of each from which on `Normal` is measured to hold
    stops: ClassVar[bool] = False  # its result has a wealth, and says where one could have stopped
    null_order: ClassVar[float] = 1.0  # under H0, T is `null_centre` + a term of n^−null_order,
    null_power: ClassVar[float] = 1.0  # and that goes with the variance of means to this power
    stratifies: ClassVar[bool] = False  # labels of all points may be permuted within strata
    quick_up_to: ClassVar[int] = 512  # pooled points in a bucket that is compiled quickly
    fits: ClassVar[bool] = (
        False  # `prepare` learns from its points: T of others is another (`taught`)
    )
    ranks: ClassVar[bool] = False  # T of a labelling looks at the others of its pool
    learner: ClassVar[Hashable] = None  # of its evidence: tests of one learn once (`together`)

    level: Any = dataclasses.field(default=0.05, kw_only=True)
    calibration: Any = dataclasses.field(default=None, kw_only=True)  # a word, or a `Calibration`
    n_permutations: int = static(default=400, kw_only=True)  # of calibrations that permute
    shared_pool: bool = static(default=False, kw_only=True)  # one pool for all replicas
    standardize: bool = static(default=False, kw_only=True)  # pooled mean 0 and spread 1

    def __post_init__(self) -> None:
        check_record(self)
        if not isinstance(self.standardize, bool):
            raise TypeError(f"standardize must be True or False; got {self.standardize!r}")
        options = {"held_out": self.split_at is not None}
        found = as_calibration(self.calibration, self.evidence_type, self.described, **options)
        if isinstance(found, Permuting):  # the test's own numbers count: `replace` sets them
            for name in ("n_permutations", "shared_pool"):
                if (number := getattr(found, name)) is not None:
                    object.__setattr__(self, name, number)
            found = dataclasses.replace(found, n_permutations=None, shared_pool=None)
        object.__setattr__(self, "calibration", found)
        self.calibrated_by.check(self)

    def __call__(self, key: Any, x: Any, y: Any) -> TwoSampleResult:
        """Test whether x (n_X, ...) and y (n_Y, ...) come from the same distribution.

        Args:
            key: A JAX key, or an int seed.
            x: Anything array-like, one row per sample.
            y: Likewise, with the same features.
        """
        return self.answer(key, *as_samples(x, y))

    def in_bucket(self, key: Any, x: Any, y: Any) -> TwoSampleResult:
        """The same in a program for many sizes (see `pooled`), if few soon compiled; not traced."""
        x, y = as_samples(x, y)
        soon = len(x) + len(y) <= self.quick_up_to and quick.is_for_here()
        return self.answer(key, x, y, bucket=self.pads(len(x), len(y)), soon=soon)

    def answer(
        self, key: Any, x: jax.Array, y: jax.Array, within: Any = None,
        *, bucket: bool = False, soon: bool = False,
    ) -> TwoSampleResult:  # fmt: skip
        """The result of samples that are arrays: checked, run by one program, and warned of."""
        self.check_sizes(len(x), len(y), x.shape[1:])
        for network in self.networks:
            check_network(network, x.shape[1:])
        if not isinstance(x, Tracer):
            kept.forget_beyond(_PROGRAMS, run_program, run_quickly)
        given = in_bucket(x, y) if bucket else (x, y) if within is None else (x, y, within)
        kind, program = ("quick", run_quickly) if soon else ("test", run_program)
        arguments = (self, as_key(key), given)  # in a bucket not traced, of shapes that come again
        found = kept.run(kind, program, *arguments) if bucket else program(*arguments)
        result = dataclasses.replace(found, n_x=len(x), n_y=len(y))
        result.warn_if_powerless()
        return result

    def run(self, key: jax.Array, x: jax.Array, y: jax.Array) -> TwoSampleResult:
        """The test itself, on checked arrays, standardised or not."""
        return self.run_pooled(key, pooled((x, y)))

    def run_pooled(self, key: jax.Array, samples: Pooled) -> TwoSampleResult:
        """The same of samples in one array, with padding, strata or groups, or without."""
        keys = self.keys(key)
        return self.concluded(keys.null, self.gathered(keys, samples))

    def gathered(self, keys: Keys, samples: Pooled) -> Evidence:
        """What samples in one array say."""
        prepared = self.calibrated_by.prepare(self, keys.prepare, samples.points)
        if samples.is_plain:
            train, held = self.split(keys.split, *samples.both)
        elif self.split_at is None:
            train, held = samples, samples
        else:
            train, held = split_pooled(keys.split, samples, self.split_at)
        return self.evidence(keys.evidence, prepared, train, held)

    def concluded(self, key: jax.Array, evidence: Evidence) -> TwoSampleResult:
        """The verdict on evidence of its own."""
        found = self.calibrated_by.result(key, evidence, self.level)
        return dataclasses.replace(found, method=self.method)

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        raise NotImplementedError

    @property
    def evidence_type(self) -> type[Evidence]:
        """What its evidence can do: nothing, of a test that has a `run` of its own."""
        return Evidence

    def evidence(self, key: jax.Array, prepared: Prepared, train: Any, held: Any) -> Evidence:
        """What the samples say: found from the training half, to be tested on the other.

        Args:
            key: For the order of training, or whatever else is random.
            prepared: As `prepare` gives it.
            train: x and y to learn from; `Pooled`, in a bucket.
            held: x and y to test on; the same where the test has no split.
        """
        raise NotImplementedError

    def prepare(self, key: jax.Array, points: jax.Array) -> Prepared:
        """Fix what does not look at labels, for points like these (n, ...)."""
        del key, points
        return None

    @cached_property
    def calibrated_by(self) -> Calibration:
        """The calibration in use, with the numbers of this test."""
        found = self.calibration or default_calibration(self.evidence_type)
        return found.numbered(self) if isinstance(found, Permuting) else found

    @property
    def described(self) -> str:
        """The test in words, for messages."""
        return type(self).__name__

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks that must take the points."""
        network = getattr(self, "network", None)
        return () if network is None else (network,)

    @property
    def split_at(self) -> float | tuple[float, float] | None:
        """The share of the samples to train on, or None without a split."""
        return None

    @property
    def uses_lapack(self) -> bool:
        """Whether the program calls LAPACK on a CPU (see `sweep`)."""
        return False

    @property
    def pads_up_to(self) -> int:
        """Pooled points up to which a bucket saves more time than it costs; 0 of a test without."""
        return 0

    def pads(self, n_x: int, n_y: int) -> bool:
        """Whether samples of these sizes share a program with others (see `pooled`)."""
        return self.calibrated_by.pads and n_x + n_y <= self.pads_up_to

    @property
    def limit_from(self) -> int:
        """Points of each from which on `Asymptotic` is measured to hold."""
        return 0

    def null_centre(self, prepared: Prepared) -> Any:
        """What T comes to under H0 as the spread of means goes to 0."""
        del prepared
        return 0.0

    def keys(self, key: jax.Array) -> Keys:
        """The keys of a run."""
        return Keys(*jax.random.split(key, 4))

    def split(self, key: jax.Array, x: jax.Array, y: jax.Array) -> tuple[Sample, Sample]:
        """The training and the test half; both are all, without a split."""
        if self.split_at is None:
            return (x, y), (x, y)
        return split(key, x, y, self.split_at)

    def prepare_run(self, key: jax.Array, points: jax.Array) -> Prepared:
        """What a single run of pooled points (n, ...) is prepared with."""
        return self.prepare(key, points)

    def standard(self, key: jax.Array, points: jax.Array, n: Any = None) -> Standard | None:
        """Coordinates fixed from n points like these (n, ...); None takes points as they are."""
        return standard_of(key, points, n) if self.standardize else None

    def for_pairs(self) -> Self:
        """The test as charts and pilots take it: its statistic, whatever its calibration."""
        return dataclasses.replace(self, calibration=None)

    def compared(self, key: jax.Array, prepared: Prepared, x: jax.Array, y: jax.Array) -> Any:
        """The evidence, `Comparable`, of one of many pairs of samples; it may split them."""
        if self.split_at is None:
            return self.evidence(key, prepared, (x, y), (x, y))
        k_split, k_evidence = jax.random.split(key)
        return self.evidence(k_evidence, prepared, *self.split(k_split, x, y))

    def statistic(
        self, key: jax.Array, prepared: Prepared, x: jax.Array, y: jax.Array
    ) -> jax.Array:
        """T of one of many pairs of samples."""
        return self.compared(key, prepared, x, y).statistic()

    def scratch(self, n: int) -> int:
        """Numbers that a run of n points holds, beside points and parameters."""
        del n
        return 0

    def sizes(self, n_x: int, n_y: int) -> tuple[int, int]:
        """How many points of each are tested: those held out, or all."""
        return (n_x, n_y) if self.split_at is None else held_out(n_x, n_y, self.split_at)

    def reach(self, n_x: int, n_y: int) -> tuple[int, str]:
        """How many values labellings give to T, and of what."""
        m_x, m_y = self.sizes(n_x, n_y)
        held = "" if self.split_at is None else " held-out"
        return labellings(m_x, m_y, even=self.even), f"{m_x} + {m_y}{held} points"

    def check_samples(self, n_x: int, n_y: int, features: tuple[int, ...] | None = None) -> None:
        """Refuse samples of which there is no statistic."""
        del features
        if self.split_at is not None:
            split_sizes(n_x, n_y, self.split_at)

    def check_sizes(self, n_x: int, n_y: int, features: tuple[int, ...] | None = None) -> None:
        """Refuse sizes at which the level cannot be reached; warn where a limit law fails."""
        self.check_samples(n_x, n_y, features)
        self.calibrated_by.check_sizes(self, n_x, n_y)


def _run(test: TwoSampleTest, key: jax.Array, samples: Any) -> TwoSampleResult:
    """The test of checked samples, standardised or not: one program for one shape."""
    samples = pooled(samples)
    k_standard = jax.random.fold_in(key, _STANDARD)
    standard = test.calibrated_by.standard(test, k_standard, samples.points, samples.n)
    if standard is not None:
        samples = dataclasses.replace(samples, points=standard(samples.points))
    found = test.run(key, *samples.both) if samples.is_plain else test.run_pooled(key, samples)
    return found if standard is None else in_units(found, standard, samples.points.shape[1:])


run_program, run_quickly = jit(_run), quick.quickly(_run)
