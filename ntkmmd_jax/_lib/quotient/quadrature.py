"""Derivatives of a smooth function, averaged along a segment by Gauss–Legendre nodes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def gauss_legendre(nodes: int) -> list[tuple[float, float]]:
    """Positions and masses of the quadrature rule on [0, 1]."""
    positions, masses = np.polynomial.legendre.leggauss(nodes)
    return list(zip((0.5 * (1 + positions)).tolist(), (0.5 * masses).tolist(), strict=True))


def displaced(theta: Any, velocity: Any, time: Any) -> Any:
    """θ + t v."""
    return jax.tree.map(lambda leaf, v: leaf + time * v, theta, velocity)


def mean_slope(function: Callable, at: Any, direction: Any, time: Any, nodes: int = 3) -> Any:
    """∫_0^1 ∂_v f(at + s t v) ds, which is (f(at + t v) − f(at)) / t."""
    total = None
    for s, mass in gauss_legendre(nodes):
        start = displaced(at, direction, s * time)
        slope = jax.jvp(function, (start,), (direction,))[1]
        total = jax.tree.map(jnp.zeros_like, slope) if total is None else total
        total = displaced(total, slope, mass)
    return total


def bend(function: Callable, at: Any, direction: Any, time: Any, nodes: int = 3) -> Any:
    """t ∫_0^1 (1 − s) ∂²_v f(at + s t v) ds: by how much the mean slope exceeds ∂_v f(at)."""

    def slope(at: Any) -> Any:
        return jax.jvp(function, (at,), (direction,))[1]

    total = None
    for s, mass in gauss_legendre(nodes):
        start = displaced(at, direction, s * time)
        second = jax.jvp(slope, (start,), (direction,))[1]
        total = jax.tree.map(jnp.zeros_like, second) if total is None else total
        total = displaced(total, second, mass * (1 - s))
    return jax.tree.map(lambda leaf: time * leaf, total)
