"""The paper's tests: train a witness on one half, average it over the other, permute its labels.

    T̂_a,net = Σ_i w'_i ĝ(z'_i),   ĝ trained (`NetMMD`) or exact (`NTKMMD`) on the training half w.

Calibration "test" permutes the labels of the test half only, so nothing is retrained; "full"
permutes those of both halves; "normal" studentises the held-out scores. `train_fraction=None` is
the symmetric statistic T̂_net or T̂_NTK, without a split, calibrated by "full", by a `PilotNull`,
or, if exact, by its "asymptotic" law. "theory" takes the threshold of the paper's theorems.
"""

import dataclasses
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from ntkmmd_jax import calibration, theory
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.calibration import (
    NullStatistics,
    Relabelling,
    check_level,
    check_reach,
    labellings,
    relabel,
)
from ntkmmd_jax.kernels import empirical_ntk
from ntkmmd_jax.measure import (
    SignedMeasure,
    held_out,
    interleaved,
    mean_gap,
    signed_measure,
    split,
    split_sizes,
)
from ntkmmd_jax.networks import Network, Params, as_network, mlp
from ntkmmd_jax.training import SGD, trained_witness
from ntkmmd_jax.twosample.analytic import (
    NORMAL,
    asymptotic_result,
    normal_result,
    theory_result,
    warn_if_too_few,
)
from ntkmmd_jax.twosample.contract import (
    TwoSampleTest,
    check_calibration,
    null_result,
    permutation_result,
    score_result,
)
from ntkmmd_jax.twosample.pilot import PilotNull
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.witness import Witness, exact_witness

Sample = tuple[jax.Array, jax.Array]  # x and y
_RETRAIN = 16  # networks that a full bootstrap retrains at once


class WitnessTest(TwoSampleTest):
    """What the trained and the exact test share; they differ in the witness and the full null."""

    with_split: ClassVar[tuple[str, ...]] = ("test", "full", "normal")
    without_split: ClassVar[tuple[str, ...]] = ("full", "pilot")

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", as_network(self.network))
        check_level(self.level, self.n_permutations)
        if isinstance(self.calibration, PilotNull):
            object.__setattr__(self, "pilot", self.calibration)
            object.__setattr__(self, "calibration", "pilot")
        elif self.calibration != "pilot":
            object.__setattr__(self, "pilot", None)  # replaced by another calibration
        allowed = self.without_split if self.train_fraction is None else self.with_split
        if self.calibration is not None:
            where = "without a split" if self.train_fraction is None else "with a split"
            check_calibration(self, allowed, where)
        if self.calibration == "pilot" and self.pilot is None:
            raise ValueError("calibration by pilot data takes a PilotNull: calibration=pilot")
        if self.train_fraction is not None:
            split_sizes(2, 2, self.train_fraction)

    def run(self, key: jax.Array, x: jax.Array, y: jax.Array) -> TwoSampleResult:
        """Split, find the witness on the training half, calibrate on the test half."""
        k_split, k_init, k_train, k_null = jax.random.split(key, 4)
        params = self.network.init(k_init, x[:1]) if self.pilot is None else self.pilot.params
        if self.train_fraction is None:
            train = test = (x, y)
        else:
            train, test = split(k_split, x, y, self.train_fraction)
        about = {"method": self.method, "n_x": len(x), "n_y": len(y)}
        default = "full" if self.train_fraction is None else "test"
        calibrated = self.calibration or default
        if calibrated == "full":
            witness, relabelling, null = self.full(k_train, k_null, params, train, test)
            return permutation_result(relabelling, null, self.level, witness=witness, **about)
        witness = self.find_witness(k_train, params, train)
        about |= {"witness": witness}
        if calibrated == "asymptotic":
            kernel = empirical_ntk(self.network, params, jnp.concatenate(test))
            options = {"unbiased": self.unbiased, **about}
            return asymptotic_result(kernel, len(x), self.level, **options)
        points, of_x = jnp.concatenate(test), len(test[0])
        if calibrated == "test":
            options = {"n_permutations": self.n_permutations, "shared_pool": self.shared_pool}
            return score_result(k_null, witness, points, self.level, of_x=of_x, **options, **about)
        scores = witness(points)
        if calibrated == "normal":
            return normal_result(scores, of_x, self.level, **about)
        if calibrated == "theory":
            kernel = theory.ntk(self.network, params)
            theorem = theory.SYMMETRIC if self.train_fraction is None else theory.FULL
            cn = min(map(len, train + test)) - (self.train_fraction is None)
            given = (theorem, kernel, scores, (x, y), test, cn, self.level)
            return theory_result(*given, **about)
        self.pilot.check(x, y)
        statistic = mean_gap(scores, signed_measure(x, y).weights)
        return null_result(statistic, self.pilot.null, self.level, **about)

    def check_sizes(self, n_x: int, n_y: int) -> None:
        """Refuse sizes at which the level cannot be reached; warn where a limit law fails."""
        if self.train_fraction is None:
            if self.calibration in (None, "full"):
                check_reach(labellings(n_x, n_y, even=True), self.level, f"{n_x} + {n_y} points")
            return
        m_x, m_y = held_out(n_x, n_y, self.train_fraction)
        if self.calibration == "normal":
            warn_if_too_few(self.method, "normal", (m_x, m_y), NORMAL)
        elif self.calibration != "theory":
            trained = labellings(n_x - m_x, n_y - m_y) if self.calibration == "full" else 1
            values = trained * labellings(m_x, m_y)
            check_reach(values, self.level, f"{m_x} + {m_y} held-out points")

    def relabel_both(self, key: jax.Array, train: Sample, test: Sample) -> tuple[Relabelling, ...]:
        """Relabel the test and the training points together; the same ones without a split."""
        k_test, k_train = jax.random.split(key)
        draw = partial(relabel, n_permutations=self.n_permutations, shared=self.shared_pool)
        on_test = draw(k_test, len(test[0]), len(test[1]))
        if self.train_fraction is None:
            return on_test, on_test
        on_train = draw(k_train, len(train[0]), len(train[1]), observed=on_test.observed, pool=1)
        return on_test, on_train


