"""Thresholds of charts of any other test: T between parts of the reference, made of blocks.

T goes with the sizes of both as it does under H0. What blocks cut of the memory of a series is made
up for by the ratio of V's with and without the cut (`Growth`), of the linear kernel for T², and of
a Gaussian one for any other. The scale f that a reference estimates is likewise of that kernel; of
a test that learned beforehand it is that of its own T (`influence`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.padding import at_most, evenly, number
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.quick import soon
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.changepoint.by_rows import RESAMPLED, world_of
from ntkmmd_jax.changepoint.chart import Chart, whole_windows
from ntkmmd_jax.changepoint.dependence import Dependence
from ntkmmd_jax.changepoint.influence import spread_of_mean
from ntkmmd_jax.changepoint.law import Moments, World, resampled
from ntkmmd_jax.changepoint.rows import GaussianRows, Rows, rows_near
from ntkmmd_jax.changepoint.threshold import (
    NEARBY,
    Threshold,
    Wanted,
    by_streams,
    look_counts,
    trusted,
)
from ntkmmd_jax.kernels import median_bandwidth
from ntkmmd_jax.twosample import Hotelling
from ntkmmd_jax.twosample.pilot import AT_ONCE

_MEDIAN = 1000  # frames of the median distance
_SCALES = 1  # folded into the key; the draws' are split from it


class Growth(NamedTuple):
    """E T of a window and a reference over what is left of it if they are made of blocks.

    With the variance A of a window's mean, A_B of one that is made of blocks, and R of the mean of
    the frames of the reference in use, that is (A + R) / (A_B + R − C). What blocks shared with all
    frames around them, D = V/w − A_B, is shared by the window itself with (w − B)/(n − B) of these,
    and with a reference of the others by the rest, subtracted twice: C = D (w + B)/(n − B). Streams
    are drawn out of a half with replacement, so that frames of two blocks share the mean of it,
    (V + V_B)/n, and what they share with the other half, (V − V_B)/n, is subtracted twice. The mean
    of that one has as much variance as a half, at least.
    """

    whole: jax.Array  # () from their beginnings on: frames h apart are parted at these ends only
    shuffled: jax.Array  # () of a stream of blocks, taken from a half that is blocks itself
    phased: jax.Array  # () A / A_B of a stream, the first begun before it: h/block are parted

    @classmethod
    def of(cls, known: Dependence, block: jax.Array, window: int, used: int, n: Any) -> "Growth":
        """Of a window, from what a reference of n frames remembers, of which so many are used."""
        count, rest, size = (number(of) for of in (window // block, window % block, block))
        squares = count * size**2 * known.mean(size)
        squares += rest**2 * known.mean(jnp.maximum(rest, 1))
        lag = jnp.arange(len(known.covariances), dtype=known.covariances.dtype)
        together = jnp.maximum(1 - lag / size, 0)
        phased, shuffled = (
            Dependence(known.covariances * together**times, known.order).mean(window)
            for times in (1, 2)
        )
        whole, uncut = squares / window**2, known.mean(window)
        reference = known.mean_of_some(used, n)

        frames = number(n)
        blocks, around = whole * window / frames, known.mean(frames)  # V_B/n, V/n

        def grown(left: jax.Array, other: jax.Array, shared: jax.Array) -> jax.Array:
            most = left / 2  # of a reference of few blocks this is no more than a first order
            return (uncut + reference) / (left + other - jnp.clip(shared, -most, most))

        apart = (around - blocks) * frames / window * (window + size) / (frames - size)
        half = around + blocks
        drawn = 2 * (around - blocks) - (1 - size / window) * half
        return cls(
            grown(whole, reference, apart),
            grown(shuffled, jnp.maximum(reference, half), drawn),
            uncut / phased,
        )


def of_form(known: Dependence, block: Any, window: int, used: int, features: int) -> jax.Array:
    """By how much T² of a window falls more than its mean does if it is made of blocks.

    With C_st = c_{t−s}/c_0 within a window, d features and n = w + r frames in S, to first order

        E T² ∝ (A + R) (1 + d/(n − d) ((r + tr C²)/n − w Var_t C̄_t / (C̄ + R/c_0))),

    means over frames of the window: S of frames that remember is the more uncertain, and sees some
    of the mean, since frames at the ends of a block have less of it.
    """
    at, c = jnp.arange(window), known.covariances / known.covariances[0]
    whole = c[jnp.abs(at[:, None] - at)]
    cut = jnp.where(at[:, None] // block == at // block, whole, 0)

    def form(c: jax.Array) -> jax.Array:
        means, n = c.mean(1), window + used
        uncertain = (used + jnp.sum(c**2)) / n
        seen = window * jnp.var(means) / (means.mean() + 1 / used)
        return 1 + features / (n - features) * (uncertain - seen)

    return form(whole) / form(cut)


def of_test(
    key: jax.Array,
    chart: Chart,
    reference: jax.Array,
    n: jax.Array,
    wanted: Wanted,
    *,
    size: int,
) -> Threshold:
    """The threshold of a chart with a reference of `size` frames in use."""
    window, level = wanted.window, wanted.level
    features = 0
    if isinstance(chart.test, Hotelling) and chart.test.shrinkage is None:
        features = reference[0].size
    rows = near(chart, reference)
    world, growth = world_and_growth(rows, reference, n, window, wanted.block, size, features)
    keys, half = jax.random.split(key, wanted.draws), int(n) // 2
    given, small = (keys, chart, reference, n, world), min(window, half)
    other = min(size, whole_windows(int(n) - small, window))
    if wanted.arl is None or chart.test.fits:
        values, scales, windows = _pairs(*given, small=small, other=other)
        if chart.test.fits:
            scales = _scales_by_influence(key, chart, values, windows, n, world, other)
        sizes = (1 / window + 1 / size) / (1 / small + 1 / other)
        values = _rescaled(chart, values, sizes, growth.whole, scales, world)
        if wanted.arl is None:
            pair = _nearby(chart, values, calibration.threshold(values, level), level)
            return trusted_by(chart, pair, scales, world, window, alarms=level * wanted.draws)
        law, scales_of_law = values, scales
    looks = look_counts(wanted.horizon, window, wanted.stride)
    other = min(size, whole_windows(int(n) - half, window))
    options = {"window": window, "looks": tuple(looks.tolist()), "other": other}
    values, scales = _streams(*given, **options)
    if chart.test.fits:  # in units of its own T, not of a variance: pairs say what that comes to
        values = law.mean() + (values - values.mean()) * (law.std() / values.std())
        scales = scales_of_law
    else:
        sizes = (1 / window + 1 / size) / (1 / window + 1 / other)
        values = _rescaled(chart, values, sizes, growth.shuffled, scales[:, None], world)
    pair, doubted = by_streams(np.asarray(values), looks, wanted, window)
    return trusted_by(chart, jnp.asarray(pair, values.dtype), scales, world, window, **doubted)


def trusted_by(
    chart: Chart, pair: jax.Array, scales: jax.Array, world: World, window: int, **options: float
) -> Threshold:
    """The threshold of a chart whose T, or η, has no moments in closed form, and its doubt."""
    plain = Moments(jnp.zeros(window), jnp.ones(window))
    about = {"centre": chart.null_centre, "order": chart.test.null_order or 1.0}
    return trusted(pair, scales, plain, world, **about, **options)


def near(chart: Chart, reference: jax.Array) -> Rows | None:
    """The kernel that T, or η, goes with while nothing changes, if one is known."""
    return rows_near(chart.test, chart.prepared, min(len(reference), RESAMPLED))


def _world_and_growth(
    rows: Rows | None, reference: jax.Array, n: jax.Array, window: int, block: int | None,
    used: int, features: int = 0,
) -> tuple[World, Growth]:  # fmt: skip
    """The world of a kernel, or of a Gaussian one, and what its blocks cut, of T² by features."""
    if rows is None:
        some = reference[:_MEDIAN]
        rows = GaussianRows(median_bandwidth(some, at_most(n, len(some))).reshape(1))
    world = world_of(rows, reference, window, block, n)
    given = world.remembers, world.block, window, used
    growth, form = Growth.of(*given, n), of_form(*given, features)
    grown = {"whole": growth.whole * form, "shuffled": growth.shuffled * form}
    return world, growth._replace(**grown)


world_and_growth = soon(_world_and_growth, static_argnames=("window", "used", "features"))


def _parts(
    key: jax.Array, world: World, places: int, n: jax.Array, most: Any
) -> tuple[jax.Array, jax.Array]:
    """Frames in the order of shuffled blocks, and those beyond the first so many in their own.

    Of a bucket: what is not real comes last in both.
    """
    k_shift, k_order = jax.random.split(key)
    row = jnp.arange(places)
    at = (row + jax.random.randint(k_shift, (), 0, n)) % n
    block = jax.random.uniform(k_order, (places,))[at // world.block]
    order = jnp.argsort(jnp.where(row < n, block, 1), stable=True)
    return order, jnp.sort(jnp.where(row < most, places, order))


def watched(
    key: jax.Array, statistic: Callable[[jax.Array, jax.Array], jax.Array], frames: jax.Array,
    looks: tuple[int, ...], window: int,
) -> jax.Array:  # fmt: skip
    """T, or η, of a stream at each of its looks, by its frames or by their places."""

    def look(count: jax.Array) -> jax.Array:
        seen = jax.lax.dynamic_slice_in_dim(frames, count - window, window)
        return statistic(jax.random.fold_in(key, count), seen)

    return in_batches(look, jnp.asarray(looks), AT_ONCE)


@soon
def _rescaled(
    chart: Chart, values: jax.Array, sizes: float, growth: jax.Array, scales: jax.Array,
    world: World,
) -> jax.Array:  # fmt: skip
    """T as it would be at other sizes, with so many times the variance of a window's mean, on f.

    Frames are in the coordinates of the reference, in which those that follow it spread more than
    its own (`law`); a test that has its scale in itself does not see that.
    """
    centre, order, power = chart.null_centre, chart.test.null_order, chart.test.null_power
    factor = (sizes * (1 + world.own)) ** order * growth**power / scales ** (order or 1)
    return centre + (values - centre) * factor


@soon
def _nearby(chart: Chart, values: jax.Array, at: jax.Array, level: float) -> jax.Array:
    """A threshold, and one that T exceeds `NEARBY` times as often.

    By moments of all draws: cube roots of T are nearly normal (Wilson & Hilferty), as a mean of
    scores is. A second quantile would follow the first: where that is high by chance, the rate
    would seem to fall slowly, and a reference be warned of the less for it.
    """
    centre, power = chart.null_centre, 1 if chart.test.null_power == 0.5 else 3
    roots = values - centre if power == 1 else jnp.cbrt(values - centre)
    rates = jnp.minimum(level * jnp.array([1.0, NEARBY], values.dtype), 0.5)
    rare, often = (roots.mean() - jax.scipy.special.ndtri(rates) * roots.std()) ** power
    return jnp.stack([at, centre + (at - centre) * often / rare])


def _by_influence(
    key: jax.Array, chart: Chart, values: jax.Array, windows: jax.Array, n: jax.Array,
    world: World, other: int,
) -> jax.Array:  # fmt: skip
    """Scales f of T of a test that learned from other frames, as far as these say them."""
    error = spread_of_mean(values, windows, n, world.block, other)
    error /= values.mean() - chart.null_centre
    return jnp.exp(error * jax.random.normal(jax.random.fold_in(key, _SCALES), values.shape))


_scales_by_influence = soon(_by_influence, static_argnames="other")


@jit(static_argnames=("small", "other"))
def _pairs(
    keys: jax.Array, chart: Chart, reference: jax.Array, n: jax.Array, world: World,
    *, small: int, other: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:  # fmt: skip
    """T between a window and a reference of disjoint blocks, the scales f, and the windows."""
    between = chart.between(reference)

    def draw(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        k_parts, k_scale, k_look = jax.random.split(key, 3)
        order, rest = _parts(k_parts, world, len(reference), n, small)
        _, scale = world.reference(jax.random.uniform(k_scale, (len(world.gram),)))
        kept = rest[evenly(n - small, other)]
        return between(k_look, kept, order[:small]), scale, order[:small]

    return in_batches(draw, keys, AT_ONCE)


@jit(static_argnames=("window", "other", "looks"))
def _streams(
    keys: jax.Array, chart: Chart, reference: jax.Array, n: jax.Array, world: World,
    *, window: int, other: int, looks: tuple[int, ...],
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """T at the looks of a stream of blocks of one half, against the other half; and f."""
    half, horizon, between = n // 2, looks[-1], chart.between(reference)

    def run(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        k_parts, k_stream, k_scale, k_looks = jax.random.split(key, 4)
        order, rest = _parts(k_parts, world, len(reference), n, half)
        frames = order[resampled(k_stream, world.block, half, horizon)]
        kept = rest[evenly(n - half, other)]
        _, scale = world.reference(jax.random.uniform(k_scale, (len(world.gram),)))
        against = lambda key, seen: between(key, kept, seen)  # noqa: E731
        return watched(k_looks, against, frames, looks, window), scale

    return jax.lax.map(run, keys)
