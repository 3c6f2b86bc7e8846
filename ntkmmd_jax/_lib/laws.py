"""The laws of statistics under H0: normal, χ², F, and a weighted sum of χ² variables.

Each law gives the p-value of a statistic, P[Q ≥ T], never 0, and the threshold, the value that Q
exceeds with the probability `level`; where the tail has no inverse in closed form, by bisection.
All may be traced, the level too.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaincc, ndtr, ndtri

from ntkmmd_jax._lib.records import record

_NODES = 64  # of the quadrature of the F tail
_DROP = 25.0  # beyond e^−25 of where it starts, the tail's integrand is left out
_LIMIT = 80.0  # of s: eˢ is finite in single precision
_CLOSER = 16  # of Newton's steps that look for its end: from _LIMIT, to any n below 10⁷
_TABLED = 40  # of δ(z) up to z = 20; beyond, four terms of a series leave 10⁻¹⁴
_PATH = 129  # nodes of the path integral of the weighted χ² tail
_REACH = 6.0  # the path goes sinh(6) = 200 widths of the saddle far


def bisected(
    holds: Callable[[jax.Array], jax.Array], low: jax.Array, high: jax.Array, halvings: Any
) -> tuple[jax.Array, jax.Array]:
    """The ends of a bracket on which `holds` turns from true to false, halved so many times.

    Args:
        holds: Takes values of the shape of the ends; true below some value of its own, then false.
        low: Lower ends, any shape.
        high: Upper ends, of the same shape.
        halvings: 40 and more leave neighbouring floats, or nearly so; traced or not.
    """

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        below = holds(middle)
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    return jax.lax.fori_loop(0, halvings, halve, (low, high))


def normal_law(statistic: jax.Array, error: jax.Array, level: Any) -> tuple[jax.Array, jax.Array]:
    """The one-sided p-value of a statistic with a standard error, and the threshold."""
    # If all terms are 0, nothing speaks against H0.
    pvalue = jnp.where((error == 0) & (statistic == 0), 1, ndtr(-statistic / error))
    limits = jnp.finfo(statistic.dtype)
    return jnp.maximum(pvalue, limits.tiny), -ndtri(jnp.asarray(level, statistic.dtype)) * error


def chi2_law(statistic: jax.Array, level: Any, k: int) -> tuple[jax.Array, jax.Array]:
    """The p-value of a χ²(k) statistic and the threshold of the level."""
    limits, level = jnp.finfo(statistic.dtype), jnp.asarray(level, statistic.dtype)

    def tail(value: jax.Array) -> jax.Array:
        return jnp.maximum(gammaincc(jnp.full_like(value, k / 2), value / 2), limits.tiny)

    # No quantile is beyond 2k − 3 log(level): the tail bound of Laurent & Massart 2000.
    ends = (jnp.zeros_like(level), 2 * k - 3 * jnp.log(level))
    threshold, _ = bisected(lambda value: tail(value) > level, *ends, limits.bits + 16)
    return tail(statistic), threshold


def f_law(
    statistic: jax.Array, level: Any, rank: Any, n: Any, *, features: int
) -> tuple[jax.Array, jax.Array]:
    """The p-value of Hotelling's T² and the threshold of the level, by F(r, n−r−1).

    F = (n−r−1) / ((n−2) r) · T², with r the rank of the data. With b = r/2 and a = (n−r−1)/2,
    s = log F has the density

        f(s) = exp(b s − (a+b) log(1 + (eˢ−1) b/(a+b)) + const),

    log-concave with its mode at 0. The tail is integrated by Gauss–Legendre from s to where f has
    died out. `betainc` takes the const from float32 logarithms of Γ, and is off by 1 % at
    n = 20,000, by 25 % at 10⁶; here what is large in them has cancelled on paper (`_log_f`).

    Args:
        statistic: T²; 0 if the rank is 0, and then p is 1.
        level: In (0, 1), traced or not.
        rank: r, a whole number of at most `features`, traced or not.
        n: Samples in all, traced or not; at least `features` + 2.
        features: d, the largest rank that can occur.
    """
    dtype = statistic.dtype
    law, full = (_log_f(r, n, dtype) for r in (jnp.maximum(rank, 1), features))
    ends = (jnp.asarray(-_LIMIT, dtype), jnp.asarray(_LIMIT, dtype))
    s = jnp.clip(jnp.log(statistic / law.unit), *ends)
    pvalue = jnp.maximum(_log_f_tail(law, s), jnp.finfo(dtype).tiny)  # never 0

    # The threshold of the full rank sees no data: under vmap all replicas share it. Only where a
    # feature has been dropped is there another one to find.
    quantile = bisected(lambda s: _log_f_tail(full, s) > level, *ends, 48)[1]
    halvings = jnp.where(rank < features, 48, 0)
    below = bisected(lambda s: _log_f_tail(law, s) > level, *ends, halvings)[1]
    return pvalue, law.unit * jnp.exp(jnp.where(halvings > 0, below, quantile))


def f_tail(statistic: jax.Array, rank: int, n: int) -> jax.Array:
    """P[T² ≥ statistic] of the same law, at any value."""
    law = _log_f(rank, n, statistic.dtype)
    s = jnp.clip(jnp.log(jnp.maximum(statistic, 0) / law.unit), -_LIMIT, _LIMIT)
    return _log_f_tail(law, s)


@record
class _LogF:
    """The law of s."""

    b: jax.Array
    total: jax.Array  # a + b
    share: jax.Array  # b / (a+b)
    rest: jax.Array  # a / (a+b)
    constant: jax.Array
    unit: jax.Array  # T² / F
    reach: jax.Array  # (2,) how far f reaches to the left of 0 and to the right until it dies out

    def slope(self, s: jax.Array) -> jax.Array:
        """(log f)'."""
        odds = self.share * jnp.exp(s)
        return self.b - self.total * odds / (self.rest + odds)

    def height(self, s: jax.Array) -> jax.Array:
        """log f, without the const: 0 at the mode."""
        return self.b * s - self.total * jnp.log1p(self.share * jnp.expm1(s))


