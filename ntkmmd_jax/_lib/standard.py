"""Standardised coordinates: z → (z − m) / s, with m and s of the pooled sample.

    m = mean of z,   s² = mean of (z − m)²,   over x and y together: no label is seen.

Points (n, d) have an m and an s per coordinate. Points of higher rank (n, ..., c) have one per
channel, the last axis, over all others: per pixel, those that are nearly constant would be blown
up. Of rank 3 they are taken for images (n, h, w) without channels: one m and one s for all.

m and s are symmetric in the points but for rounding, and rounding must not follow the labels (see
`calibration`): they are computed from the points in random order. Under H0 the order in which the
points then stand is independent of their labels, and so are m and s as they are computed; given
them, the points are as exchangeable as before, so that the level of every exact test stays exact.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record

_NOISE = 4  # units of rounding: a coordinate that varies by no more is constant


@record
class Standard:
    """m and s; call it at points (n, ...)."""

    mean: jax.Array  # (d,), (c,) or ()
    scale: jax.Array  # likewise; inf of a coordinate that is constant, which becomes 0

    def __call__(self, points: jax.Array) -> jax.Array:
        """(z − m) / s, of the shape of the points."""
        return (points - self.mean) / self.scale


def standard_of(key: jax.Array, points: jax.Array, n: Any = None) -> Standard:
    """m and s of pooled points (n, ...); the key is for the order in which they are summed.

    Args:
        key: For that order.
        points: Points, or a bucket of them.
        n: How many of a bucket are real; all, by default.
    """
    n = len(points) if n is None else n
    placed = points[padding.random_order(jax.random.bits(key, (len(points),)), n)]
    axes = _summed(points.ndim)
    low, high = placed.min(axes), placed.max(axes)
    # Centred before anything is summed or squared: an offset of 1e4 leaves float32 three digits.
    middle = low / 2 + high / 2
    mean = middle + _mean(placed - middle, n, axes)
    centred = placed - mean
    noise = _NOISE * jnp.finfo(points.dtype).eps * jnp.maximum(jnp.abs(low), jnp.abs(high))
    constant = high - low <= noise
    unit = jnp.where(constant, 1.0, jnp.max(jnp.abs(centred), axes))  # its squares are in range
    scale = unit * jnp.sqrt(_mean((centred / unit) ** 2, n, axes))
    return Standard(mean, jnp.where(constant, jnp.inf, scale))


def standard_on_host(placed: np.ndarray) -> Standard:
    """m and s of points in random order, too many for one device: in float64, by numpy."""
    axes = _summed(placed.ndim)
    mean, scale = (np.asarray(of(placed, axes, dtype=np.float64)) for of in (np.mean, np.std))
    low, high = placed.min(axes), placed.max(axes)
    noise = _NOISE * np.finfo(placed.dtype).eps * np.maximum(np.abs(low), np.abs(high))
    scale = np.where(high - low <= noise, np.inf, scale)
    return Standard(jnp.asarray(mean, placed.dtype), jnp.asarray(scale, placed.dtype))


def _mean(values: jax.Array, n: Any, axes: tuple[int, ...]) -> jax.Array:
    """The mean over axes, the first of which may be padded."""
    if padding.is_full(len(values), n):
        return jnp.mean(values, axes)
    return padding.mean(jnp.mean(values, axes[1:]), n)


def blank_standard(points: Any) -> Standard:
    """A standard of the shapes that it has for points like these (n, ...)."""
    return jax.eval_shape(standard_of, jax.random.key(0), points)


def _summed(rank: int) -> tuple[int, ...]:
    """The axes over which points of a rank have one mean and one scale."""
    if rank == 2:
        return (0,)
    return tuple(range(rank if rank == 3 else rank - 1))
