"""Two embeddings of p and q compared at a few places, which are optimised on the training half.

    δ = mean of φ over x − mean of φ over y,   c = 1/n_X + 1/n_Y,
    λ = δᵀ Σ⁻¹ δ / c,   Σ = (S_x/n_X + S_y/n_Y) / c + γI,

asymptotically χ² under H0, with as many degrees of freedom as φ has features. With n_X = n_Y = n it
is n δᵀ (S_x + S_y + 2γI)⁻¹ δ, as in Jitkrittum et al. 2016; γ can only lower it. The features, of
Chwialkowski et al. 2015, in units z = (x − m)/σ where m is the mean of the training half:

ME, mean embeddings at J locations u_j: φ_j = exp(−|z − u_j|²/2).
SCF, smooth characteristic functions at J frequencies u_j: φ = exp(−|z|²/2) (sin u_j·z, cos u_j·z).

All u_j and σ go up the gradient of λ of the training half.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.checks import positive, whole
from ntkmmd_jax._lib.laws import chi2_law
from ntkmmd_jax._lib.normals import normal
from ntkmmd_jax._lib.optimizer import updates
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tails import ChiSquaredTail
from ntkmmd_jax.kernels import median_distance
from ntkmmd_jax.measure import held_out, split_sizes
from ntkmmd_jax.pooled import Pooled, pooled
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.embedded import (
    Embedding,
    EmbeddingWitness,
    embedding_null,
    embedding_statistic,
)
from ntkmmd_jax.twosample.evidence import (
    Comparable,
    Keys,
    Law,
    Limited,
    Permutable,
    Permuted,
    Pool,
    Samples,
)


def _normalized(rate: Any) -> optax.GradientTransformation:
    """Steps of length rate/√k along the gradient."""
    return optax.chain(
        optax.normalize_by_update_norm(),
        optax.scale_by_schedule(lambda k: -rate / jnp.sqrt(k + 1.0)),
    )


_PER_FEATURE = 40  # held-out points per feature from which on the χ² law is measured to hold
_OPTIMIZERS = {"adam": optax.adam, "normalized": _normalized}


@record
class EmbeddingEvidence(Permutable, Limited, Comparable):
    """An embedding of the training half, and the points of the other."""

    test: "EmbeddingTest"
    embedding: Embedding
    held: Pooled  # flat: (n, d)
    features: tuple[int, ...] = static()  # shape of one point

    def _witness(self, coefficients: jax.Array) -> EmbeddingWitness:
        return EmbeddingWitness(self.embedding, coefficients, features=self.features)

    def _compared(self) -> tuple[jax.Array, jax.Array]:
        """λ and Σ⁻¹ δ."""
        features = dataclasses.replace(self.held, points=self.embedding(self.held.points))
        return embedding_statistic(features, self.test.regularization)

    @property
    def witness(self) -> EmbeddingWitness:
        """The located differences."""
        return self._witness(self._compared()[1])

    def statistic(self) -> jax.Array:
        """λ."""
        return self._compared()[0]

    def limit(self, key: jax.Array, level: Any) -> Law:
        """λ against χ²."""
        del key
        (statistic, v), k = self._compared(), self.test.n_features
        about = {"witness": self._witness(v), "tail": ChiSquaredTail(jnp.asarray(k))}
        return Law(statistic, *chi2_law(statistic, level, k), **about)

    def permuted(self, key: jax.Array, pool: Pool) -> Permuted:
        """λ with the covariance of all test points, which knows no labels."""
        relabelling = pool.relabel(key, self.held)
        features = self.embedding(relabelling.placed(self.held.points))
        null, v = embedding_null(relabelling, features, self.test.regularization)
        return Permuted(null, relabelling.observed, self._witness(v))


@record
class EmbeddingTest(TwoSampleTest):
    """What both tests share; they differ in the features and in where the places start.

    Calibration "permutation" is exact at any size: for Σ it takes the covariance of all test points
    about one mean, plus γI, which knows no labels, so that λ under every labelling is one matrix
    product. "asymptotic" is the χ² law, for test halves of some hundred points and more.

    Optimizer "normalized" is that of Jitkrittum et al.: a step of length rate/√k at step k, with
    rate 1 for ME and 0.1 for SCF. Adam gives SCF several times the power that is reported for it on
    mixture 1, which is that of `steps=0`: as its source reads, the reference implementation adds a
    J × J regulariser to a 2J × 2J covariance, catches the error, and tests where it started.

    Args:
        n_locations: J, locations of ME or frequencies of SCF.
        steps: Of the gradient ascent on the training half.
        optimizer: "adam", or "normalized" as above.
        learning_rate: Of the u_j, in units of their first spread, and of log σ; traced.
        regularization: γ, added to the covariance of the features; traced.
        train_fraction: The share of the samples to train on, or a pair of x's and y's.
    """

    null_order: ClassVar[float] = 0.0  # λ has its scale in itself

    n_locations: int = static(default=5)  # J, locations or frequencies
    steps: int = static(default=200)  # of gradient ascent
    optimizer: str = static(default="adam")  # or "normalized"
    learning_rate: Any = 0.05  # of u_j, in units of their first spread, and of log σ
    regularization: Any = 1e-5  # γ
    train_fraction: float | tuple[float, float] = static(default=0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer not in _OPTIMIZERS:
            raise ValueError(
                f"unknown optimizer {self.optimizer!r}; use one of {tuple(_OPTIMIZERS)}"
            )
        for name, least in (("n_locations", 1), ("steps", 0)):
            whole(name, getattr(self, name), least)
        for name in ("learning_rate", "regularization"):
            positive(name, getattr(self, name))
        if self.train_fraction is None:
            raise ValueError("the test half must be apart from the training half: got no fraction")
        split_sizes(2, 2, self.train_fraction)

    @property
    def n_features(self) -> int:
        """How many features φ has."""
        raise NotImplementedError

    @property
    def limit_from(self) -> int:
        """Held-out points of each from which on the χ² law is measured to hold."""
        return _PER_FEATURE * self.n_features

    @property
    def uses_lapack(self) -> bool:
        """Covariances are factorised."""
        return True

    @property
    def pads_up_to(self) -> int:
        """As long as a program is soon run."""
        return 4096

    @property
    def split_at(self) -> float | tuple[float, float]:
        """`train_fraction`."""
        return self.train_fraction

    @property
    def evidence_type(self) -> type[EmbeddingEvidence]:
        """Features of held-out points."""
        return EmbeddingEvidence

    def keys(self, key: jax.Array) -> Keys:
        """For the split, the places and the null; nothing is prepared."""
        k_split, k_places, k_null = jax.random.split(key, 3)
        return Keys(k_split, key, k_places, k_null)

    def evidence(
        self, key: jax.Array, prepared: None, train: Samples, held: Samples
    ) -> EmbeddingEvidence:
        """Optimise the places on the training half."""
        halves = pooled(train), pooled(held)
        features = halves[0].points.shape[1:]
        learned, tested = (
            dataclasses.replace(half, points=half.points.reshape(len(half.points), -1))
            for half in halves
        )
        return EmbeddingEvidence(self, self.optimise(key, learned), tested, features=features)

    def check_samples(self, n_x: int, n_y: int, features: tuple[int, ...] | None = None) -> None:
        """Refuse samples with too few points for a covariance."""
        m_x, m_y = held_out(n_x, n_y, self.train_fraction)
        halves, k = ((m_x, m_y), (n_x - m_x, n_y - m_y)), self.n_features
        if min(map(min, halves)) < 2 or min(map(sum, halves)) < k + 2:
            raise ValueError(
                f"too few samples for the covariance of {k} features in either half: "
                f"n_x = {n_x}, n_y = {n_y}; use fewer n_locations or more samples"
            )

    def start(self, key: jax.Array, points: jax.Array) -> tuple[jax.Array, float]:
        """The first u_j, near or like as many training points (J, d), and their spread."""
        raise NotImplementedError

    def optimise(self, key: jax.Array, train: Pooled) -> Embedding:
        """Gradient ascent on λ of the training samples (n, d), which are in random order."""
        points, n, some = train.points, train.n, train.first(128)  # enough for a start
        centre, sigma = padding.mean(points, n), median_distance(some.points, some.n)
        squares = jnp.sum(padding.cleared(points - centre, n) ** 2)
        spread = jnp.sqrt(2 * squares / padding.number(n))
        for fallback in (spread, 1.0):  # where most points are equal; where all are
            sigma = jnp.where(sigma > 0, sigma, fallback)
        first = points[train.in_turn[jnp.arange(self.n_locations) % n]]
        start, scale = self.start(key, (first - centre) / sigma)

        def moved(by: tuple[jax.Array, jax.Array]) -> Embedding:
            anchors, bandwidth = start + scale * by[0], sigma * jnp.exp(by[1])
            return Embedding(anchors, bandwidth, centre, method=self.method)

        def loss(by: tuple[jax.Array, jax.Array]) -> jax.Array:
            features = dataclasses.replace(train, points=moved(by)(points))
            return -embedding_statistic(features, self.regularization)[0]

        def ascent_step(carry: tuple, _: None) -> tuple[tuple, None]:
            by, state = carry
            more, state = updates(optimizer, jax.grad(loss)(by), state, by)
            return (optax.apply_updates(by, more), state), None

        optimizer = _OPTIMIZERS[self.optimizer](self.learning_rate)
        zero = (jnp.zeros_like(start), jnp.zeros_like(sigma))
        carry, _ = jax.lax.scan(ascent_step, (zero, optimizer.init(zero)), length=self.steps)
        return moved(carry[0])


@record
class MeanEmbedding(EmbeddingTest):
    """ME: kernel mean embeddings compared at J locations; they start at training points.

    Chwialkowski et al. 2015, Jitkrittum et al. 2016; as for the options, see `EmbeddingTest`.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> ntk.MeanEmbedding(n_locations=3, calibration="asymptotic")
        MeanEmbedding(calibration=Asymptotic(), n_locations=3)
    """

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "me"

    @property
    def n_features(self) -> int:
        """J."""
        return self.n_locations

    def start(self, key: jax.Array, points: jax.Array) -> tuple[jax.Array, float]:
        """The first u_j, with some noise lest tied points stay together, and their spread."""
        scale = (2 * points.shape[1]) ** -0.5  # σ is the distance of two points
        return points + 0.1 * scale * normal(key, points.shape), scale


@record
class SmoothCF(EmbeddingTest):
    """SCF: smooth characteristic functions compared at J frequencies; they start as N(0, I).

    Chwialkowski et al. 2015, Jitkrittum et al. 2016; as for the options, see `EmbeddingTest`.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> ntk.SmoothCF(steps=100).n_features
        10
    """

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "scf"

    @property
    def n_features(self) -> int:
        """2J: a sine and a cosine of each frequency."""
        return 2 * self.n_locations

    def start(self, key: jax.Array, points: jax.Array) -> tuple[jax.Array, float]:
        """The first u_j, and their spread."""
        return normal(key, points.shape), 1.0
