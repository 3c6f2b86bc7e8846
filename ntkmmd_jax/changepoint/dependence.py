"""How long a series remembers: autocovariances in feature space, by an autoregression.

    c_h = E ⟨φ(x_t) − μ, φ(x_{t+h}) − μ⟩,   V_L = Σ_{|h|<L} (1 − |h|/L) c_h,

so that E |mean of L frames − μ|² = V_L / L. The c_h up to lag `ORDERS` are means over a diagonal of
the centred Gram matrix, which are low by V/N, the error of its mean; beyond, they go on as in the
autoregression that they determine (Yule & Walker), whose order is that of the least AIC.
"""

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record

ORDERS = 8
_BLOCK = 4.0  # times the memory: frames of a block that shares little with its neighbours


@record
class Dependence:
    """What a reference says of its memory."""

    covariances: jax.Array  # (lags,) c_0, c_1, …
    order: jax.Array  # () of the autoregression; 0: none was found

    def mean(self, length: jax.Array) -> jax.Array:
        """E |mean of so many frames − μ|² = V_L / L, of any shape."""
        h = jnp.arange(len(self.covariances))
        length = jnp.asarray(length)[..., None]
        share = jnp.where(h == 0, 1, 2) * jnp.maximum(1 - h / length, 0)
        return jnp.sum(share * self.covariances, -1) / length[..., 0]

    @property
    def time(self) -> jax.Array:
        """V / c_0: frames that say as much as one independent frame."""
        total = 2 * jnp.sum(self.covariances) - self.covariances[0]
        return jnp.maximum(total / self.covariances[0], 1)

    def block(self, most: int) -> jax.Array:
        """Frames of a block that shares little with its neighbours; 1 of independent frames."""
        wanted = jnp.where(self.order == 0, 1, jnp.ceil(_BLOCK * self.time))
        return jnp.clip(wanted, 1, most).astype(jnp.int32)


def dependence(gram: jax.Array, lags: int) -> Dependence:
    """The memory of a series from its centred Gram matrix (N, N), for lags below `lags`."""
    n = len(gram)
    found = jnp.stack([jnp.mean(jnp.diagonal(gram, h)) for h in range(ORDERS + 1)])
    variance = found[0]
    # Independent products behind a c_h: N for each dimension in which the features spread.
    squares = (jnp.sum(gram**2) - jnp.sum(jnp.diagonal(gram) ** 2)) / (n * (n - 1))
    points = n * jnp.clip(found[0] ** 2 / squares, 1, 50)
    total, fitted = variance, Dependence(found, jnp.zeros((), jnp.int32))
    for _ in range(3):  # V is in its own correction, which is small
        fitted = _autoregression(found + jnp.minimum(total / n, variance / 4), points, lags)
        total = fitted.time * fitted.covariances[0]
    return fitted


def _autoregression(c: jax.Array, points: jax.Array, lags: int) -> Dependence:
    """The one of least AIC that c_0, …, c_8 determine, and its covariances."""
    i = jnp.arange(ORDERS)
    inside = i < jnp.arange(ORDERS + 1)[:, None]  # (orders, lags)
    toeplitz = jnp.where(inside[:, :, None] & inside[:, None], c[jnp.abs(i[:, None] - i)], 0)
    toeplitz += jnp.where(inside, 0, 1)[:, :, None] * jnp.eye(ORDERS)
    right = jnp.where(inside, c[1:], 0)
    weights = jnp.linalg.solve(toeplitz, right[..., None])[..., 0]
    left = jnp.maximum(1 - jnp.sum(weights * right, 1) / c[0], 1e-6)  # of the variance
    order = jnp.argmin(points * jnp.log(left) + 2 * jnp.arange(ORDERS + 1))

    def extend(last: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        ahead = jnp.clip(weights[order] @ last, -c[0], c[0])
        new = jnp.where(h <= order, c[jnp.minimum(h, ORDERS)], ahead)
        return jnp.concatenate([new[None], last[:-1]]), new

    start = jnp.zeros(ORDERS, c.dtype).at[0].set(c[0])
    _, rest = jax.lax.scan(extend, start, jnp.arange(1, lags))
    return Dependence(jnp.concatenate([c[:1], rest]), order)
