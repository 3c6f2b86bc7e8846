"""The evidence of a witness: its scores, both halves relabelled and, if exact, its kernel."""

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from ntkmmd_jax import theory
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.calibration import Relabelling
from ntkmmd_jax.kernels import empirical_ntk
from ntkmmd_jax.measure import mean_gap
from ntkmmd_jax.networks import Params
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.twosample.analytic import theorem_law, weighted_chi2_law
from ntkmmd_jax.twosample.evidence import (
    Averaged,
    Bounded,
    Comparable,
    Gap,
    Law,
    Limited,
    Permutable,
    Permuted,
    Pool,
    Refittable,
    permuted_scores,
    score_gap,
)
from ntkmmd_jax.witness import Witness

if TYPE_CHECKING:
    from ntkmmd_jax.twosample.learning import WitnessTest
    from ntkmmd_jax.twosample.ntk import NTKMMD


@record
class WitnessEvidence(Refittable):
    """θ0, the points to learn from and those to test on; the witness is found when asked for."""

    test: "WitnessTest"
    key: jax.Array  # for the order of training
    params: Params  # θ0
    train: Pooled
    held: Pooled

    @cached_property
    def _found(self) -> Witness:
        return self.test.find_witness(self.key, self.params, self.train)

    @property
    def witness(self) -> Witness:
        """Trained or exact, on the training half, when first asked for."""
        return self._found

    def statistic(self) -> jax.Array:
        """Σ w_i g(z_i) over the points to test on."""
        measure = self.held.measure
        return mean_gap(self.witness(measure.points), measure.weights)

    def refitted(self, key: jax.Array, pool: Pool) -> Permuted:
        """With a witness for every labelling, all from the same θ0."""
        return self.test.full(self, key, pool)

    def relabel(self, key: jax.Array, pool: Pool) -> tuple[Relabelling, Relabelling]:
        """Relabel the test and the training points together; the same ones without a split."""
        k_test, k_train = jax.random.split(key)
        on_test = pool.relabel(k_test, self.held)
        if self.test.train_fraction is None:
            return on_test, on_test
        return on_test, pool.relabel(k_train, self.train, observed=on_test.observed, pool=1)


@record
class HeldOut(WitnessEvidence, Permutable, Averaged):
    """With a split: scores that the witness has not seen."""

    def permuted(self, key: jax.Array, pool: Pool) -> Permuted:
        """The test-only bootstrap."""
        return permuted_scores(key, pool, self.witness, self.held)

    def gap(self, key: jax.Array) -> Gap:
        """The scores' mean gap."""
        del key
        scores = dataclasses.replace(self.held, points=self.witness(self.held.points))
        return score_gap(scores, self.witness)


@record
class Whole(WitnessEvidence, Comparable):
    """Without a split: the symmetric statistic."""


class _Exact(WitnessEvidence, Bounded):
    """The exact witness has a kernel, and with it the theorems."""

    def bound(self, level: Any) -> Law:
        """The theorem on the full bootstrap, or on the symmetric statistic."""
        whole = self.test.train_fraction is None
        theorem = theory.SYMMETRIC if whole else theory.FULL
        halves = [self.held.both] if whole else [self.train.both, self.held.both]
        cn = min(len(sample) for half in halves for sample in half) - whole
        x, y = (jnp.concatenate(parts) for parts in zip(*halves, strict=True))
        kernel = theory.ntk(self.test.network, self.params)
        given = (theorem, kernel, self.statistic(), (x, y), cn, level)
        return theorem_law(*given, witness=self.witness)


@record
class ExactHeldOut(HeldOut, _Exact):
    """Of `NTKMMD` with a split."""


@record
class ExactWhole(Whole, _Exact, Limited):
    """Of `NTKMMD` without a split."""

    test: "NTKMMD"

    def limit(self, key: jax.Array, level: Any) -> Law:
        """The weighted χ² law, by the kernel matrix of all points."""
        del key
        kernel = empirical_ntk(self.test.network, self.params, self.held.points)
        about = {"unbiased": self.test.unbiased, "witness": self.witness}
        return weighted_chi2_law(kernel, self.held, level, **about)
