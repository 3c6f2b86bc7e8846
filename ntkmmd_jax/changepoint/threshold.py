"""Thresholds from the reference: how large T is when nothing has changed.

*Per look*: the value that a single look exceeds with probability `level`. *For an average run
length*: looks overlap and share their reference, so that their alarms come in clusters and a level
per look says little; whole streams are watched until a quarter of the wanted length, and the
threshold is the least for which they run so long (`runs`).

Charts with rows of a kernel have the law of `law`. Of any other test, T itself is computed between
disjoint parts of the reference, made of blocks, and goes with their sizes as it does under H0; what
blocks cut of the memory is made up for by the ratio of V's of a Gaussian kernel.

With f, the scale that a reference of this length estimates, the threshold is uncertain by the
spread of log f, and the rate of false alarms by h times that, if it falls as threshold^−h.
"""

import dataclasses
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.changepoint.chart import Chart
from ntkmmd_jax.changepoint.dependence import Dependence
from ntkmmd_jax.changepoint.law import Moments, World, stream_draws, window_draws
from ntkmmd_jax.changepoint.rows import GaussianRows, Rows
from ntkmmd_jax.changepoint.runs import first_alarms, threshold_for
from ntkmmd_jax.kernels import median_bandwidth
from ntkmmd_jax.twosample.pilot import AT_ONCE

_MOST = 3000  # frames of a reference that are resampled: the middle ones of a longer one
_DOUBT = 0.45  # of the logarithm of the rate of false alarms, from which on it is told
_NEARBY = 3.0  # ratio of the rates between which h is found


@record
class Threshold:
    """A threshold, and how far it can be trusted."""

    value: jax.Array  # () in units of the chart's statistic
    interval: jax.Array  # (2,) where it may lie, 95 %
    moments: Moments  # of T_1, …, T_window
    doubt: jax.Array  # () standard error of the logarithm of the rate of false alarms
    memory: jax.Array  # () frames that say as much as one independent frame


