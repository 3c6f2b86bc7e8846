"""Classifier two-sample tests: train a classifier on one half, score the other, permute its labels.

    L(θ, b) = ½ Σ_i |w_i| log(1 + exp(−sgn(w_i) g(z_i))),   g(x) = f(x; θ) + b,

the logistic loss on the training half p̂ − q̂, in which both classes weigh ½. On the test half,
C2ST-L (Cheng & Cloninger 2019): the mean gap Σ w'_i g(z'_i) of the logit.
C2ST-S (Lopez-Paz & Oquab 2017): the test accuracy, here balanced,

    A = ½ (share of x with g > 0) + ½ (share of y with g ≤ 0) = ½ + ½ Σ w'_i 1[g(z'_i) > 0],

which is the plain accuracy if n_X = n_Y. Given the scores, both are increasing in the number of x
with g > 0, so that permuting the labels gives the same p-value for either, at any sizes.
"""

import dataclasses
from collections.abc import Hashable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.optimizer import updates
from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.calibration import NullStatistics, Relabelling, score_null
from ntkmmd_jax.measure import SignedMeasure, Visits, mean_gap, split_sizes
from ntkmmd_jax.networks import Network, Params, as_network, merged, mlp, restored
from ntkmmd_jax.pooled import Pooled, pooled
from ntkmmd_jax.training import SGD
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.evidence import (
    Averaged,
    Comparable,
    Gap,
    Permutable,
    Permuted,
    Pool,
    Samples,
    permuted_scores,
    score_gap,
)
from ntkmmd_jax.witness import in_tiles, savable

_NAMES = {"accuracy": "c2st-s", "logit": "c2st-l"}
_OPTIMIZERS = {"adam": (optax.adam, 1e-3), "sgd": (optax.sgd, 3e-2)}  # with default rates


def _paper_network() -> Network:
    """Three fully connected layers of relu units, width 512."""
    return mlp((512, 512), activation="relu", initialization="he", train_readout=True)


@savable
@record
class LogitWitness:
    """g(x) = f(x; θ) + b of a trained classifier: the logit of "x comes from p"."""

    params: Params  # θ, all leaves
    bias: jax.Array  # (), b
    network: Network = static()
    features: tuple[int, ...] = static()  # shape of one point

    def __call__(self, points: Any) -> jax.Array:
        """The logit at points of shape (n, ...): positive where p seems likelier. Shape (n,)."""
        return _logits(self, points_like(points, self.features))

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        return {"network": self.network.recipe, "features": self.features}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "LogitWitness":
        """A witness of shapes only, to be refilled with saved leaves."""
        network = restored(described["network"], network)
        features = tuple(described["features"])
        x = jnp.zeros((1, *features))
        params = jax.eval_shape(network.init, jax.random.key(0), x)
        bias: Any = jax.ShapeDtypeStruct((), x.dtype)
        return cls(params, bias, network=network, features=features)


def _positive(logits: jax.Array) -> jax.Array:
    """1 where g > 0, else 0. A NaN is no label: it must reach the statistic, not count as y."""
    return jnp.where(jnp.isnan(logits), jnp.nan, (logits > 0).astype(logits.dtype))


@jit
def _logits(witness: LogitWitness, points: jax.Array) -> jax.Array:
    return in_tiles(lambda x: witness.network(witness.params, x) + witness.bias, points)


@record
class ClassifierEvidence(Permutable, Averaged, Comparable):
    """A trained classifier, and points that it has not seen."""

    test: "C2ST"
    classifier: LogitWitness
    held: Pooled

    @property
    def witness(self) -> LogitWitness:
        """The logit."""
        return self.classifier

    def permuted(self, key: jax.Array, pool: Pool) -> Permuted:
        """The test-only bootstrap."""
        return permuted_scores(key, pool, self.witness, self.held, self.test.null)

    def gap(self, key: jax.Array) -> Gap:
        """The mean gap of the logits, or the accuracy, which is ½ + half a gap."""
        del key
        scores = dataclasses.replace(self.held, points=self.witness(self.held.points))
        if self.test.score == "logit":
            return score_gap(scores, self.witness)
        gap = score_gap(dataclasses.replace(scores, points=_positive(scores.points)))
        return Gap(gap.mean / 2, gap.error / 2, 0.5, witness=self.witness)

    def statistic(self) -> jax.Array:
        """The mean gap of the logits, or the accuracy."""
        measure = self.held.measure
        logits = self.witness(measure.points)
        if self.test.score == "logit":
            return mean_gap(logits, measure.weights)
        return 0.5 + mean_gap(_positive(logits), measure.weights) / 2


