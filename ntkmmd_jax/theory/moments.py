"""What the theorems (Cheng & Xie 2021) ask of a kernel, estimated from samples in linear memory.

    ν_pp = E K(x, x')²,   ν_pq = E K(x, y)²,   ν_qq = E K(y, y')²,
    δ_K = E K(x, x') + E K(y, y') − 2 E K(x, y),

for the kernel divided by its largest K(z, z), so that sup K ≤ 1. All are U-statistics: unbiased,
with the standard errors of their projections.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from ntkmmd_jax._lib.points import as_samples, check_finite
from ntkmmd_jax._lib.records import record
from ntkmmd_jax._lib.tiles import even_size, tile_by_tile, tiled
from ntkmmd_jax.kernels import empirical_ntk
from ntkmmd_jax.networks import Params

_TILE = 1024

Kernel = Callable[[jax.Array, jax.Array], jax.Array]  # (n1, ...), (n2, ...) -> (n1, n2)


@record
class Estimate:
    """An unbiased estimate and its standard error."""

    value: jax.Array  # the estimate
    error: jax.Array  # its standard error

    def __repr__(self) -> str:
        return f"{float(self.value):.4g} ± {float(self.error):.2g}"


@record
class KernelMoments:
    """ν and δ_K of a kernel normalised to sup K ≤ 1."""

    scale: jax.Array  # the largest K(z, z) of the samples, by which K was divided
    nu_pp: Estimate  # of E K(x, x')²
    nu_pq: Estimate  # of E K(x, y)²
    nu_qq: Estimate  # of E K(y, y')²
    delta: Estimate  # under p = q its true error is smaller than stated: the projection vanishes

    def bound(self, errors: float = 2.0) -> jax.Array:
        """ν: the largest of the three, each raised by some standard errors; at most 1."""
        three = (self.nu_pp, self.nu_pq, self.nu_qq)
        return jnp.minimum(jnp.max(jnp.stack([m.value + errors * m.error for m in three])), 1.0)


def ntk(network: Any, params: Params) -> Kernel:
    """The neural tangent kernel of a network at θ0, as a function of two samples.

    Args:
        network: A network of ours, a flax module, or an `(init, apply)` pair.
        params: θ0, as `network.init` draws it.

    Example:
        >>> from ntkmmd_jax.networks import mlp
        >>> network, x = mlp(8), jnp.ones((4, 2))
        >>> ntk(network, network.init(jax.random.key(0), x))(x, x[:3]).shape
        (4, 3)
    """
    return partial(empirical_ntk, network, params)


def kernel_moments(kernel: Kernel, x: Any, y: Any) -> KernelMoments:
    """Estimate ν_pp, ν_pq, ν_qq and δ_K of a kernel; quadratic time, linear memory.

    Args:
        kernel: Maps points (n1, ...) and (n2, ...) to (n1, n2); `ntk(network, params)` is one.
        x: Sample of p, array-like.
        y: Sample of q, with the same features.
    """
    x, y = as_samples(x, y)
    for name, sample in (("x", x), ("y", y)):
        if not isinstance(sample, Tracer):
            check_finite(sample, name)
    n_x, n_y = len(x), len(y)
    diagonal_x, diagonal_y = (_diagonal(kernel, sample) for sample in (x, y))
    scale = jnp.maximum(diagonal_x.max(), diagonal_y.max())

    def normalised(a: jax.Array, b: jax.Array) -> jax.Array:
        return kernel(a, b) / scale

    # Means of K and K² over the other sample, or over the others of the same one, shape (2, n).
    xx, xy, yx, yy = (_row_sums(normalised, a, b) for a in (x, y) for b in (x, y))
    xx = (xx - _powers(diagonal_x / scale)) / (n_x - 1)
    yy = (yy - _powers(diagonal_y / scale)) / (n_y - 1)
    xy, yx = xy / n_y, yx / n_x
    gap_x, gap_y = xx[0] - xy[0], yx[0] - yy[0]
    return KernelMoments(
        scale,
        Estimate(xx[1].mean(), 2 * _standard_error(xx[1])),
        Estimate(xy[1].mean(), jnp.hypot(_standard_error(xy[1]), _standard_error(yx[1]))),
        Estimate(yy[1].mean(), 2 * _standard_error(yy[1])),
        Estimate(
            gap_x.mean() - gap_y.mean(),
            2 * jnp.hypot(_standard_error(gap_x), _standard_error(gap_y)),
        ),
    )


def _standard_error(values: jax.Array) -> jax.Array:
    return jnp.std(values, ddof=1) / math.sqrt(len(values))


def _powers(values: jax.Array) -> jax.Array:
    return jnp.stack([values, values**2])


def _tiles(points: jax.Array) -> jax.Array:
    return tiled(points, even_size(len(points), _TILE))


def _diagonal(kernel: Kernel, points: jax.Array) -> jax.Array:
    size = even_size(len(points), _TILE)
    return tile_by_tile(lambda tile: jnp.diagonal(kernel(tile, tile)), points, size)


def _row_sums(kernel: Kernel, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Σ_j K(z_i, z'_j) and Σ_j K(z_i, z'_j)², shape (2, n), a tile of K at a time."""
    tiles = _tiles(columns)
    real = (jnp.arange(tiles.shape[0] * tiles.shape[1]) < len(columns)).reshape(tiles.shape[:2])

    def row_tile(rows: jax.Array) -> jax.Array:
        def add_tile(sums: jax.Array, column: tuple) -> tuple[jax.Array, None]:
            points, counts = column
            k = jnp.where(counts, kernel(rows, points), 0)
            return sums + jnp.stack([k.sum(1), (k**2).sum(1)]), None

        zero = jnp.zeros((2, len(rows)), rows.dtype)
        return jax.lax.scan(add_tile, zero, (tiles, real))[0]

    sums = jax.lax.map(row_tile, _tiles(rows))  # (k, 2, size)
    return jnp.moveaxis(sums, 1, 0).reshape(2, -1)[:, : len(rows)]
