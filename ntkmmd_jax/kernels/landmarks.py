"""A kernel on a sample by landmarks, filtered by training time.

With landmarks Z among the points, k(z, z') ≈ φ(z)·φ(z') with φ(z) = L⁻¹ k(Z, z), L Lᵀ = K_ZZ
(Nyström; exact where all points are landmarks). With C the covariance of φ over the sample, λ_l its
eigenvalues and v_l = Σ w_i φ_l(z_i) in its eigenbasis, the squared MMD is Σ v_l². Least-squares
training of the linearised network for time t filters that spectrum,

    T(t) = Σ_l Φ(t λ_l) v_l² = vᵀ Φ(tC) v,   Φ(x) = (1 − exp(−x)) / x,

of which T_NTK is the limit t → 0; as t grows, what is rare in the kernel counts as much as what is
common (Hotelling's T² in feature space, in the end). Times are in units of 1/λ_1, and so free of
the scale of the kernel.

Φ(tC) comes by doubling t, in matrix products alone: with D(x) = 1 − exp(−x),

    D(2x) = D(x) (2 − D(x)),   Φ(2x) = Φ(x) (1 − D(x)/2),

where small eigenvalues keep their digits. On a busy machine a library's eigenvalues take anything
between 2 ms and a second, and on accelerators they are slow.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tiles import tile_by_tile

_TILE = 4096  # points whose features are taken at once
_RIDGE = 3e-5  # on K_ZZ, as a share of its trace: what is below is rounding in float32
_START = 2.0**-3  # t λ_1 from which on times are doubled


@record
class Features:
    """φ(z), centred over the sample, and the filters Φ(tC) of some times."""

    kernel: Any  # k(x1, x2) -> (n1, n2), a pytree
    landmarks: jax.Array  # (m, ...)
    transform: jax.Array  # (m, m) L⁻ᵀ, from k(z, Z) to features
    mean: jax.Array  # (m,) taken off them
    covariance: jax.Array  # (m, m) C
    filters: jax.Array  # (times > 0, m, m) Φ(tC)
    times: tuple[float, ...] = static()

    def __call__(self, points: jax.Array) -> jax.Array:
        """φ(z), shape (n, m)."""

        def of(block: jax.Array) -> jax.Array:
            return _product(self.kernel(block, self.landmarks), self.transform) - self.mean

        return tile_by_tile(of, points, _TILE)

    def filtered(self, vectors: jax.Array) -> jax.Array:
        """Φ(tC) v of rows (..., m) for every time, shape (times, ..., m)."""
        filters = iter(self.filters)
        return jnp.stack([_product(vectors, next(filters)) if t else vectors for t in self.times])

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """Σ_l a_l and Σ_l a_l², a_l = Φ(tλ_l) λ_l the weights of the χ² law of T(t): (times,)."""
        weights = self.filtered(self.covariance)
        return jnp.trace(weights, axis1=1, axis2=2), jnp.sum(weights * weights.mT, axis=(1, 2))


def fit_features(
    kernel: Any, points: jax.Array, landmarks: jax.Array, times: tuple[float, ...]
) -> Features:
    """The features of a kernel by landmarks, centred and filtered over the points."""
    gram = kernel(landmarks, landmarks)
    one = jnp.eye(len(gram), dtype=gram.dtype)
    root = jnp.linalg.cholesky(gram + _RIDGE * jnp.trace(gram) * one)
    transform = jax.scipy.linalg.solve_triangular(root, one, lower=True).T
    zero = jnp.zeros(len(gram), gram.dtype)
    raw = Features(kernel, landmarks, transform, zero, gram, gram[:0], times=times)
    features = raw(points)
    mean = features.mean(0)
    centred = features - mean
    covariance = _product(centred.T, centred) / len(points)
    relative = covariance / jnp.maximum(_largest(covariance), jnp.finfo(gram.dtype).tiny)
    filters = [_filter(relative, t) for t in times if t]
    filters = jnp.stack(filters) if filters else gram[None][:0]
    return Features(kernel, landmarks, transform, mean, covariance, filters, times=times)


def _largest(matrix: jax.Array) -> jax.Array:
    """The largest eigenvalue of a covariance matrix, by powers."""
    start = matrix[jnp.argmax(jnp.diagonal(matrix))]

    def power(_: int, v: jax.Array) -> jax.Array:
        v = matrix @ v
        return v / jnp.maximum(jnp.linalg.norm(v), jnp.finfo(v.dtype).tiny)

    return jnp.linalg.norm(matrix @ jax.lax.fori_loop(0, 30, power, start))


def _filter(relative: jax.Array, time: float) -> jax.Array:
    """Φ(tC) of a covariance with largest eigenvalue 1."""
    doublings = 0
    while time > _START:
        time, doublings = time / 2, doublings + 1
    x, one = time * relative, jnp.eye(len(relative), dtype=relative.dtype)
    square = _product(x, x)
    cube = _product(square, x)
    d, phi = x - square / 2 + cube / 6, one - x / 2 + square / 6 - cube / 24

    def double(_: int, both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        d, phi = both
        return 2 * d - _product(d, d), phi - _product(phi, d) / 2

    phi = jax.lax.fori_loop(0, doublings, double, (d, phi))[1]
    return (phi + phi.T) / 2


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.matmul(left, right, precision="highest")
