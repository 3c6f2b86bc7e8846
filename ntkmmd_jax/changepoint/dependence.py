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

    def mean(self, length: jax.Array | int) -> jax.Array:
        """E |mean of so many frames − μ|² = V_L / L, of any shape."""
        h = jnp.arange(len(self.covariances), dtype=self.covariances.dtype)
        length = jnp.asarray(length, h.dtype)[..., None]
        share = jnp.where(h == 0, 1.0, 2.0) * jnp.maximum(1 - h / length, 0)
        return jnp.sum(share * self.covariances, -1) / length[..., 0]

    @property
    def time(self) -> jax.Array:
        """V / c_0: frames that say as much as one independent frame."""
        total = 2 * jnp.sum(self.covariances) - self.covariances[0]
        return jnp.maximum(total / self.covariances[0], 1)

    def block(self, most: int) -> jax.Array:
        """Frames of a block that shares little with its neighbours; 1 of independent frames."""
        wanted = jnp.where(self.order == 0, 1.0, jnp.ceil(_BLOCK * self.time))
        return jnp.clip(wanted, 1, most).astype(jnp.int32)


def dependence(gram: jax.Array, lags: int) -> Dependence:
    """The memory of a series from its centred Gram matrix (N, N), for lags below `lags`."""
    n = len(gram)
    at, h = jnp.arange(n), jnp.arange(ORDERS + 1)[:, None]
    pairs = at + h < n
    found = jnp.mean(gram[at, (at + h) % n], axis=1, where=pairs)
    variance = found[0]
    # Independent products behind a c_h: N for each dimension in which the features spread.
    squares = (jnp.sum(gram**2) - jnp.sum(jnp.diagonal(gram) ** 2)) / (n * (n - 1))
    points = n * jnp.clip(found[0] ** 2 / squares, 1, 50)

    def refit(_: int, fitted: Dependence) -> Dependence:  # V is in its own correction
        total = fitted.time * fitted.covariances[0]
        return _autoregression(found + jnp.minimum(total / n, variance / 4), points, lags)

    none = Dependence(jnp.zeros(lags, gram.dtype).at[0].set(variance), jnp.zeros((), jnp.int32))
    return jax.lax.fori_loop(0, 3, refit, none)


def _autoregression(c: jax.Array, points: jax.Array, lags: int) -> Dependence:
    """The one of least AIC that c_0, …, c_8 determine, and its covariances."""
    lag = jnp.arange(ORDERS)

    def raise_order(carry: tuple, k: jax.Array) -> tuple:  # Levinson & Durbin
        weights, left = carry
        mirrored = jnp.where(lag < k - 1, jnp.roll(weights[::-1], k - 1), 0)
        partial = jnp.clip((c[k] - mirrored @ c[1:]) / (left * c[0]), -0.999, 0.999)
        weights = jnp.where(lag == k - 1, partial, weights - partial * mirrored)
        left = left * (1 - partial**2)  # of the variance
        return (weights, left), (weights, left)

    none = (jnp.zeros(ORDERS, c.dtype), jnp.ones((), c.dtype))
    _, found = jax.lax.scan(raise_order, none, jnp.arange(1, ORDERS + 1))
    weights, left = (jnp.concatenate([a[None], b]) for a, b in zip(none, found, strict=True))
    orders = jnp.arange(ORDERS + 1, dtype=c.dtype)
    order = jnp.argmin(points * jnp.log(left) + 2 * orders)

    def extend(last: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        ahead = jnp.clip(weights[order] @ last, -c[0], c[0])
        new = jnp.where(h <= order, c[jnp.minimum(h, ORDERS)], ahead)
        return jnp.concatenate([new[None], last[:-1]]), new

    start = jnp.zeros(ORDERS, c.dtype).at[0].set(c[0])
    _, rest = jax.lax.scan(extend, start, jnp.arange(1, lags))
    return Dependence(jnp.concatenate([c[:1], rest]), order.astype(jnp.int32))