@record
class C2ST(TwoSampleTest):
    """The classifier test: accuracy (`c2st-s`) or mean gap of the logit (`c2st-l`).

    A step goes down the loss of one batch: its mean over the batch if n_X = n_Y, else weighted so
    that the classes count alike. A short last batch takes a step in proportion. The bias b starts
    at 0 and is trained with the network. The paper leaves batch size and rates open: 128 is that
    of Liu et al. 2020, and with these defaults the powers come near to those of its Table 1.

    Args:
        score: "logit", for the mean gap of the logit, or "accuracy".
        network: The classifier: one of ours, a flax module, or a pair `(init, apply)`; two hidden
            layers of 32, by default.
        optimizer: "adam", "sgd", or any of optax.
        learning_rate: Of adam .001 and of sgd .03, unless given; an optax object has its own.
        batch_size: Samples of a step; None for all training points at once.
        epochs: Passes over the training half.
        train_fraction: The share of the samples to train on, or a pair of x's and y's.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> ntk.C2ST("accuracy", epochs=5)
        C2ST(score='accuracy', epochs=5)
    """

    even: ClassVar[bool] = False
    null_order: ClassVar[float] = 0.5  # a mean of held-out scores
    null_power: ClassVar[float] = 0.5

    score: str = static(default="logit")  # or "accuracy"
    network: Network = static(default_factory=_paper_network)
    optimizer: str | optax.GradientTransformation = static(default="adam")  # "sgd", or any of optax
    learning_rate: Any = None  # 0.001 for adam, 0.03 for sgd; an optax object has its own
    batch_size: int | None = static(default=128)  # None: all training points at once
    epochs: int = static(default=10)
    train_fraction: float | tuple[float, float] = static(default=0.5)

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", as_network(self.network))
        if self.score not in _NAMES:
            raise ValueError(f"unknown score {self.score!r}; use one of {tuple(_NAMES)}")
        super().__post_init__()
        if self.train_fraction is None:
            raise ValueError("C2ST scores points that it was not trained on: set train_fraction")
        split_sizes(2, 2, self.train_fraction)
        if isinstance(self.optimizer, str):
            if self.optimizer not in _OPTIMIZERS:
                raise ValueError(
                    f"unknown optimizer {self.optimizer!r}; use one of {tuple(_OPTIMIZERS)}, or an "
                    "optax transformation"
                )
        elif self.learning_rate is not None:
            raise ValueError("an optax optimizer has a learning rate of its own: set it there")
        rate = 1.0 if self.learning_rate is None else self.learning_rate
        SGD(learning_rate=rate, batch_size=self.batch_size, epochs=self.epochs)  # checks them

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return _NAMES[self.score]

    def transformation(self) -> optax.GradientTransformation:
        """The optax optimizer that makes the steps."""
        if not isinstance(self.optimizer, str):
            return self.optimizer
        make, default = _OPTIMIZERS[self.optimizer]
        return make(default if self.learning_rate is None else self.learning_rate)

    @property
    def evidence_type(self) -> type[ClassifierEvidence]:
        """Scores of held-out points."""
        return ClassifierEvidence

    @property
    def pads_up_to(self) -> int:
        """As long as a program is soon run."""
        return 4096

    @property
    def split_at(self) -> float | tuple[float, float]:
        """`train_fraction`."""
        return self.train_fraction

    def null_centre(self, prepared: Any) -> float:
        """Under H0 the accuracy is about ½."""
        del prepared
        return 0.5 if self.score == "accuracy" else 0.0

    @property
    def learner(self) -> Hashable:
        """The classifier's training: C2ST-S and C2ST-L are two scores of one network."""
        if self.learning_rate is not None:  # a number that is traced is like no other
            return None
        static = (self.network, self.optimizer, self.batch_size, self.epochs, self.train_fraction)
        return C2ST, *static

    def prepare(self, key: jax.Array, points: jax.Array) -> Params:
        """θ0."""
        return self.network.init(key, points[:1])

    def evidence(
        self, key: jax.Array, prepared: Params, train: Samples, held: Samples
    ) -> ClassifierEvidence:
        """Train the classifier on the training half."""
        train = pooled(train)
        witness = self.classify(key, prepared, train.measure, train.n)
        return ClassifierEvidence(self, witness, pooled(held))

    def null(self, relabelling: Relabelling, logits: jax.Array) -> NullStatistics:
        """The mean gap of the logits of placed points, or their accuracy, under every labelling."""
        if self.score == "logit":
            return score_null(relabelling, logits)
        gap = score_null(relabelling, _positive(logits))
        rounding = 2 * jnp.finfo(logits.dtype).eps  # of ½ + …, a number up to 1
        return NullStatistics(0.5 + gap.values / 2, gap.tolerance / 2 + rounding)

    def classify(
        self, key: jax.Array, params: Params, measure: SignedMeasure, n: Any = None
    ) -> LogitWitness:
        """Train from θ0 = `params` on a signed measure: positive weights are class x.

        Args:
            key: For the order of the samples.
            params: θ0.
            measure: Training points and weights.
            n: How many points are real, if the others are padding; all, by default.
        """
        n = len(measure.weights) if n is None else n
        padded = not padding.is_full(len(measure.weights), n)
        f, theta = self.network.trainable(params)
        optimizer = self.transformation()
        schedule = SGD(batch_size=self.batch_size, epochs=self.epochs)
        batches = schedule.batches(key, measure.weights, n)
        size = padding.at_most(n, batches.weights.shape[1])
        share = padding.number(n) / padding.number(size)  # the sum over one batch × share

        def loss(trained: tuple[Params, jax.Array], batch: SignedMeasure) -> jax.Array:
            theta, bias = trained
            margins = jnp.sign(batch.weights) * (f(theta, batch.points) + bias)
            return 0.5 * share * jnp.vdot(jnp.abs(batch.weights), jax.nn.softplus(-margins))

        def step(carry: tuple, visits: Visits) -> tuple[tuple, None]:
            (trained, state), batch = carry, visits.of(measure.points)
            by, state = updates(optimizer, jax.grad(loss)(trained, batch), state, trained)
            moved = (optax.apply_updates(trained, by), state)
            if padded:  # a batch of padding is no step
                moved = jax.lax.cond(visits.weights.any(), lambda: moved, lambda: carry)
            return moved, None

        start = (theta, jnp.zeros((), measure.weights.dtype))
        carry, _ = jax.lax.scan(step, (start, optimizer.init(start)), batches)
        theta, bias = carry[0]
        return LogitWitness(
            merged(params, theta), bias, network=self.network, features=measure.points.shape[1:]
        )
