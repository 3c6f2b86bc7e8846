"""The calibrations: `calibration.result(key, evidence, level) -> TwoSampleResult`.

Each says which capability of the evidence it `needs`; one that a test's evidence does not have
does not apply to it. `as_calibration` is the one place where a user's words for them are read.

`Permutation` and `Full` are exact at any size. The others take no null sample, and pay for it:
`Normal` and `Asymptotic` are limits in n, and `Bound` is so conservative that it rejects only what
is plain to see. `Ville` holds at any size, at any time, of bets. `PilotNull` (in `pilot.py`) has
its null sample from beforehand.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.laws import normal_law
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tails import NormalTail
from ntkmmd_jax._lib.telling import warn
from ntkmmd_jax.twosample.evidence import (
    Averaged,
    Bounded,
    Comparable,
    Evidence,
    Law,
    Limited,
    Permutable,
    Pool,
    Refittable,
    Wagered,
)
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.twosample.verdicts import law_result, permuted_result


@record
class Calibration:
    """Base of the calibrations; `test` below is the `TwoSampleTest` that has one."""

    word: ClassVar[str]
    needs: ClassVar[type[Evidence]]
    pads: ClassVar[bool] = False  # whether it takes sizes as data (see `pooled`)

    def result(self, key: jax.Array, evidence: Any, level: Any) -> TwoSampleResult:
        """The verdict on evidence of the kind that it needs."""
        raise NotImplementedError

    def prepare(self, test: Any, key: jax.Array, points: jax.Array) -> Any:
        """What the test of pooled points is prepared with: its own, unless a pilot has fixed it."""
        return test.prepare_run(key, points)

    def standard(self, test: Any, key: jax.Array, points: jax.Array, n: Any) -> Any:
        """The coordinates of n pooled points: their own, unless a pilot has fixed them."""
        return test.standard(key, points, n)

    def check(self, test: Any) -> None:
        """Refuse options of the test under which it cannot work."""
        calibration.check_level(test.level)

    def check_sizes(self, test: Any, n_x: int, n_y: int) -> None:
        """Refuse sizes at which the level cannot be reached; warn where a limit law fails."""


@record
class Permuting(Calibration):
    """What both permutation calibrations share: B labellings, and an exact level.

    Args:
        n_permutations: B; None takes the test's.
        shared_pool: Whether all replicas share one pool of labellings; None as the test has it.
    """

    pads: ClassVar[bool] = True

    n_permutations: int | None = static(default=None)
    shared_pool: bool | None = static(default=None)

    def numbered(self, test: Any) -> "Permuting":
        """The same with the numbers of a test."""
        names = ("n_permutations", "shared_pool")
        return dataclasses.replace(self, **{name: getattr(test, name) for name in names})

    @property
    def pool(self) -> Pool:
        """How labellings are drawn."""
        return Pool(n_permutations=self.n_permutations or 400, shared=bool(self.shared_pool))

    def check(self, test: Any) -> None:
        """Refuse a level that B permutations cannot reach."""
        calibration.check_level(test.level, test.n_permutations)

    def check_sizes(self, test: Any, n_x: int, n_y: int) -> None:
        """Refuse samples with too few labellings."""
        values, where = test.reach(n_x, n_y)
        calibration.check_reach(values, test.level, where)


@record
class Permutation(Permuting):
    """Permute the labels of the held-out points, or of all where there is no split.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> ntk.NTKMMD(calibration=ntk.Permutation(999)).n_permutations
        999
    """

    word: ClassVar[str] = "permutation"
    needs: ClassVar[type[Evidence]] = Permutable

    def result(self, key: jax.Array, evidence: Permutable, level: Any) -> TwoSampleResult:
        """The statistic among those of all labellings; nothing is trained again."""
        return permuted_result(evidence.permuted(key, self.pool), level)


@record
class Full(Permuting):
    """Permute the labels of all points, those behind the witness included."""

    word: ClassVar[str] = "full"
    needs: ClassVar[type[Evidence]] = Refittable

    def result(self, key: jax.Array, evidence: Refittable, level: Any) -> TwoSampleResult:
        """The statistic among those of all labellings, each with a witness of its own."""
        return permuted_result(evidence.refitted(key, self.pool), level)


@record
class Normal(Calibration):
    """Take the statistic over its standard error as normal.

    Given the witness held-out scores are independent, so this is the central limit theorem. In
    d = 2 and 10 its level of 5 % is 6.6 to 7.2 % at n = 10 per sample (5 held out), 5.5 to 5.7 % at
    20 and 30, 5.2 to 5.5 % at 40 and 60, and within 0.3 % of 5 % from 100 on (4,000 runs each).

    Example:
        >>> import ntkmmd_jax as ntk
        >>> ntk.NetMMD(calibration=ntk.Normal())
        NetMMD(calibration=Normal())
    """

    word: ClassVar[str] = "normal"
    needs: ClassVar[type[Evidence]] = Averaged
    pads: ClassVar[bool] = True

    def result(self, key: jax.Array, evidence: Averaged, level: Any) -> TwoSampleResult:
        """One-sided: large means speak against H0."""
        found = evidence.gap(key)
        pvalue, threshold = normal_law(found.mean, found.error, level)
        centre = jnp.asarray(found.centre, found.mean.dtype)
        about = {"witness": found.witness, "tail": NormalTail(centre, found.error)}
        return law_result(Law(centre + found.mean, pvalue, centre + threshold, **about), level)

    def check_sizes(self, test: Any, n_x: int, n_y: int) -> None:
        """Refuse samples without a variance; warn where the central limit is not yet there."""
        m_x, m_y = test.sizes(n_x, n_y)
        if min(m_x, m_y) < 2:
            raise ValueError(
                f"calibration 'normal' needs 2 held-out points of each; got {m_x} and {m_y}"
            )
        _warn_if_too_few(test.method, self.word, test.sizes(n_x, n_y), test.normal_from)


@record
class Asymptotic(Calibration):
    """Hold the statistic against its limit law, a χ², weighted χ² or F law."""

    word: ClassVar[str] = "asymptotic"
    needs: ClassVar[type[Evidence]] = Limited
    pads: ClassVar[bool] = True

    def result(self, key: jax.Array, evidence: Limited, level: Any) -> TwoSampleResult:
        """The statistic and the tail beyond it."""
        return law_result(evidence.limit(key, level), level)

    def check_sizes(self, test: Any, n_x: int, n_y: int) -> None:
        """Warn where the law is measured not to hold."""
        _warn_if_too_few(test.method, self.word, test.sizes(n_x, n_y), test.limit_from)


@record
class Bound(Calibration):
    """Take the threshold of the paper's theorems (Cheng & Xie 2021)."""

    word: ClassVar[str] = "theory"
    needs: ClassVar[type[Evidence]] = Bounded

    def result(self, key: jax.Array, evidence: Bounded, level: Any) -> TwoSampleResult:
        """The statistic and the bound on its tail."""
        return law_result(evidence.bound(level), level)


