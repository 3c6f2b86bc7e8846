"""The law of Hotelling's T²: F = (n−r−1) / ((n−2) r) · T² ~ F(r, n−r−1), r the rank of the data.

The rank is data, and may be traced: what depends on it alone is tabled over r = 1, …, d.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
    tables = _tables(n, features)
    b, share, rest, constant, unit, left, right = (
        jnp.asarray(table, dtype)[jnp.maximum(rank, 1) - 1] for table in tables
    )
    total = (n - 1) / 2  # a + b
    nodes, masses = (jnp.asarray(v, dtype) for v in np.polynomial.legendre.leggauss(_NODES))

    def log_density(s: jax.Array) -> jax.Array:
        return b * s - total * jnp.log1p(share * jnp.expm1(s)) + constant

    def tail(s: jax.Array) -> jax.Array:
        odds = share * jnp.exp(s)
        slope = jnp.abs(total * odds / (rest + odds) - b)
        length = jnp.minimum(jnp.where(s < 0, left, right), _DROP / slope)
        away = length * (1 + nodes) / 2
        density = jnp.exp(log_density(jnp.where(s < 0, s - away, s + away)))
        integral = length * jnp.vdot(masses, density) / 2
        return jnp.where(s < 0, 1 - integral, integral)

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        middle = (low + high) / 2
        above = tail(middle) > level
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    s = jnp.log(statistic / unit)
    ends = (jnp.asarray(-_LIMIT, dtype), jnp.asarray(_LIMIT, dtype))
    quantile = jax.lax.fori_loop(0, 48, halve, ends)[1]
    pvalue = jnp.maximum(tail(jnp.clip(s, *ends)), jnp.finfo(dtype).tiny)  # never 0
    return pvalue, unit * jnp.exp(quantile)


def _tables(n: int, features: int) -> tuple[np.ndarray, ...]:
    """b, b/(a+b), a/(a+b), the const, T²/F and how far f reaches to the left and right of 0."""
    b = np.arange(1, features + 1) / 2
    a = (n - 1) / 2 - b
    share, rest = b / (a + b), a / (a + b)
    log_gamma = np.vectorize(math.lgamma)
    log_beta = log_gamma(a) + log_gamma(b) - math.lgamma((n - 1) / 2)
    constant = a * np.log1p(-share) + b * np.log(share) - log_beta

    def reach(side: int) -> np.ndarray:
        """How far from the mode f has died out; from beyond the mode it dies out sooner."""
        length = np.sqrt(1 / a + 1 / b)
        while True:
            s = side * length
            alive = b * s - (a + b) * np.log1p(share * np.expm1(s)) > -_DROP
            if not alive.any():
                return length
            length = np.where(alive, 1.2 * length, length)

    return b, share, rest, constant, b * (n - 2) / a, reach(-1), reach(1)