def _log_f_tail(law: _LogF, s: jax.Array) -> jax.Array:
    """P(log F ≥ s)."""
    nodes, masses = (jnp.asarray(v, s.dtype) for v in np.polynomial.legendre.leggauss(_NODES))
    longest = jnp.where(s < 0, law.reach[0], law.reach[1])
    length = jnp.minimum(longest, _DROP / jnp.abs(law.slope(s)))  # beyond the mode it dies sooner
    away = length * (1 + nodes) / 2
    at = jnp.where(s < 0, s - away, s + away)
    integral = length * jnp.vdot(masses, jnp.exp(law.height(at) + law.constant)) / 2
    return jnp.where(s < 0, 1 - integral, integral)


def _log_f(rank: Any, n: Any, dtype: Any) -> _LogF:
    """The law of a rank r ≥ 1 at n points; both may be traced.

    const = a log(a/(a+b)) + b log(b/(a+b)) − log B(a, b), which by Stirling's formula
    log Γ(z) = (z − ½) log z − z + ½ log 2π + δ(z) is ½ log(ab / 2π(a+b)) + δ(a+b) − δ(a) − δ(b).
    """
    b, total = (jnp.asarray(whole, dtype) / 2 for whole in (rank, n - 1))
    a = total - b
    share = b / total
    deltas = (_stirling_rest(whole, dtype) for whole in (n - 1, n - 1 - rank, rank))
    constant = jnp.log(a * share / (2 * math.pi)) / 2 + reduce(jnp.subtract, deltas)
    unit = b * jnp.asarray(n - 2, dtype) / a
    law = _LogF(b, total, share, a / total, constant, unit, jnp.zeros(2, dtype))

    def closer(_: int, s: jax.Array) -> jax.Array:
        """Newton's step to where f has died out: log f is concave, so none goes too far in."""
        return s - (law.height(s) + _DROP) / law.slope(s)

    ends = jax.lax.fori_loop(0, _CLOSER, closer, jnp.asarray([-_LIMIT, _LIMIT], dtype))
    return dataclasses.replace(law, reach=jnp.abs(ends))


