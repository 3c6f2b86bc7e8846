"""Evidence: what a test can say of two samples, before any calibration.

A capability is a class with one method; the evidence of a test inherits those that it has, and a
calibration names the one that it needs. So what applies to a test is known from types, at its
construction.

Whatever is held against permuted labels is computed from `relabelling.placed(points)`, inside of
the capability: rounding that follows the labels would speak (see `calibration`).
"""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tails import Tail
from ntkmmd_jax.bins import Bins
from ntkmmd_jax.calibration import (
    NullStatistics,
    Relabelling,
    relabel,
    relabel_within,
    score_null,
)
from ntkmmd_jax.pooled import Pooled, pooled
from ntkmmd_jax.sequential.recorded import Wealth

Sample = tuple[jax.Array, jax.Array]  # x and y
Samples = Sample | Pooled
Score = Callable[[jax.Array], jax.Array]  # (n, ...) points -> (n,)


@record
class Pool:
    """How the labellings behind a null sample are drawn."""

    n_permutations: int = static()  # B
    shared: bool = static(default=False)  # one pool for all replicas

    chunk: Any = None  # which of many pools for points that stay at their places; None: the one

    def relabel(self, key: jax.Array, samples: Samples, **which: Any) -> Relabelling:
        """Place n_X + n_Y points into B + 1 labellings.

        Of a chunk after the first the rows are new, and none of them is the observed one.
        """
        given = pooled(samples)
        if given.within is not None:
            key, k_points = jax.random.split(key)
        units = self._units(key, given, which)
        if self.chunk is not None:
            later = self._units(jax.random.fold_in(key, self.chunk), given, which)
            labels = jnp.where(self.chunk == 0, units.labels, later.labels)
            units = dataclasses.replace(units, labels=labels)
        if given.within is None:
            return units
        return given.within.spread(k_points, units, given.n_x, given.n_y)

    def _units(self, key: jax.Array, given: Pooled, which: dict[str, Any]) -> Relabelling:
        """Labellings of points, bins or groups: of what has one label."""
        if (within := given.within) is not None:
            of_x = given.n_x if within.of_x is None else within.of_x
            return relabel_within(key, of_x, within.strata, self.n_permutations)
        which = {"shared": self.shared, "places": len(given.points), **which}
        return relabel(key, given.n_x, given.n_y, self.n_permutations, **which)


@record
class Permuted:
    """A statistic under every labelling of a pool."""

    null: NullStatistics  # values (B + 1,)
    observed: Any  # () int: which of them is that of the labels as they are
    witness: Any = None
    members: Any = None  # `Members`, of a statistic that is made of several


@record
class Gap:
    """A mean with its standard error; the statistic is `centre` + mean."""

    mean: jax.Array  # (), 0 under H0
    error: jax.Array  # ()
    centre: Any = 0.0
    witness: Any = None


@record
class Law:
    """A statistic with the p-value and the threshold that a formula gives."""

    statistic: jax.Array  # ()
    pvalue: jax.Array  # ()
    threshold: jax.Array  # ()
    least: Any = None  # () the smallest p-value of some labellings that were tried
    witness: Any = None
    tail: Tail | None = None  # the law itself


class Keys(NamedTuple):
    """The keys of one run, by purpose."""

    split: jax.Array
    prepare: jax.Array
    evidence: jax.Array
    null: jax.Array


class Evidence:
    """Base: a witness, or None where a method has none."""

    @property
    def witness(self) -> Any:
        """A function of points."""
        raise NotImplementedError


class Relabelled(Evidence):
    """The statistic for other labels, of some points or of all."""


class Permutable(Relabelled):
    """The statistic for other labels of the points that the witness has not seen."""

    def permuted(self, key: jax.Array, pool: Pool) -> Permuted:
        """The statistic under every labelling of the pool."""
        raise NotImplementedError


class Refittable(Relabelled):
    """The statistic for other labels of all points, those of the training half included."""

    def refitted(self, key: jax.Array, pool: Pool) -> Permuted:
        """The statistic under every labelling of the pool."""
        raise NotImplementedError


class Averaged(Evidence):
    """The statistic as a mean of independent terms."""

    def gap(self, key: jax.Array) -> Gap:
        """The mean and its standard error."""
        raise NotImplementedError


class Limited(Evidence):
    """The statistic with a law in the limit of large samples."""

    def limit(self, key: jax.Array, level: Any) -> Law:
        """The statistic against that law."""
        raise NotImplementedError


class Bounded(Evidence):
    """The statistic with a bound that holds at any size."""

    def bound(self, level: Any) -> Law:
        """The statistic against the bound."""
        raise NotImplementedError


class Wagered(Evidence):
    """The wealth of bets against H0, after every block of points."""

    def wealth(self, level: Any) -> Wealth:
        """All of it; the level is for where to stop."""
        raise NotImplementedError


class Comparable(Evidence):
    """The statistic as a number that compares with that of other samples, all prepared alike."""

    def statistic(self) -> jax.Array:
        """T, shape ()."""
        raise NotImplementedError


@record
class Scores(Permutable):
    """The scores of held-out points, whatever gave them."""

    held: Sample  # (m_x,) and (m_y,)
    bins: Bins | None = static(default=None)  # which are labelled; None: points

    def permuted(self, key: jax.Array, pool: Pool) -> Permuted:
        """Σ w_i g(z_i) under every labelling."""
        found = permuted_scores(key, pool, lambda placed: placed, self.held, bins=self.bins)
        return Permuted(found.null, found.observed)


def permuted_scores(
    key: jax.Array,
    pool: Pool,
    score: Score,
    held: Samples,
    null: Callable[[Relabelling, jax.Array], NullStatistics] = score_null,
    *,
    bins: Bins | None = None,
) -> Permuted:
    """The test-only bootstrap: permute labels of held-out points, scored at their places."""
    held = pooled(held)
    relabelling = pool.relabel(key, held, bins=bins)
    scores = score(relabelling.placed(held.points))
    return Permuted(null(relabelling, scores), relabelling.observed, witness=score)


def score_gap(scores: Pooled, witness: Any = None) -> Gap:
    """The mean gap of held-out scores (m_x + m_y,), and its standard error (Welch)."""
    n_x, n_y = padding.number(scores.n_x), padding.number(scores.n_y)
    # Scores that are all the same have no gap, whatever rounding does to their means.
    scores = dataclasses.replace(scores, points=scores.points - scores.points[0])
    squares = scores.residuals**2
    of_x = padding.cleared(squares, scores.n_x)
    error = of_x.sum() / (n_x * (n_x - 1)) + (squares - of_x).sum() / (n_y * (n_y - 1))
    return Gap(operator.sub(*scores.means), jnp.sqrt(error), witness=witness)
