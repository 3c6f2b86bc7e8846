"""Features of points, filtered by training time.

A network f(x; a) = Σ_l a_l h_l(x) of which the readout a is trained has the tangent kernel
h(x)·h(x'). With C the covariance of h over the sample, λ_l its eigenvalues and, in its eigenbasis,
v_l = Σ w_i h_l(z_i), the squared MMD is Σ v_l². Least-squares training for time t filters it,

    T(t) = Σ_l Φ(t λ_l) v_l² = vᵀ Φ(tC) v,   Φ(x) = (1 − exp(−x)) / x,

of which T_NTK is the limit t → 0; as t grows, what is rare in the kernel counts as much as what is
common (Hotelling's T² in feature space, in the end). Times are in units of 1/λ_1, and so free of
the scale of the features.

Φ(tC) comes by doubling t, in matrix products alone: with D(x) = 1 − exp(−x),

    D(2x) = D(x) (2 − D(x)),   Φ(2x) = Φ(x) (1 − D(x)/2),

where small eigenvalues keep their digits. Times that are powers of 2 apart share the doublings. A
library's eigenvalues would be as good, but on a busy CPU they take anything between 2 ms and a
second, on several devices they can hang, and on accelerators they are slow.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tiles import tile_by_tile

_TILE = 4096  # points whose features are taken at once
_START = 2.0**-3  # t λ_1 up to which Φ is its series
_ROUNDING = 5e-7  # of eigenvalues in float32, as a share of λ_1: they are raised by that
LONGEST = 2.0**20  # where T(t) has two digits that are not rounding; beyond, fewer


@record
class Filtered:
    """h(z), centred over the sample, and the filters Φ(tC) of some times."""

    units: Any  # points -> (n, m), a pytree
    mean: jax.Array  # (m,) taken off
    covariance: jax.Array  # (m, m) C
    filters: jax.Array  # (times > 0, m, m) Φ(tC)
    times: tuple[float, ...] = static()  # t ≥ 0, in units of 1/λ_1

    def __call__(self, points: jax.Array) -> jax.Array:
        """h(z) − mean, shape (n, m)."""
        return tile_by_tile(lambda block: self.units(block) - self.mean, points, _TILE)

    def filtered(self, vectors: jax.Array) -> jax.Array:
        """Φ(tC) v of rows (..., m) for every time, shape (times, ..., m)."""
        filters = iter(self.filters)
        return jnp.stack([vectors @ next(filters) if t else vectors for t in self.times])

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """Σ_l a_l and Σ_l a_l², a_l = Φ(tλ_l) λ_l the weights of the χ² law of T(t): (times,)."""
        weights = self.filtered(self.covariance)
        return jnp.trace(weights, axis1=1, axis2=2), jnp.sum(weights * weights.mT, axis=(1, 2))


def fit_filters(units: Any, points: jax.Array, times: tuple[float, ...], n: Any = None) -> Filtered:
    """Features, centred and filtered over points.

    Args:
        units: h, a pytree that maps points (n, ...) to (n, m).
        points: What they are centred and filtered over, shape (n, ...).
        times: t ≥ 0, in units of 1/λ_1.
        n: How many of the points are real; all, by default.
    """
    ascending = sorted({t for t in times if t})
    mean, covariance, filters = fit_doubled(units, points, doublings(ascending), n)
    given = [ascending.index(t) for t in times if t]
    if given != list(range(len(ascending))):
        filters = filters[np.asarray(given, int)]
    return Filtered(units, mean, covariance, filters, times=times)


def fit_doubled(
    units: Any, points: jax.Array, schedule: tuple[Any, Any], n: Any = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The mean of features, their covariance C and Φ(tC) for the times of a schedule.

    Args:
        units: As of `fit_filters`.
        points: Likewise.
        schedule: As `doublings` has it; may be traced.
        n: How many of the points are real; all, by default.
    """
    n = len(points) if n is None else n
    features = tile_by_tile(units, points, _TILE)
    mean = padding.mean(features, n)
    centred = padding.cleared(features - mean, n)
    covariance = centred.T @ centred / jnp.asarray(n, mean.dtype)
    largest = jnp.maximum(largest_eigenvalue(covariance), jnp.finfo(mean.dtype).tiny)
    return mean, covariance, _filters(covariance / largest, *schedule)


def doublings(times: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """How Φ comes from each of ascending times to the next.

    Returns:
        Where to begin the series, 0 to go on from the time before; and how often to double then.
    """
    starts, counts, now = [], [], math.nan
    for time in times:
        count = math.log2(time / now)  # NaN at first
        start = 0.0
        if not (math.isfinite(count) and count == round(count)):
            count = max(0, math.ceil(math.log2(time / _START)))
            start = 2.0**-count * time
        starts.append(start)
        counts.append(round(count))
        now = time
    return np.asarray(starts, float), np.asarray(counts, np.int32)


def largest_eigenvalue(matrix: jax.Array) -> jax.Array:
    """λ_1 of a matrix ≥ 0, by powers."""
    start = matrix[jnp.argmax(jnp.diagonal(matrix))]

    def power(_: int, v: jax.Array) -> jax.Array:
        v = matrix @ v
        return v / jnp.maximum(jnp.linalg.norm(v), jnp.finfo(v.dtype).tiny)

    return jnp.linalg.norm(matrix @ jax.lax.fori_loop(0, 30, power, start))


def filter_at(matrix: jax.Array, time: Any) -> jax.Array:
    """Φ(tA) of a matrix A ≥ 0, (n, n), at one time, which may be traced and is not in units."""
    one = jnp.eye(len(matrix), dtype=matrix.dtype)
    length = time * largest_eigenvalue(matrix) / _START
    doublings = jnp.maximum(jnp.ceil(jnp.log2(length)), 0) + 2  # more: the series' error is 1e-6
    both = _series(time * 2.0**-doublings * matrix, one)
    filtered = jax.lax.fori_loop(0, doublings.astype(int), _double, both)[1]
    return (filtered + filtered.T) / 2


def _filters(relative: jax.Array, starts: Any, counts: Any) -> jax.Array:
    """Φ(tC) for the times of a schedule, of a covariance with largest eigenvalue 1.

    One body for all of them, whatever their number: a program is compiled for longer than it runs.
    """
    one = jnp.eye(len(relative), dtype=relative.dtype)
    raised = relative + _ROUNDING * one

    def reach(both: tuple[jax.Array, jax.Array], step: tuple) -> tuple[tuple, jax.Array]:
        start, count = step
        both = jax.lax.cond(start > 0, lambda: _series(start * raised, one), lambda: both)
        both = jax.lax.fori_loop(0, count, _double, both)
        return both, (both[1] + both[1].T) / 2

    steps = (jnp.asarray(starts, relative.dtype), jnp.asarray(counts))
    return jax.lax.scan(reach, (one, one), steps)[1]


def _series(x: jax.Array, one: jax.Array) -> tuple[jax.Array, jax.Array]:
    """D(x) and Φ(x) of a small x."""
    square = x @ x
    cube = square @ x
    return x - square / 2 + cube / 6, one - x / 2 + square / 6 - cube / 24


def _double(_: int, both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    d, phi = both
    return 2 * d - d @ d, phi - phi @ d / 2
