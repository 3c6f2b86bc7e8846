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

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import gammaincc

from ntkmmd_jax.calibration import (
    NullStatistics,
    Relabelling,
    check_level,
    check_reach,
    labellings,
    relabel,
    score_null,
)
from ntkmmd_jax.kernels import gaussian_kernel, median_distance
from ntkmmd_jax.measure import held_out, interleaved, points_like, split, split_sizes
from ntkmmd_jax.normals import normal
from ntkmmd_jax.pytree import record, static
from ntkmmd_jax.twosample.analytic import warn_if_too_few
from ntkmmd_jax.twosample.contract import (
    TwoSampleTest,
    analytic_result,
    check_calibration,
    permutation_result,
)
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.witness import in_blocks, savable


def _normalized(rate: Any) -> optax.GradientTransformation:
    """Steps of length rate/√k along the gradient."""
    return optax.chain(
        optax.normalize_by_update_norm(),
        optax.scale_by_schedule(lambda k: -rate / jnp.sqrt(k + 1.0)),
    )


_PER_FEATURE = 40  # held-out points per feature from which on the χ² law is measured to hold
_OPTIMIZERS = {"adam": optax.adam, "normalized": _normalized}


@record
class Embedding:
    """φ(x) at its places; in units of the data, locations are m + σ u_j and frequencies u_j/σ."""

    anchors: jax.Array  # (J, d), u_j
    bandwidth: jax.Array  # (), σ
    centre: jax.Array  # (d,), m
    method: str = static()  # "me" or "scf"

    def __call__(self, x: jax.Array) -> jax.Array:
        """The features of points (n, d), shape (n, J) or (n, 2J)."""
        z = (x - self.centre) / self.bandwidth
        if self.method == "me":
            return gaussian_kernel(z, self.anchors, 1.0)
        window = jnp.exp(-0.5 * jnp.sum(z**2, axis=1))[:, None]
        phase = jnp.matmul(z, self.anchors.T, precision="highest")
        return jnp.concatenate([window * jnp.sin(phase), window * jnp.cos(phase)], axis=1)