def _stirling_rest(twice: Any, dtype: Any) -> jax.Array:
    """δ(z) = log Γ(z) − (z − ½) log z + z − ½ log 2π of z = 1/2, 1, 3/2, …: tabled, then a series.

    Args:
        twice: 2z, a whole number, traced or not.
        dtype: Of the result.
    """
    small = np.arange(1, _TABLED + 1) / 2
    tabled = np.vectorize(math.lgamma)(small) - (small - 0.5) * np.log(small) + small
    table = jnp.asarray(tabled - math.log(2 * math.pi) / 2, dtype)
    z = jnp.asarray(twice, dtype) / 2
    square = 1 / z**2
    series = (1 / 12 - (1 / 360 - (1 / 1260 - square / 1680) * square) * square) / z
    return jnp.where(twice <= _TABLED, table[jnp.minimum(twice, _TABLED) - 1], series)


def weighted_tail(weights: jax.Array, value: Any) -> jax.Array:
    """P[Σ a_k χ²_1 > value] for weights a_k ≥ 0, not all 0; 1 for value ≤ 0.

    P[Q > q] = (1/2πi) ∫ exp(κ(s) − s q) ds/s,   κ(s) = −½ Σ_k log(1 − 2 a_k s),

    along a path of steep descent through the saddle point of the integrand on 0 < s < 1/(2 max a),
    where the trapezoidal rule converges geometrically. In float32 the relative error is below 1e-5
    for tails from 0.9 down to 1e-30, from a single weight to hundreds (tested).

    Args:
        weights: a_k, shape (k,).
        value: q, scalar.
    """
    largest = jnp.max(weights)
    a, q = weights / largest, jnp.asarray(value, weights.dtype) / largest
    positive = q > 0
    q = jnp.where(positive, q, 1.0)
    saddle = _saddle(a, q)
    pulls = a / (1 - 2 * a * saddle)
    width = jax.lax.rsqrt(2 * jnp.sum(pulls**2) + 1 / saddle**2)
    # s = saddle + width (iτ + bτ²): the path of steepest descent, to third order, has this b.
    bend = jnp.clip(width**3 * (8 * jnp.sum(pulls**3) - 2 / saddle**3) / 6, 0.02, 0.5)
    u = jnp.linspace(0, _REACH, _PATH, dtype=a.dtype)
    tau = jnp.sinh(u)
    s = jax.lax.complex(saddle + width * bend * tau**2, width * tau)
    a, q = a.astype(s.dtype), q.astype(s.dtype)
    exponent = -0.5 * jnp.sum(jnp.log(1 - 2 * a[:, None] * s), axis=0) - s * q - jnp.log(s)
    top = exponent[0].real
    slope = jax.lax.complex(jnp.cosh(u), -2 * bend * tau * jnp.cosh(u))  # ds/du over i·width
    integrand = (jnp.exp(exponent - top.astype(s.dtype)) * slope).real
    area = (jnp.sum(integrand) - (integrand[0] + integrand[-1]) / 2) * (u[1] - u[0])
    probability = jnp.exp(top) * width * area / jnp.pi
    tiny = jnp.finfo(weights.dtype).tiny
    return jnp.where(positive, jnp.clip(probability, tiny, 1.0), 1.0)


def _saddle(a: jax.Array, q: jax.Array) -> jax.Array:
    """Where κ'(s) − q − 1/s = 0, for weights of at most 1: by bisection, for it increases in s."""

    def below(s: jax.Array) -> jax.Array:
        return jnp.sum(a / (1 - 2 * a * s)) < q + 1 / s

    low, high = bisected(below, jnp.zeros_like(q), jnp.full_like(q, 0.5), 60)
    return jnp.minimum((low + high) / 2, 0.5 - 1e-6)


def weighted_quantile(weights: jax.Array, level: Any) -> jax.Array:
    """The value that Σ a_k χ²_1 exceeds with probability `level`, by bisection.

    Args:
        weights: a_k ≥ 0, not all 0, shape (k,).
        level: In (0, 1), traced or not.
    """
    level = jnp.asarray(level, weights.dtype)
    # With x = −log(level): P[Q > Σa + 2 √(x Σa²) + 2 x max a] ≤ level (Laurent & Massart 2000).
    x = -jnp.log(level)
    most = weights.sum() + 2 * jnp.sqrt(x * jnp.sum(weights**2)) + 2 * x * weights.max()
    exceeds = lambda value: weighted_tail(weights, value) > level  # noqa: E731
    low, high = bisected(exceeds, jnp.zeros_like(level), most, 40)
    return (low + high) / 2
