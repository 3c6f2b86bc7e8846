"""How long a series remembers: autocovariances in feature space, by an autoregression.

    c_h = E ⟨φ(x_t) − μ, φ(x_{t+h}) − μ⟩,   V_L = Σ_{|h|<L} (1 − |h|/L) c_h,

so that E |mean of L frames − μ|² = V_L / L. Sums over diagonals of the centred Gram matrix, over N,
are low by V/N, the error of its mean; with that added they are positive definite. Up to a lag they
are c_h. Beyond, every s-th goes on as in the autoregression that those before it determine (Yule &
Walker), of the order of the least AIC: 0 for independent frames, 1 for a decay, more for the swings
of a motion. The step s is the first lag at which half of the correlation is gone.

A series that swings cancels in its windows: V_L is a small difference of large sums, which such a
line between steps may even make negative. There c_h are the sums as they are, times 1 − h/H, which
are positive definite: no V_L is below 0. And memory counts |c_h|, since a swing is remembered.

A single coordinate among many, or a few features, may remember longer than all others. What c_h
have beyond that fit is held against decays of many lengths τ, and the one that stands out most, by
more than chance, is added: A exp(−h/τ), less the 2Aτ/N by which it lowers all sums. And blocks are
as long as these features remember: for ρ^h, (1 + ρ)/(1 − ρ) is not only Σ c_h / c_0, a mean over
all features, but also 2 Σ h c_h / Σ c_h − 1 over h > 0, to which only those that remember add.

Frames without memory may still be large or small together, as returns of a market are. Most
features do not see it, but T does: what is as large as the frames of a window varies as the mean of
|φ|² over them. So autocorrelations of |φ|² are summed, too, up to the first lag that is six times
their sum (Madras & Sokal); if that says more than features do, by what chance does not reach.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.padding import cleared, mean, number
from ntkmmd_jax._lib.records import record

_ORDERS = 16  # of the autoregression, at most; its lags are no more than a quarter of the frames
_BLOCK = 4.0  # times the memory: frames of a block that shares little with its neighbours
_SWING = 0.05  # of c_0: a series with some c_h as far below 0 swings, if chance does not reach it
_LEAST = 0.02  # of V_L by a taper, that a swing leaves of it
_CHANCE = 4.0  # standard errors of a c_h of independent frames
_CERTAIN = 3.0  # standard errors of a sum of autocorrelations, beyond which it is no chance
_DECAYS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)  # τ in frames, of what few features remember
_LITTLE = 1.25  # frames that an autoregression says to be remembered, if it may be by chance
_LONGER = 1.5  # times as long as all features, from which on some are said to remember longer
_SUMMED = 6.0  # lags in a sum of autocorrelations, over the sum


@record
class Dependence:
    """What a reference says of its memory."""

    covariances: jax.Array  # (lags,) c_0, c_1, …
    order: jax.Array  # () of the autoregression; 0: none was found
    spread: Any = 1.0  # () Σ of autocorrelations of |φ|², if beyond those of φ
    slowest: Any = 1.0  # () of the few features that remember longer than others; 1: there are none
    swing: Any = None  # (lags,) c_h as they are, without a taper; None: c_0, c_1, … above

    def mean(self, length: jax.Array | int) -> jax.Array:
        """E |mean of so many frames − μ|² = V_L / L, of any shape."""
        h = jnp.arange(len(self.covariances), dtype=self.covariances.dtype)
        length = jnp.asarray(length, h.dtype)[..., None]
        share = jnp.where(h == 0, 1.0, 2.0) * jnp.maximum(1 - h / length, 0)
        return jnp.sum(share * self.covariances, -1) / length[..., 0]

    def seen(self, length: jax.Array | int) -> jax.Array:
        """The same by c_h as they are: what windows of whole periods of a swing have left of it."""
        if self.swing is None:
            return self.mean(length)
        most = self.mean(length)
        return jnp.clip(Dependence(self.swing, self.order).mean(length), _LEAST * most, most)

    def thinned(self, step: jax.Array | float) -> "Dependence":
        """Of frames that are so far apart, on average."""
        h = jnp.arange(len(self.covariances), dtype=self.covariances.dtype)
        return Dependence(jnp.interp(h * step, h, self.covariances, right=0.0), self.order)

    def mean_of_some(self, used: Any, frames: Any) -> jax.Array:
        """The same of so many of these frames, evenly apart."""
        return self.thinned(number(frames) / number(used)).mean(used)

    @property
    def time(self) -> jax.Array:
        """Σ |c_h| / c_0: frames that say as much as one independent frame."""
        sizes = jnp.abs(self.covariances)
        return jnp.maximum(2 * jnp.sum(sizes) / sizes[0] - 1, 1)

    @property
    def memory(self) -> jax.Array:
        """Likewise, of the features, a few of them, or the spread: whatever lasts longest."""
        return jnp.maximum(jnp.maximum(self.time, self.slowest), self.spread)

    def block(self, most: int | jax.Array) -> jax.Array:
        """Frames of a block that shares little with its neighbours; 1 of independent frames."""
        independent = (self.order == 0) & (self.spread == 1) & (self.slowest == 1)
        wanted = jnp.where(independent, 1.0, jnp.ceil(_BLOCK * self.memory))
        return jnp.clip(wanted.astype(jnp.int32), 1, most)


def dependence(gram: jax.Array, lags: int, n: Any = None) -> Dependence:
    """The memory of a series from its centred Gram matrix, for lags below `lags`.

    Args:
        gram: Of N frames, (N, N), or of a bucket of them, with 0 in the padding.
        lags: How many covariances are wanted.
        n: How many of a bucket are real; all, by default.
    """
    n = len(gram) if n is None else n
    known, size = jnp.maximum(n // 4, 2), number(n)
    norms = jnp.diagonal(gram)
    # Independent products behind a c_h: N for each dimension in which the features spread.
    squares = (jnp.sum(gram**2) - jnp.sum(norms**2)) / (size * (size - 1))
    features = jnp.clip((jnp.sum(norms) / size) ** 2 / squares, 1, size)
    points = size * jnp.minimum(features, 50)
    c = _products(lambda i, j: gram[i, j], n, len(gram))
    fitted, swings = _fitted(c, known, points, size * features, lags, size)
    norms = cleared(norms - mean(norms, n), n)
    of_norms = _products(lambda i, j: norms[i] * norms[j], n, len(gram))
    spread, last = _lasting(of_norms, fitted.time, known, size)
    slow, error = _up_to(last, c, lags, size), c[0] * jnp.sqrt(last.astype(c.dtype) / points)
    more = (spread > 1) & ~swings & (jnp.sum(slow) > jnp.sum(fitted.covariances) + error)
    covariances = jnp.where(more, slow, fitted.covariances)
    swing = jnp.where(swings, _known(c, lags), covariances)
    return Dependence(covariances, fitted.order, spread, fitted.slowest, swing)


def _products(product: Callable, n: Any, places: int) -> jax.Array:
    """Sums of products of frames 0, 1, … apart, over N."""
    at, h = jnp.arange(places), jnp.arange(max(places // 4, 2))[:, None]
    apart = jnp.where(at + h < n, product(at, (at + h) % places), 0)
    return jnp.sum(apart, axis=1) / number(n)


def _fitted(
    c: jax.Array, count: jax.Array, points: jax.Array, all_points: jax.Array, lags: int, size: Any
) -> tuple[Dependence, jax.Array]:
    """By an autoregression; or as c_h are, if the series swings."""
    variance = c[0]

    def refit(_: int, fitted: tuple) -> tuple:  # V is in its own correction
        total = jnp.maximum(2 * jnp.sum(fitted[0]) - variance, variance)
        return _autoregression(c + jnp.minimum(total / size, variance / 4), count, points, lags)

    zero = jnp.zeros((), jnp.int32)
    none = jnp.zeros(lags, c.dtype).at[0].set(variance), zero, zero
    covariances, order, reach = jax.lax.fori_loop(0, 3, refit, none)
    taper = jnp.maximum(1 - jnp.arange(lags) / count, 0).astype(c.dtype)
    swinging = taper * _known(c, lags)
    depth = jnp.maximum(_SWING, _CHANCE / jnp.sqrt(points)) * variance
    swings = (order > 0) & (jnp.min(covariances) < -depth)
    steady, stands_out = _with_decay(covariances, c, count, all_points, size, reach)
    covariances = jnp.where(swings, swinging, steady)
    found = Dependence(covariances, order)
    slowest = jnp.where(swings, 1, _slowest(found, all_points, stands_out))
    return dataclasses.replace(found, slowest=slowest), swings


def _slowest(found: Dependence, points: jax.Array, stands_out: jax.Array) -> jax.Array:
    """How long those features remember that do; 1 if no longer than others, or by chance."""
    sizes = jnp.abs(found.covariances)
    h = jnp.arange(len(sizes), dtype=sizes.dtype)
    lag = jnp.sum(h * sizes) / jnp.maximum(jnp.sum(sizes[1:]), jnp.finfo(sizes.dtype).tiny)
    chance = _CHANCE * 2 * jnp.sqrt(2 * lag / points)
    few = (2 * lag - 1 > _LONGER * found.time) & (stands_out | (found.time - 1 > chance))
    return jnp.where(few, 2 * lag - 1, 1)


def _with_decay(
    fitted: jax.Array, c: jax.Array, count: jax.Array, points: jax.Array, size: Any, reach: Any
) -> tuple[jax.Array, jax.Array]:
    """With a decay beyond the first c_h, through which the fit goes, if one stands out.

    A fit that says little is not asked: the decay may be all that there is.
    """
    variance, lag = c[0], jnp.arange(len(fitted))
    little = 2 * jnp.sum(fitted) / variance - 1 < _LITTLE
    base, reach = jnp.where(little & (lag > 0), 0, fitted), jnp.where(little, 0, reach)
    time = 2 * jnp.sum(base) / variance - 1
    h = jnp.arange(len(c))
    far, near = h.astype(c.dtype), lag.astype(c.dtype)
    fit = jnp.where(h < len(base), base[jnp.minimum(h, len(base) - 1)], 0)
    beyond = (h > reach) & (h < count)
    rest = jnp.where(beyond, c + time * variance / size - fit, 0)

    def of_decay(tau: jax.Array) -> tuple[jax.Array, jax.Array]:
        decay = jnp.where(beyond, jnp.exp(-far / tau) - 2 * tau / size, 0)
        squares = jnp.sum(decay**2)
        error = time * variance * jnp.sqrt(squares / points)
        return decay @ rest / squares, decay @ rest / error

    taus, half = jnp.asarray(_DECAYS, c.dtype), number(count) / 2
    shares, certain = jax.vmap(of_decay)(taus)
    best = jnp.argmax(jnp.where(taus < half, certain, -jnp.inf))
    found, tau = (taus[best] < half) & (certain[best] > _CERTAIN), taus[best]
    more = jnp.where(lag > reach, jnp.exp(-near / tau), 2 * tau / size)
    return jnp.where(found, base + jnp.clip(shares[best], 0, variance) * more, fitted), found


def _lasting(
    c: jax.Array, time: jax.Array, count: jax.Array, size: Any
) -> tuple[jax.Array, jax.Array]:
    """Σ of autocorrelations of |φ|² up to a lag; 1 if by chance it could be `time`."""
    lag = jnp.arange(len(c))
    total = 2 * jnp.cumsum(c) / jnp.maximum(c[0], jnp.finfo(c.dtype).tiny) - 1
    last = jnp.argmax((lag.astype(c.dtype) >= _SUMMED * total) | (lag == count - 1))
    chance = _CERTAIN * 2 * jnp.sqrt(last.astype(c.dtype) / size)
    return jnp.where(total[last] > time + chance, total[last], 1), last


def _known(c: jax.Array, lags: int) -> jax.Array:
    """c_0, c_1, … of so many lags, of which the last that is known stands for those beyond."""
    return c[jnp.minimum(jnp.arange(lags), len(c) - 1)]


def _up_to(last: jax.Array, c: jax.Array, lags: int, size: Any) -> jax.Array:
    """c_h as they are up to a lag: low by V/N each, which is in V itself 2 last + 1 times."""
    total = 2 * jnp.sum(jnp.where(jnp.arange(len(c)) <= last, c, 0)) - c[0]
    low, h = total / (size - 2 * last.astype(c.dtype) - 1), jnp.arange(lags)
    return jnp.where(h <= last, _known(c, lags) + low, 0)


def _autoregression(
    c: jax.Array, count: jax.Array, points: jax.Array, lags: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Covariances of the one of least AIC that c_0, c_1, … determine, its order, and its reach."""
    half = (c[1:] < c[0] / 2) & (jnp.arange(1, len(c)) < count)
    step = 1 + jnp.where(half.any(), jnp.argmax(half), count - 2)
    lag = jnp.arange(_ORDERS)
    known = (lag + 1) * step < count
    thin = jnp.where(known, c[jnp.where(known, (lag + 1) * step, 0)], 0) / c[0]  # ρ_s, ρ_2s, …

    def raise_order(carry: tuple, k: jax.Array) -> tuple:  # Levinson & Durbin
        weights, left = carry
        mirrored = jnp.where(lag < k - 1, jnp.roll(weights[::-1], k - 1), 0)
        partial = jnp.clip((thin[k - 1] - mirrored @ thin) / left, -0.999, 0.999)
        weights = jnp.where(lag == k - 1, partial, weights - partial * mirrored)
        left = left * (1 - partial**2)  # of the variance
        return (weights, left), (weights, left)

    none = (jnp.zeros(_ORDERS, c.dtype), jnp.ones((), c.dtype))
    _, found = jax.lax.scan(raise_order, none, jnp.arange(1, _ORDERS + 1))
    weights, left = (jnp.concatenate([a[None], b]) for a, b in zip(none, found, strict=True))
    orders = jnp.arange(_ORDERS + 1)
    aic = points * jnp.log(left) / step.astype(c.dtype) + 2 * orders.astype(c.dtype)
    # Half of the correlation is left after a frame: no chance, however few such steps there are.
    asked = (orders * step < count) & ((orders > 0) | (step == 1))
    order = jnp.argmin(jnp.where(asked, aic, jnp.inf))

    def extend(last: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
        ahead = jnp.clip(weights[order] @ last, -1, 1)
        new = jnp.where(k <= order, thin[jnp.minimum(k, _ORDERS) - 1], ahead)
        return jnp.concatenate([new[None], last[:-1]]), new

    start = jnp.zeros(_ORDERS, c.dtype).at[0].set(1)
    _, rest = jax.lax.scan(extend, start, jnp.arange(1, lags))
    coarse = c[0] * jnp.concatenate([jnp.ones(1, c.dtype), rest])
    h = jnp.arange(lags)
    covariances = jnp.where(h <= order * step, _known(c, lags), _between(coarse, h, step))
    return covariances, order.astype(jnp.int32), (order * step).astype(jnp.int32)


def _between(coarse: jax.Array, h: jax.Array, step: jax.Array) -> jax.Array:
    """Values at lags h from those at multiples of the step: along a decay, or a line."""
    low, share = h // step, (h % step).astype(coarse.dtype) / step.astype(coarse.dtype)
    a, b = coarse[low], coarse[jnp.minimum(low + 1, len(coarse) - 1)]
    both = (a > 0) & (b > 0)
    ratio = jnp.where(both, b, 1) / jnp.where(both, a, 1)
    return jnp.where(both, a * ratio**share, a + (b - a) * share)
