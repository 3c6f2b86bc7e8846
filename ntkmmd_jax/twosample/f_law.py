"""The law of Hotelling's T²: F = (n−r−1) / ((n−2) r) · T² ~ F(r, n−r−1), r the rank of the data.

The rank is data, and may be traced: what depends on it alone is tabled over r = 1, …, d.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.records import record, static

_NODES = 64  # of the quadrature of the F tail
_DROP = 25.0  # beyond e^−25 of where it starts, the tail's integrand is left out
_LIMIT = 80.0  # of s: eˢ is finite in single precision


def f_law(
    statistic: jax.Array, level: Any, rank: Any, n: int, *, features: int
) -> tuple[jax.Array, jax.Array]:
    """The p-value of T² and the threshold of the level, by F(r, n−r−1).

    With b = r/2 and a = (n−r−1)/2, F = (a/b) T²/(n−2), and s = log F has the density

        f(s) = exp(b s − (a+b) log(1 + (eˢ−1) b/(a+b)) + const),

    log-concave with its mode at 0. The tail is integrated by Gauss–Legendre from s to where f has
    died out. The const is summed in double precision beforehand: `betainc` takes it from float32
    logarithms of Γ and is off by 1 % at n = 20,000, by 25 % at 10⁶.

    Args:
        statistic: T²; 0 if the rank is 0, and then p is 1.
        level: In (0, 1), traced or not.
        rank: r, a whole number of at most `features`, traced or not.
        n: Samples in all; at least `features` + 2.
        features: d, the largest rank that can occur.
    """
    dtype = statistic.dtype
    tables = [jnp.asarray(table, dtype) for table in _tables(n, features)]
    here = jnp.maximum(rank, 1) - 1
    ends = (jnp.asarray(-_LIMIT, dtype), jnp.asarray(_LIMIT, dtype))
    law = _Law(*(table[here] for table in tables), total=(n - 1) / 2)
    s = jnp.clip(jnp.log(statistic / law.unit), *ends)
    pvalue = jnp.maximum(_tail(law, s), jnp.finfo(dtype).tiny)  # never 0

    # The thresholds of all ranks: they see no data, and under vmap all replicas share them.
    laws = _Law(*tables, total=(n - 1) / 2)

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        middle = (low + high) / 2
        above = jax.vmap(_tail)(laws, middle) > level
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    start = [jnp.full(features, end) for end in ends]
    quantiles = jax.lax.fori_loop(0, 48, halve, tuple(start))[1]
    return pvalue, (laws.unit * jnp.exp(quantiles))[here]


@record
class _Law:
    """The law of s for one rank, or, with a leading axis, for many."""

    b: jax.Array
    share: jax.Array  # b / (a+b)
    rest: jax.Array  # a / (a+b)
    constant: jax.Array
    unit: jax.Array  # T² / F
    left: jax.Array  # how far f reaches from 0 before it has died out
    right: jax.Array  # likewise; from beyond the mode it dies out sooner
    total: float = static()  # a + b


def _tail(law: _Law, s: jax.Array) -> jax.Array:
    """P(log F ≥ s)."""
    nodes, masses = (jnp.asarray(v, s.dtype) for v in np.polynomial.legendre.leggauss(_NODES))
    odds = law.share * jnp.exp(s)
    slope = jnp.abs(law.total * odds / (law.rest + odds) - law.b)
    length = jnp.minimum(jnp.where(s < 0, law.left, law.right), _DROP / slope)
    away = length * (1 + nodes) / 2
    at = jnp.where(s < 0, s - away, s + away)
    density = jnp.exp(law.b * at - law.total * jnp.log1p(law.share * jnp.expm1(at)) + law.constant)
    integral = length * jnp.vdot(masses, density) / 2
    return jnp.where(s < 0, 1 - integral, integral)


def _tables(n: int, features: int) -> tuple[np.ndarray, ...]:
    """The fields of `_Law` for r = 1, …, d, in double precision."""
    b = np.arange(1, features + 1) / 2
    a = (n - 1) / 2 - b
    share, rest = b / (a + b), a / (a + b)
    log_gamma = np.vectorize(math.lgamma)
    log_beta = log_gamma(a) + log_gamma(b) - math.lgamma((n - 1) / 2)
    constant = a * np.log1p(-share) + b * np.log(share) - log_beta

    def reach(side: int) -> np.ndarray:
        length = np.sqrt(1 / a + 1 / b)
        while True:
            s = side * length
            alive = b * s - (a + b) * np.log1p(share * np.expm1(s)) > -_DROP
            if not alive.any():
                return length
            length = np.where(alive, 1.2 * length, length)

    return b, share, rest, constant, b * (n - 2) / a, reach(-1), reach(1)
