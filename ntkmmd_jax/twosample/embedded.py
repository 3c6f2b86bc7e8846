"""The features of the ME and SCF tests at their places, and the statistic λ = δᵀ Σ⁻¹ δ / c."""

import operator
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.precision import pinned
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.calibration import NullStatistics, Relabelling, score_null
from ntkmmd_jax.kernels import gaussian_kernel
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.witness import in_tiles, savable


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
        phase = z @ self.anchors.T
        return jnp.concatenate([window * jnp.sin(phase), window * jnp.cos(phase)], axis=1)


@savable
@record
class EmbeddingWitness:
    """The located differences g(x) = ⟨Σ⁻¹ δ, φ(x)⟩; their mean gap on the test half is c λ."""

    embedding: Embedding
    coefficients: jax.Array  # (J,) or (2J,), Σ⁻¹ δ
    features: tuple[int, ...] = static()  # shape of one point

    @pinned
    def __call__(self, points: Any) -> jax.Array:
        """The differences at points of shape (n, ...): large where p exceeds q. Shape (n,)."""
        points = points_like(points, self.features)
        flat = points.reshape(len(points), -1)
        return in_tiles(lambda x: self.embedding(x) @ self.coefficients, flat)

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


def embedding_statistic(features: Pooled, gamma: Any) -> tuple[jax.Array, jax.Array]:
    """λ and Σ⁻¹ δ of features (n_X + n_Y, k), with Σ = (C_X / n_X + C_Y / n_Y) / c + γI."""
    n_x, n_y = padding.number(features.n_x), padding.number(features.n_y)
    c = 1 / n_x + 1 / n_y
    gap, residuals = operator.sub(*features.means), features.residuals
    shares = (1 / (n * (n - 1) * c) for n in (n_x, n_y))
    rows = jnp.where(jnp.arange(len(residuals))[:, None] < features.n_x, *shares) * residuals
    sigma = rows.T @ residuals + gamma * jnp.eye(len(gap))
    coefficients = cho_solve((jnp.linalg.cholesky(sigma), True), gap)
    return jnp.vdot(gap, coefficients) / c, coefficients


def embedding_null(
    relabelling: Relabelling, features: jax.Array, gamma: Any
) -> tuple[NullStatistics, jax.Array]:
    """λ under every labelling, and Σ⁻¹ δ, with Σ the covariance about one mean, plus γI.

    With Σ = L Lᵀ, λ = |L⁻¹ δ|² / c: the squared mean gaps of k scores, the rows of L⁻¹ φᵀ.

    Args:
        relabelling: Of the test points.
        features: φ of the placed points, shape (n, k).
        gamma: γ.
    """
    n_x, n_y = relabelling.sizes
    n, c = relabelling.n, 1 / n_x + 1 / n_y
    centred = padding.cleared(features - padding.mean(features, n), n)
    sigma = centred.T @ centred / padding.number(n - 1) + gamma * jnp.eye(features.shape[1])
    factor = jnp.linalg.cholesky(sigma)
    white = solve_triangular(factor, centred.T, lower=True)
    gaps = jax.vmap(score_null, (None, 0))(relabelling, white)  # values (k, B + 1)
    # Each gap g_j rounds at its tolerance e_j, and Σ g_j² at 2 Σ |g_j| e_j.
    tolerance = 2 * jnp.max(gaps.tolerance @ jnp.abs(gaps.values)) / c
    null = NullStatistics(jnp.sum(gaps.values**2, axis=0) / c, tolerance)
    gap = relabelling.weights[relabelling.observed] @ features
    return null, cho_solve((factor, True), gap)
