"""A kernel on a sample, in the eigenbasis of its centred features, by landmarks.

With landmarks Z among the points, k(z, z') ≈ φ(z)·φ(z') with φ(z) = K_ZZ^(−1/2) k(Z, z) (Nyström;
exact where all points are landmarks). In the eigenbasis of their covariance over the sample the
coordinates c_l of φ have variances λ_l, and with v_l = Σ w_i c_l(z_i) the squared MMD is Σ v_l².

Least-squares training of the linearised network for time t filters that spectrum,

    T(t) = Σ_l (1 − exp(−t λ_l)) / (t λ_l) · v_l²,

of which T_NTK is the limit t → 0; as t grows, what is rare in the kernel counts as much as what is
common (Hotelling's T² in feature space, in the end). All times share one eigenbasis. Times are in
units of 1/λ_1, and so free of the scale of the kernel.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record
from ntkmmd_jax._lib.tiles import tile_by_tile

_TILE = 4096  # points whose coordinates are taken at once
_SMALLEST = 1e-5  # eigenvalues of K_ZZ below that share of the largest are rounding in float32


@record
class Basis:
    """Coordinates c_l of points, uncorrelated over the sample, of variances λ_l."""

    kernel: Any  # k(x1, x2) -> (n1, n2), a pytree
    landmarks: jax.Array  # (m, ...)
    transform: jax.Array  # (m, r) from k(z, Z) to coordinates
    mean: jax.Array  # (r,) taken off them
    spectrum: jax.Array  # (r,) λ_l, ascending; 0 where there is rounding only

    def coordinates(self, points: jax.Array) -> jax.Array:
        """c(z), shape (n, r)."""

        def of(block: jax.Array) -> jax.Array:
            return _product(self.kernel(block, self.landmarks), self.transform) - self.mean

        return tile_by_tile(of, points, _TILE)

    def filters(self, times: tuple[float, ...]) -> jax.Array:
        """(1 − exp(−t λ)) / t λ for every time, shape (times, r); 1 at t = 0."""
        relative = self.spectrum / jnp.maximum(self.spectrum[-1], jnp.finfo(self.mean.dtype).tiny)
        x = jnp.asarray(times, relative.dtype)[:, None] * relative
        slow = jnp.where(x > 1e-6, -jnp.expm1(-x) / jnp.where(x > 1e-6, x, 1), 1)
        return jnp.where(self.spectrum > 0, slow, 0)


def fit_basis(kernel: Any, points: jax.Array, landmarks: jax.Array) -> Basis:
    """The eigenbasis of a kernel over the points, by landmarks among them."""
    sizes, vectors = jnp.linalg.eigh(kernel(landmarks, landmarks))
    kept = sizes > _SMALLEST * sizes[-1]
    whiten = vectors * jnp.where(kept, jnp.where(kept, sizes, 1) ** -0.5, 0)
    raw = Basis(kernel, landmarks, whiten, jnp.zeros_like(sizes), sizes)
    features = raw.coordinates(points)
    mean = features.mean(0)
    centred = features - mean
    spectrum, axes = jnp.linalg.eigh(_product(centred.T, centred) / len(points))
    spectrum = jnp.where(spectrum > _SMALLEST / 10 * spectrum[-1], spectrum, 0)
    return Basis(kernel, landmarks, _product(whiten, axes), mean @ axes, spectrum)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.matmul(left, right, precision="highest")
