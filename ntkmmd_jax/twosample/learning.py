"""What tests of a learned witness share: the split, the evidence, a witness for every labelling."""

import dataclasses
from typing import Any, Self

import jax

from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.calibration import NullStatistics, labellings
from ntkmmd_jax.calibration.nulls import tie_tolerance
from ntkmmd_jax.measure import SignedMeasure, mean_gap, split_sizes
from ntkmmd_jax.networks import Network, Params, as_network, mlp
from ntkmmd_jax.pooled import pooled
from ntkmmd_jax.twosample.calibrations import Full
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.evidence import Permuted, Pool, Samples
from ntkmmd_jax.twosample.witnessed import HeldOut, Whole, WitnessEvidence
from ntkmmd_jax.witness import Witness

_RETRAIN = 16  # networks that a full bootstrap retrains at once


@record
class WitnessTest(TwoSampleTest):
    """What the trained and the exact test share; they differ in the witness and the full null.

    Args:
        network: One of ours, a flax module, or a pair `(init, apply)`; the paper's, by default.
        train_fraction: The share of the samples to train on, or a pair of x's and y's; None takes
            all of them for both, and the symmetric statistic.
    """

    network: Network = static(default_factory=mlp)
    train_fraction: float | tuple[float, float] | None = static(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", as_network(self.network))
        super().__post_init__()
        if self.train_fraction is not None:
            split_sizes(2, 2, self.train_fraction)

    @property
    def split_at(self) -> float | tuple[float, float] | None:
        """`train_fraction`."""
        return self.train_fraction

    @property
    def described(self) -> str:
        """The test in words, for messages."""
        where = "without" if self.train_fraction is None else "with"
        return f"{type(self).__name__} {where} a split"

    def prepare(self, key: jax.Array, points: jax.Array) -> Params:
        """θ0."""
        return self.network.init(key, points[:1])

    def evidence(
        self, key: jax.Array, prepared: Params, train: Samples, held: Samples
    ) -> WitnessEvidence:
        """A witness of the training half, and the points of the other."""
        return self.evidence_type(self, key, prepared, pooled(train), pooled(held))

    @property
    def evidence_type(self) -> type[WitnessEvidence]:
        """What its evidence can do, with a split and without."""
        return Whole if self.train_fraction is None else HeldOut

    def for_pairs(self) -> Self:
        """The symmetric statistic, which spends no points on a split."""
        return dataclasses.replace(self, train_fraction=None, calibration=None)

    def reach(self, n_x: int, n_y: int) -> tuple[int, str]:
        """How many values labellings give to T: those of both halves, if they change."""
        values, where = super().reach(n_x, n_y)
        if self.train_fraction is None:
            return values, where
        m_x, m_y = self.sizes(n_x, n_y)
        both = isinstance(self.calibrated_by, Full)
        trained = labellings(n_x - m_x, n_y - m_y) if both else 1
        return trained * labellings(m_x, m_y), where

    def learn(self, key: jax.Array, params: Params, measure: SignedMeasure, n: Any) -> Witness:
        """The witness of a measure with n points, from θ0."""
        raise NotImplementedError

    def find_witness(self, key: jax.Array, params: Params, train: Samples) -> Witness:
        """The witness of two samples, from θ0."""
        train = pooled(train)
        return self.learn(key, params, train.measure, train.n)

    def full(self, evidence: WitnessEvidence, key: jax.Array, pool: Pool) -> Permuted:
        """Learn a witness for every labelling, `_RETRAIN` at a time, from the same θ0."""
        on_test, on_train = evidence.relabel(key, pool)
        train_points = on_train.placed(evidence.train.points)
        test_points = on_test.placed(evidence.held.points)

        def learned(train_weights: jax.Array) -> Witness:
            measure = SignedMeasure(train_points, train_weights)
            return self.learn(evidence.key, evidence.params, measure, on_train.n)

        def statistic(weights: tuple[jax.Array, jax.Array]) -> jax.Array:
            train_weights, test_weights = weights
            return mean_gap(learned(train_weights)(test_points), test_weights)

        weights = (on_train.weights, on_test.weights)
        values = in_batches(statistic, weights, _RETRAIN)
        witness = learned(on_train.weights[on_train.observed])
        null = NullStatistics(values, tie_tolerance(values))
        return Permuted(null, on_test.observed, witness)