@record
class Ville(Calibration):
    """Reject where the wealth has reached 1/α: at any time, by Ville's inequality."""

    word: ClassVar[str] = "anytime"
    needs: ClassVar[type[Evidence]] = Wagered
    pads: ClassVar[bool] = True

    def result(self, key: jax.Array, evidence: Wagered, level: Any) -> TwoSampleResult:
        """The largest log-wealth T, and p = exp(−T)."""
        wealth = evidence.wealth(level)
        law = Law(wealth.peak, jnp.exp(-wealth.peak), -jnp.log(wealth.level))
        found = law_result(dataclasses.replace(law, witness=evidence.witness), level)
        return dataclasses.replace(found, wealth=wealth)


# A user's words, in the order in which they are listed; a test's default is the first of `_KNOWN`.
_WORDS: dict[str, type[Calibration]] = {
    "test": Permutation,
    "full": Full,
    "normal": Normal,
    "asymptotic": Asymptotic,
    "theory": Bound,
    "anytime": Ville,
    "permutation": Permutation,
}
_KNOWN = (Permutation, Full, Asymptotic, Ville)


def default_calibration(evidence: type[Evidence]) -> Calibration:
    """The first that applies: exact where there is one."""
    applying = (known() for known in _KNOWN if issubclass(evidence, known.needs))
    return next(applying, Calibration())  # of a test with a `run` of its own, none


def as_calibration(
    given: Any, evidence: type[Evidence], described: str, *, held_out: bool
) -> Calibration | None:
    """Read a calibration, given by its word or as an object; refuse one that does not apply.

    Args:
        given: "test", "full", "permutation", "normal", "asymptotic", "theory", or a `Calibration`;
            None is the test's default, whatever its other options will be.
        evidence: What the test has to offer.
        described: The test, for the message.
        held_out: Whether it tests on a half of its own: "test" is `Permutation` of that half.
    """
    if given is None:
        return None
    words = {word: known for word, known in _WORDS.items() if issubclass(evidence, known.needs)}
    if not held_out:
        words.pop("test", None)
    if isinstance(given, Calibration) and issubclass(evidence, given.needs):
        return given
    if isinstance(given, str) and given in words:
        return words[given]()
    pilot = issubclass(evidence, Comparable)
    if pilot and given == "pilot":
        raise ValueError("calibration by pilot data takes a PilotNull: calibration=pilot")
    shown = given.word if isinstance(given, Calibration) else given
    listed = tuple(word for word in words if word != "permutation" or "test" not in words)
    raise ValueError(
        f"calibration {shown!r} does not apply to {described}; use one of {listed}"
        + (", or a PilotNull" if pilot else "")
    )


def _warn_if_too_few(method: str, law: str, sizes: tuple[int, int], least: int) -> None:
    """Warn where fewer points than `least` of a sample stand for a limit in n."""
    if min(sizes) < least:
        warn(
            f"{method} with calibration {law!r} rejects too often with {sizes[0]} + {sizes[1]} "
            f"points: it is a limit law, measured to hold from about {least} of each on. The "
            "default calibration is exact at any size",
        )
