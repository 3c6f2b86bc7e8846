"""The asymptotic null law of the symmetric statistic: a weighted sum of χ² variables.

Under H0, T̂_NTK ≈ Σ_k a_k χ²_1 with a_k = (1/n_X + 1/n_Y) λ̃_k, where λ̃_k are the eigenvalues of
the centred kernel in L²(p), estimated by those of HKH/n on the pooled sample. Its tail is

    P[Q > q] = (1/2πi) ∫ exp(κ(s) − s q) ds/s,   κ(s) = −½ Σ_k log(1 − 2 a_k s),

along a path of steep descent through the saddle point of the integrand on 0 < s < 1/(2 max a),
where the trapezoidal rule converges geometrically. In float32 the relative error is below 1e-5 for
tails from 0.9 down to 1e-30, from a single weight to hundreds (tested).
"""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax.calibration import centred

_NODES = 129
_REACH = 6.0  # the path goes sinh(6) = 200 widths of the saddle far
_HALVINGS = 60


def asymptotic_weights(kernel: jax.Array, n_x: int, n_y: int) -> jax.Array:
    """The a_k, ascending, from the kernel matrix of the pooled sample; shape (n,)."""
    eigenvalues = jnp.linalg.eigvalsh(centred(kernel)) / (n_x + n_y)
    return (1 / n_x + 1 / n_y) * jnp.maximum(eigenvalues, 0)


def tail(weights: jax.Array, value: Any) -> jax.Array:
    """P[Σ a_k χ²_1 > value] for weights a_k ≥ 0, not all 0; 1 for value ≤ 0."""
    largest = jnp.max(weights)
    a, q = weights / largest, jnp.asarray(value, weights.dtype) / largest
    positive = q > 0
    q = jnp.where(positive, q, 1.0)
    saddle = _saddle(a, q)
    pulls = a / (1 - 2 * a * saddle)
    width = jax.lax.rsqrt(2 * jnp.sum(pulls**2) + 1 / saddle**2)
    # s = saddle + width (iτ + bτ²): the path of steepest descent, to third order, has this b.
    bend = jnp.clip(width**3 * (8 * jnp.sum(pulls**3) - 2 / saddle**3) / 6, 0.02, 0.5)
    u = jnp.linspace(0, _REACH, _NODES, dtype=a.dtype)
    tau = jnp.sinh(u)
    s = jax.lax.complex(saddle + width * bend * tau**2, width * tau)
    exponent = -0.5 * jnp.sum(jnp.log(1 - 2 * a[:, None] * s), axis=0) - s * q - jnp.log(s)
    top = exponent[0].real
    slope = jax.lax.complex(jnp.cosh(u), -2 * bend * tau * jnp.cosh(u))  # ds/du over i·width
    integrand = (jnp.exp(exponent - top) * slope).real
    area = (jnp.sum(integrand) - (integrand[0] + integrand[-1]) / 2) * (u[1] - u[0])
    probability = jnp.exp(top) * width * area / jnp.pi
    tiny = jnp.finfo(a.dtype).tiny
    return jnp.where(positive, jnp.clip(probability, tiny, 1.0), 1.0)


def _saddle(a: jax.Array, q: jax.Array) -> jax.Array:
    """Where κ'(s) − q − 1/s = 0, for weights of at most 1: by bisection, for it increases in s."""

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        middle = sum(ends) / 2
        below = jnp.sum(a / (1 - 2 * a * middle)) < q + 1 / middle
        return jnp.where(below, middle, ends[0]), jnp.where(below, ends[1], middle)

    ends = (jnp.zeros_like(q), jnp.full_like(q, 0.5))
    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, ends)
    return jnp.minimum((low + high) / 2, 0.5 - 1e-6)


def quantile(weights: jax.Array, level: Any) -> jax.Array:
    """The value that Σ a_k χ²_1 exceeds with probability `level`, by bisection."""
    level = jnp.asarray(level, weights.dtype)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        middle = sum(ends) / 2
        above = tail(weights, middle) > level
        return jnp.where(above, middle, ends[0]), jnp.where(above, ends[1], middle)

    # With x = −log(level): P[Q > Σa + 2 √(x Σa²) + 2 x max a] ≤ level (Laurent & Massart 2000).
    x = -jnp.log(level)
    most = weights.sum() + 2 * jnp.sqrt(x * jnp.sum(weights**2)) + 2 * x * weights.max()
    low, high = jax.lax.fori_loop(0, 40, halve, (jnp.zeros_like(level), most))
    return (low + high) / 2