@savable
@record
class EmbeddingWitness:
    """The located differences g(x) = ⟨Σ⁻¹ δ, φ(x)⟩; their mean gap on the test half is c λ."""

    embedding: Embedding
    coefficients: jax.Array  # (J,) or (2J,), Σ⁻¹ δ
    features: tuple[int, ...] = static()  # shape of one point

    def __call__(self, points: Any) -> jax.Array:
        """The differences at points of shape (n, ...): large where p exceeds q. Shape (n,)."""
        points = points_like(points, self.features)
        flat = points.reshape(len(points), -1)
        return in_blocks(lambda x: self.embedding(x) @ self.coefficients, flat)

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        at = self.embedding
        shapes = {"anchors": at.anchors.shape, "coefficients": self.coefficients.shape}
        return {"method": at.method, "features": self.features, **shapes}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "EmbeddingWitness":
        """A witness of zeros, to be refilled with saved leaves; it has no network."""
        anchors, zero = jnp.zeros(described["anchors"]), jnp.zeros(())
        embedding = Embedding(anchors, zero, anchors[0], method=described["method"])
        coefficients, features = jnp.zeros(described["coefficients"]), described["features"]
        return cls(embedding, coefficients, features=tuple(features))


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
    """

    uses_lapack = True

    n_locations: int = static(default=5)  # J, locations or frequencies
    steps: int = static(default=200)  # of gradient ascent
    optimizer: str = static(default="adam")  # or "normalized"
    learning_rate: Any = 0.05  # of u_j, in units of their first spread, and of log σ
    regularization: Any = 1e-5  # γ
    train_fraction: float | tuple[float, float] = static(default=0.5)
    calibration: str = static(default="permutation")  # or "asymptotic"
    n_permutations: int = static(default=400)  # of calibration "permutation"
    shared_pool: bool = static(default=False)  # one pool of labellings for all replicas
    level: Any = 0.05

    def __post_init__(self) -> None:
        check_calibration(self, ("asymptotic", "permutation"))
        if self.optimizer not in _OPTIMIZERS:
            raise ValueError(
                f"unknown optimizer {self.optimizer!r}; use one of {tuple(_OPTIMIZERS)}"
            )
        check_level(self.level, None if self.calibration == "asymptotic" else self.n_permutations)
        for name, least in (("n_locations", 1), ("steps", 0)):
            if not (isinstance(value := getattr(self, name), int) and value >= least):
                raise ValueError(f"{name} must be a whole number of at least {least}; got {value}")
        for name in ("learning_rate", "regularization"):
            value = getattr(self, name)
            if isinstance(value, int | float) and not 0 < value < float("inf"):
                raise ValueError(f"{name} must be positive and finite; got {value!r}")
        if self.train_fraction is None:
            raise ValueError("the test half must be apart from the training half: got no fraction")
        split_sizes(2, 2, self.train_fraction)

    def run(self, key: jax.Array, x: jax.Array, y: jax.Array) -> TwoSampleResult:
        """Split, optimise the places on the training half, compare on the test half."""
        k_split, k_places, k_null = jax.random.split(key, 3)
        flat = (sample.reshape(len(sample), -1) for sample in (x, y))
        train, test = split(k_split, *flat, self.train_fraction)
        embedding = self.optimise(k_places, *train)
        witness = partial(EmbeddingWitness, embedding, features=x.shape[1:])
        about = {"method": self.method, "n_x": len(x), "n_y": len(y)}
        if self.calibration == "asymptotic":
            statistic, v = embedding_statistic(*map(embedding, test), self.regularization)
            law = chi2_law(statistic, self.level, self.n_features)
            return analytic_result(statistic, *law, self.level, witness=witness(v), **about)
        relabelling = relabel(k_null, *map(len, test), self.n_permutations, shared=self.shared_pool)
        features = embedding(relabelling.placed(jnp.concatenate(test)))
        null, v = embedding_null(relabelling, features, self.regularization)
        return permutation_result(relabelling, null, self.level, witness=witness(v), **about)

    def check_sizes(self, n_x: int, n_y: int) -> None:
        """Refuse sizes at which the level cannot be reached; warn where the χ² law fails."""
        m_x, m_y = held_out(n_x, n_y, self.train_fraction)
        halves, k = ((m_x, m_y), (n_x - m_x, n_y - m_y)), self.n_features
        if min(map(min, halves)) < 2 or min(map(sum, halves)) < k + 2:
            raise ValueError(
                f"too few samples for the covariance of {k} features in either half: "
                f"n_x = {n_x}, n_y = {n_y}; use fewer n_locations or more samples"
            )
        if self.calibration == "asymptotic":
            warn_if_too_few(self.method, "asymptotic", (m_x, m_y), _PER_FEATURE * k)
        else:
            values = labellings(m_x, m_y, even=True)
            check_reach(values, self.level, f"{m_x} + {m_y} held-out points")

    def optimise(self, key: jax.Array, x: jax.Array, y: jax.Array) -> Embedding:
        """Gradient ascent on λ of the training samples (n, d), which are in random order."""
        pooled = jnp.concatenate([x, y])
        centre = pooled.mean(0)
        sigma = median_distance(jnp.concatenate([x[:128], y[:128]]))  # enough for a start
        spread = jnp.sqrt(2 * jnp.sum((pooled - centre) ** 2) / len(pooled))
        for fallback in (spread, 1.0):  # where most points are equal; where all are
            sigma = jnp.where(sigma > 0, sigma, fallback)
        first = pooled[np.resize(interleaved(len(x), len(y)), self.n_locations)]
        start, scale = self.start(key, (first - centre) / sigma)

        def moved(by: tuple[jax.Array, jax.Array]) -> Embedding:
            anchors, bandwidth = start + scale * by[0], sigma * jnp.exp(by[1])
            return Embedding(anchors, bandwidth, centre, method=self.method)

        def loss(by: tuple[jax.Array, jax.Array]) -> jax.Array:
            return -embedding_statistic(*map(moved(by), (x, y)), self.regularization)[0]

        def ascent_step(carry: tuple, _: None) -> tuple[tuple, None]:
            by, state = carry
            updates, state = optimizer.update(jax.grad(loss)(by), state)
            return (optax.apply_updates(by, updates), state), None

        optimizer = _OPTIMIZERS[self.optimizer](self.learning_rate)
        zero = (jnp.zeros_like(start), jnp.zeros_like(sigma))
        carry, _ = jax.lax.scan(ascent_step, (zero, optimizer.init(zero)), length=self.steps)
        return moved(carry[0])


@record
class MeanEmbedding(EmbeddingTest):
    """ME: kernel mean embeddings compared at J locations; they start at training points."""

    method: ClassVar[str] = "me"

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
    """SCF: smooth characteristic functions compared at J frequencies; they start as N(0, I)."""

    method: ClassVar[str] = "scf"

    @property
    def n_features(self) -> int:
        """2J: a sine and a cosine of each frequency."""
        return 2 * self.n_locations

    def start(self, key: jax.Array, points: jax.Array) -> tuple[jax.Array, float]:
        """The first u_j, and their spread."""
        return normal(key, points.shape), 1.0


def _covariance(features: jax.Array) -> jax.Array:
    centred = features - features.mean(0)
    return jnp.matmul(centred.T, centred, precision="highest") / (len(features) - 1)


def embedding_statistic(f_x: jax.Array, f_y: jax.Array, gamma: Any) -> tuple[jax.Array, jax.Array]:
    """λ and Σ⁻¹ δ of features (n_X, k) and (n_Y, k)."""
    n_x, n_y = len(f_x), len(f_y)
    c = 1 / n_x + 1 / n_y
    gap = f_x.mean(0) - f_y.mean(0)
    sigma = (_covariance(f_x) / n_x + _covariance(f_y) / n_y) / c + gamma * jnp.eye(len(gap))
    coefficients = cho_solve((jnp.linalg.cholesky(sigma), True), gap)
    return jnp.vdot(gap, coefficients) / c, coefficients


def embedding_null(
    relabelling: Relabelling, features: jax.Array, gamma: Any
) -> tuple[NullStatistics, jax.Array]:
    """λ under every labelling, and Σ⁻¹ δ, from the features (n, k) of the placed points.

    Σ = L Lᵀ is the covariance about one mean, plus γI, and λ = |L⁻¹ δ|² / c: the squared mean gaps
    of k scores, the rows of L⁻¹ φᵀ.
    """
    n_x = relabelling.n_x
    c = 1 / n_x + 1 / (len(features) - n_x)
    factor = jnp.linalg.cholesky(_covariance(features) + gamma * jnp.eye(features.shape[1]))
    white = solve_triangular(factor, (features - features.mean(0)).T, lower=True)
    gaps = jax.vmap(score_null, (None, 0))(relabelling, white)  # values (k, B + 1)
    # Each gap g_j rounds at its tolerance e_j, and Σ g_j² at 2 Σ |g_j| e_j.
    tolerance = 2 * jnp.max(gaps.tolerance @ jnp.abs(gaps.values)) / c
    null = NullStatistics(jnp.sum(gaps.values**2, axis=0) / c, tolerance)
    gap = relabelling.weights[relabelling.observed] @ features
    return null, cho_solve((factor, True), gap)


def chi2_law(statistic: jax.Array, level: Any, k: int) -> tuple[jax.Array, jax.Array]:
    """The p-value of a χ²(k) statistic, never 0, and the threshold of the level, by bisection."""
    limits, level = jnp.finfo(statistic.dtype), jnp.asarray(level, statistic.dtype)

    def tail(value: jax.Array) -> jax.Array:
        return jnp.maximum(gammaincc(jnp.full_like(value, k / 2), value / 2), limits.tiny)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        middle = sum(ends) / 2
        above = tail(middle) > level
        return jnp.where(above, middle, ends[0]), jnp.where(above, ends[1], middle)

    # No quantile is beyond 2k − 3 log(level): the tail bound of Laurent & Massart 2000.
    ends = (jnp.zeros_like(level), 2 * k - 3 * jnp.log(level))
    threshold = jax.lax.fori_loop(0, limits.bits + 16, halve, ends)[0]
    return tail(statistic), threshold