def look_counts(length: int, first: int, stride: int) -> np.ndarray:
    """How many frames have been seen at each look: every `stride`, from `first` on."""
    return np.arange(-(-first // stride) * stride, length + 1, stride)


def given(value: float, window: int) -> Threshold:
    """A threshold as it was given."""
    plain = Moments(jnp.zeros(window), jnp.ones(window))
    value = jnp.asarray(value, jnp.result_type(float))
    return Threshold(value, jnp.stack([value, value]), plain, jnp.zeros(()), jnp.ones(()))


def world_of(rows: Rows, reference: jax.Array, window: int) -> World:
    """The law of T by a standardised reference."""
    start = max(0, len(reference) - _MOST) // 2
    return World.of(rows.gram(reference[start : start + _MOST]), len(reference), window)


_world = jax.jit(world_of, static_argnames="window")


def of_rows(
    key: jax.Array,
    rows: Rows,
    reference: jax.Array,
    *,
    window: int,
    shortest: int | None,
    stride: int,
    level: float,
    arl: float | None,
    draws: int,
    fixed: float | None,
) -> Threshold:
    """The threshold of a chart with rows of a kernel, for z if there is a shortest window."""
    world = _world(rows, reference, window)
    if fixed is not None:
        return dataclasses.replace(given(fixed, window), moments=world.moments)
    first = window if shortest is None else shortest
    if arl is None and shortest is None:
        z, scales = window_draws(key, world, window=window, draws=draws)
        at = [float(calibration.threshold(z, p)) for p in (level, _NEARBY * level)]
        ratio = _NEARBY
    else:
        horizon = stride * math.ceil(max(4 * window, (arl or 0) / 4) / stride)
        looks = look_counts(horizon, first, stride)
        options = {"window": window, "shortest": first, "horizon": horizon, "draws": draws}
        z, scales = stream_draws(key, world, **options)
        z = np.asarray(z)[:, looks - 1]
        at, ratio = _of_streams(z, looks, window, level, arl)
    moments = world.moments
    mean, spread = float(moments.mean[-1]), float(moments.spread[-1])
    large, small = mean + at[0] * spread, mean + at[1] * spread
    error = float(jnp.std(jnp.log(scales)))
    doubt = error * math.log(ratio) / max(math.log(large / max(small, 1e-6 * large)), 1e-3)
    ends = large * np.exp([-1.96 * error, 1.96 * error])
    value, interval = (large, ends) if shortest is None else (at[0], (ends - mean) / spread)
    return Threshold(
        jnp.asarray(value, reference.dtype), jnp.asarray(interval, reference.dtype),
        moments, jnp.asarray(doubt), world.remembers.time,
    )  # fmt: skip


def _of_streams(
    values: np.ndarray, looks: np.ndarray, window: int, level: float, arl: float | None
) -> tuple[list[float], float]:
    """The threshold, one below it, and the ratio of the rates of false alarms at both."""
    if arl is None:
        looked = values[:, looks >= window].ravel()
        at = [float(np.quantile(looked, 1 - p)) for p in (level, _NEARBY * level)]
        return at, _NEARBY
    high = threshold_for(values, looks, arl)
    low = threshold_for(values, looks, looks[0] + (arl - looks[0]) / _NEARBY)
    runs = [first_alarms(values, looks, at).mean - looks[0] for at in (high, low)]
    return [high, low], max(runs[0] / runs[1], 1.01)


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
    size: int,
    drift: float | None,
) -> tuple[Threshold, jax.Array]:
    """The threshold of any other chart, with a reference of `size` frames in use.

    With a drift it is that of the CUSUM; the standard deviation of η comes with it.
    """
    rows = GaussianRows(median_bandwidth(reference[: min(len(reference), 2000)]).reshape(1))
    world = _world(rows, reference, window)
    cut = jnp.maximum(1 - jnp.arange(4 * window) / world.block, 0)  # what blocks leave of c_h
    left = Dependence(world.remembers.covariances * cut, world.remembers.order)
    growth = float(world.remembers.mean(window) / left.mean(window))
    keys, unit = jax.random.split(key, draws), jnp.ones((), reference.dtype)
    if arl is None and drift is None:
        options = {"window": window, "size": size}
        values, scales = _pairs(keys, chart, reference, world, growth, **options)
        at = [float(calibration.threshold(values, p)) for p in (level, _NEARBY * level)]
        ratio = _NEARBY
    else:
        horizon = stride * math.ceil(max(4 * window, (arl or 0) / 4) / stride)
        looks = look_counts(horizon, window, stride)
        options = {"window": window, "size": size, "looks": tuple(looks.tolist())}
        values, scales = _streams(keys, chart, reference, world, growth, **options)
        if drift is not None:
            unit = jnp.std(values)
            values = cusum(values / unit - drift)
        at, ratio = _of_streams(np.asarray(values), looks, window, level, arl)
    centre, order = chart.test.null_centre, chart.test.null_order
    error = float(jnp.std(jnp.log(scales))) * (order or 1)
    fall = math.log(max((at[0] - centre) / max(at[1] - centre, 1e-6), 1.001))
    ends = centre + (at[0] - centre) * np.exp([-1.96 * error, 1.96 * error])
    plain = Moments(jnp.zeros(window), jnp.ones(window))
    found = Threshold(
        jnp.asarray(at[0], reference.dtype), jnp.asarray(ends, reference.dtype), plain,
        jnp.asarray(error * math.log(ratio) / fall), world.remembers.time,
    )  # fmt: skip
    return found, unit


def cusum(gains: jax.Array) -> jax.Array:
    """W_t = max(0, W_{t−1} + gain_t) along the last axis."""
    total = jnp.cumsum(gains, axis=-1)
    return total - jnp.minimum(jax.lax.cummin(total, axis=total.ndim - 1), 0)


def moved(found: Threshold, rows: Rows, reference: jax.Array, shortest: int | None) -> Threshold:
    """The threshold as it is for another reference of the same length: the same z, other moments.

    One that was given in units of T, without moments, stays.
    """
    old = found.moments
    new = world_of(rows, reference, len(old.mean)).moments
    if shortest is not None:
        return dataclasses.replace(found, moments=new)
    known = old.mean[-1] > 0
    place = lambda value: jnp.where(  # noqa: E731
        known, new.mean[-1] + (value - old.mean[-1]) * new.spread[-1] / old.spread[-1], value
    )
    kept = jax.tree.map(lambda a, b: jnp.where(known, a, b), new, old)
    return dataclasses.replace(
        found, value=place(found.value), interval=place(found.interval), moments=kept
    )


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


@jax.jit(static_argnames=("window", "size"))
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
        _, scale = world.reference(k_scale)
        value = chart(k_look, reference[thinned(rest, other)], reference[picked])
        return _rescaled(chart, value, sizes, growth / scale), scale

    return jax.lax.map(draw, keys, batch_size=AT_ONCE)


@jax.jit(static_argnames=("window", "size", "looks"))
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
        _, scale = world.reference(k_scale)

        def look(count: jax.Array) -> jax.Array:
            seen = jax.lax.dynamic_slice_in_dim(frames, count - window, window)
            return chart(jax.random.fold_in(k_looks, count), kept, seen)

        values = jax.lax.map(look, jnp.asarray(looks), batch_size=AT_ONCE)
        return _rescaled(chart, values, sizes, growth / scale), scale

    return jax.lax.map(run, keys)


def warn_if_doubtful(found: Threshold, frames: int) -> None:
    """Tell of a reference that cannot carry what is asked, and how many frames would do."""
    doubt = float(found.doubt)
    if not doubt > _DOUBT:
        return
    needed = math.ceil(frames * (doubt / _DOUBT) ** 2 / 10) * 10
    low, high = (float(end) for end in found.interval)
    warnings.warn(
        f"the reference is short: {frames} frames, which remember {float(found.memory):.1f} frames "
        f"each, leave the rate of false alarms uncertain by a factor of {math.exp(2 * doubt):.1f} "
        f"either way (threshold {float(found.value):.4g}, 95 % from {low:.4g} to {high:.4g}); "
        f"about {needed} frames would do",
        stacklevel=4,
    )
