"""Thresholds of charts of any other test: T between parts of the reference, made of blocks.

T goes with the sizes of both as it does under H0. What blocks cut of the memory of a series is made
up for by the ratio of V's of a Gaussian kernel with and without the cut (`dependence`).
"""

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax.changepoint.by_rows import world_of
from ntkmmd_jax.changepoint.chart import Chart
from ntkmmd_jax.changepoint.dependence import Dependence
from ntkmmd_jax.changepoint.law import Moments, World
from ntkmmd_jax.changepoint.rows import GaussianRows
from ntkmmd_jax.changepoint.threshold import (
    NEARBY,
    Threshold,
    by_streams,
    horizon_of,
    look_counts,
    trusted,
)
from ntkmmd_jax.kernels import median_bandwidth
from ntkmmd_jax.twosample.pilot import AT_ONCE

_MEDIAN = 1000  # frames of the median distance


def of_test(
    key: jax.Array,
    chart: Chart,
    reference: jax.Array,
    *,
    window: int,
    stride: int,
    level: float,
    arl: float | None,
    draws: int,
    block: int | None,
    size: int,
    drift: float | None,
) -> tuple[Threshold, jax.Array]:
    """The threshold of a chart with a reference of `size` frames in use.

    With a drift it is that of the CUSUM; the standard deviation of η comes with it.
    """
    world, growth = _world(reference, window, block)
    keys, unit = jax.random.split(key, draws), jnp.ones((), reference.dtype)
    centre, order = chart.test.null_centre, chart.test.null_order
    about = {"moments": Moments(jnp.zeros(window), jnp.ones(window)), "order": order or 1.0}
    about |= {"centre": centre, "world": world}
    if arl is None and drift is None:
        options = {"window": window, "size": size}
        values, scales = _pairs(keys, chart, reference, world, growth, **options)
        at = [calibration.threshold(values, p) for p in (level, NEARBY * level)]
        return trusted(jnp.stack(at), scales, **about), unit
    looks = look_counts(horizon_of(window, stride, arl), window, stride)
    options = {"window": window, "size": size, "looks": tuple(looks.tolist())}
    values, scales = _streams(keys, chart, reference, world, growth, **options)
    if drift is not None:
        unit = jnp.std(values)
        values = cusum(values / unit - drift)
    pair, ratio = by_streams(np.asarray(values), looks, window, level, arl)
    return trusted(jnp.asarray(pair, values.dtype), scales, ratio=ratio, **about), unit


@jit(static_argnames="window")
def _world(reference: jax.Array, window: int, block: int | None) -> tuple[World, jax.Array]:
    """The world of a Gaussian kernel, and V of a window over what blocks leave of it."""
    rows = GaussianRows(median_bandwidth(reference[:_MEDIAN]).reshape(1))
    world = world_of(rows, reference, window, block)
    covariances = world.remembers.covariances
    lag = jnp.arange(len(covariances), dtype=covariances.dtype)
    cut = jnp.maximum(1 - lag / world.block.astype(lag.dtype), 0)
    left = Dependence(covariances * cut, world.remembers.order)
    return world, world.remembers.mean(window) / left.mean(window)


def cusum(gains: jax.Array) -> jax.Array:
    """W_t = max(0, W_{t−1} + gain_t) along the last axis."""
    total = jnp.cumsum(gains, axis=-1)
    return total - jnp.minimum(jax.lax.cummin(total, axis=total.ndim - 1), 0)


def thinned(reference: jax.Array, size: int) -> jax.Array:
    """So many frames of it, evenly spaced."""
    return reference[np.arange(size) * len(reference) // size]


def _parts(key: jax.Array, world: World, n: int, most: int) -> tuple[jax.Array, jax.Array]:
    """Frames of the first so many places of shuffled blocks, and all others in their order."""
    k_shift, k_order = jax.random.split(key)
    at = (jnp.arange(n) + jax.random.randint(k_shift, (), 0, n)) % n
    order = jnp.argsort(jax.random.uniform(k_order, (n,))[at // world.block], stable=True)
    return order[:most], jnp.sort(order[most:])


def _rescaled(
    chart: Chart, values: jax.Array, sizes: float, variance: jax.Array | float
) -> jax.Array:
    """T as it would be at other sizes, and with so many times the variance of a window's mean."""
    centre, order = chart.test.null_centre, chart.test.null_order
    return centre + (values - centre) * sizes**order * variance ** (order or 1)


@jit(static_argnames=("window", "size"))
def _pairs(
    keys: jax.Array, chart: Chart, reference: jax.Array, world: World, growth: jax.Array,
    *, window: int, size: int,
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """T between a window and a reference of disjoint blocks, and the scales f."""
    n = len(reference)
    small = min(window, n // 2)
    other = min(size, n - small)
    sizes = (1 / window + 1 / size) / (1 / small + 1 / other)

    def draw(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        k_parts, k_scale, k_look = jax.random.split(key, 3)
        picked, rest = _parts(k_parts, world, n, small)
        _, scale = world.reference(jax.random.uniform(k_scale, (len(world.gram),)))
        value = chart(k_look, reference[thinned(rest, other)], reference[picked])
        return _rescaled(chart, value, sizes, growth / scale), scale

    return jax.lax.map(draw, keys, batch_size=AT_ONCE)


@jit(static_argnames=("window", "size", "looks"))
def _streams(
    keys: jax.Array, chart: Chart, reference: jax.Array, world: World, growth: jax.Array,
    *, window: int, size: int, looks: tuple[int, ...],
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """T at the looks of a stream of blocks of one half, against the other half."""
    n, horizon = len(reference), looks[-1]
    other = min(size, n - n // 2)
    sizes = (1 / window + 1 / size) / (1 / window + 1 / other)

    def run(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        k_parts, k_stream, k_scale, k_looks = jax.random.split(key, 4)
        half, rest = _parts(k_parts, world, n, n // 2)
        at = jnp.arange(horizon)
        starts = jax.random.randint(k_stream, (horizon,), 0, n // 2)[at // world.block]
        frames = reference[half[(starts + at % world.block) % (n // 2)]]
        kept = reference[thinned(rest, other)]
        _, scale = world.reference(jax.random.uniform(k_scale, (len(world.gram),)))

        def look(count: jax.Array) -> jax.Array:
            seen = jax.lax.dynamic_slice_in_dim(frames, count - window, window)
            return chart(jax.random.fold_in(k_looks, count), kept, seen)

        values = jax.lax.map(look, jnp.asarray(looks), batch_size=AT_ONCE)
        return _rescaled(chart, values, sizes, growth / scale), scale

    return jax.lax.map(run, keys)