@record
class NTKMMD(WitnessTest):
    """The exact test: the witness of the MMD with the NTK at θ0, in linear time, no training."""

    with_split: ClassVar[tuple[str, ...]] = ("test", "full", "normal", "theory")
    without_split: ClassVar[tuple[str, ...]] = ("full", "asymptotic", "theory", "pilot")

    network: Network = static(default_factory=mlp)
    train_fraction: float | tuple[float, float] | None = static(default=0.5)
    calibration: str | PilotNull | None = static(default=None)  # "test"; "full" without a split
    unbiased: bool = static(default=False)  # of the symmetric statistic
    n_permutations: int = static(default=400)
    shared_pool: bool = static(default=False)  # one pool of labellings for all replicas
    level: Any = 0.05
    pilot: PilotNull | None = None  # set by calibration=pilot

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unbiased and self.train_fraction is not None:
            raise ValueError(
                "unbiased is for the symmetric statistic, train_fraction=None: with a split it is "
                "unbiased as it is"
            )

    @property
    def uses_lapack(self) -> bool:
        """The asymptotic law takes eigenvalues."""
        return self.calibration == "asymptotic"

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        if self.train_fraction is None:
            return "ntk-symmetric"
        return "ntk-full" if self.calibration == "full" else "ntk"

    def find_witness(self, key: jax.Array, params: Params, train: Sample) -> Witness:
        """g(x) = Σ_i K_0(x, z_i) w_i."""
        del key  # nothing is random
        return exact_witness(self.network, params, signed_measure(*train))

    def full(
        self, k_train: jax.Array, k_null: jax.Array, params: Params, train: Sample, test: Sample
    ) -> tuple[Witness, Relabelling, NullStatistics]:
        """Permute rows and columns of the kernel matrix, all permutations in matrix products."""
        witness = self.find_witness(k_train, params, train)
        on_test, on_train = self.relabel_both(k_null, train, test)
        points = on_test.placed(jnp.concatenate(test))
        if self.train_fraction is None:
            kernel = empirical_ntk(self.network, params, points)
            null = calibration.symmetric_null(on_test, kernel, unbiased=self.unbiased)
        else:
            rows = on_train.placed(jnp.concatenate(train))
            kernel = empirical_ntk(self.network, params, points, rows)
            null = calibration.kernel_null(on_test, on_train, kernel)
        return witness, on_test, null


@record
class NetMMD(WitnessTest):
    """The trained test: the witness is a network trained for a short time on the training half."""

    network: Network = static(default_factory=mlp)
    learning_rate: Any = 0.1  # α, the training time of one epoch
    batch_size: int | None = static(default=1)  # None: full-batch gradient descent
    epochs: int = static(default=1)
    momentum: float = static(default=0.0)
    optimizer: optax.GradientTransformation | None = static(default=None)  # instead of plain SGD
    shuffle: bool = static(default=True)
    train_fraction: float | tuple[float, float] | None = static(default=0.5)
    calibration: str | PilotNull | None = static(default=None)  # "test"; "full" retrains
    n_permutations: int = static(default=400)
    shared_pool: bool = static(default=False)  # one pool of labellings for all replicas
    level: Any = 0.05
    pilot: PilotNull | None = None  # set by calibration=pilot

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.sgd  # checks the training options
        if not self.shuffle and (self.calibration == "full" or self.train_fraction is None):
            raise ValueError(
                "calibration 'full' visits the points in random order, or the permuted labels "
                "would not be exchangeable with the observed ones: use shuffle=True"
            )

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "net"

    @property
    def sgd(self) -> SGD:
        """How the witness is trained."""
        names = [field.name for field in dataclasses.fields(SGD)]
        return SGD(**{name: getattr(self, name) for name in names})

    def find_witness(self, key: jax.Array, params: Params, train: Sample) -> Witness:
        """Train on x and y; in order, they alternate."""
        measure = signed_measure(*train)
        if not self.shuffle:
            order = interleaved(len(train[0]), len(train[1]))
            measure = jax.tree.map(lambda leaf: leaf[order], measure)
        return trained_witness(key, self.network, params, measure, self.sgd)

    def full(
        self, k_train: jax.Array, k_null: jax.Array, params: Params, train: Sample, test: Sample
    ) -> tuple[Witness, Relabelling, NullStatistics]:
        """Retrain under every labelling, `_RETRAIN` networks at a time, from the same θ0."""
        on_test, on_train = self.relabel_both(k_null, train, test)
        train_points = on_train.placed(jnp.concatenate(train))
        test_points = on_test.placed(jnp.concatenate(test))

        def retrained(train_weights: jax.Array) -> Witness:
            measure = SignedMeasure(train_points, train_weights)
            return trained_witness(k_train, self.network, params, measure, self.sgd)

        def statistic(weights: tuple[jax.Array, jax.Array]) -> jax.Array:
            train_weights, test_weights = weights
            return mean_gap(retrained(train_weights)(test_points), test_weights)

        weights = (on_train.weights, on_test.weights)
        values = jax.lax.map(statistic, weights, batch_size=_RETRAIN)
        tolerance = 16 * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values))
        witness = retrained(on_train.weights[on_train.observed])
        return witness, on_test, NullStatistics(values, tolerance)
