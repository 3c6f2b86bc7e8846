"""The CUSUM of what a witness gains: W_t = max(0, W_{t−1} + η_t − drift).

η is the gap of a witness of the window on frames that it has not seen (`chart`), as in the authors'
sequel (Gong, Lee, Cheng & Xie). Its law is found by streams, as that of a run length is: of blocks
of the reference, against references that are resampled, too.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.padding import number
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.changepoint.by_parts import (
    near,
    trusted_by,
    watched,
    world_and_growth,
)
from ntkmmd_jax.changepoint.chart import Chart, learned
from ntkmmd_jax.changepoint.law import World, resampled
from ntkmmd_jax.changepoint.rows import Rows
from ntkmmd_jax.changepoint.threshold import Threshold, Wanted, by_streams, look_counts
from ntkmmd_jax.changepoint.trained import trained_by_exact
from ntkmmd_jax.twosample.pilot import AT_ONCE

_SETTLED = 8  # windows after which W has forgotten its start
_TRAINED = 100  # η that tell how large those of a trained witness are beside the exact ones


def of_cusum(
    key: jax.Array,
    chart: Chart,
    rows: Rows | None,
    reference: jax.Array,
    n: jax.Array,
    wanted: Wanted,
    *,
    size: int,
    drift: float,
) -> tuple[Threshold, jax.Array]:
    """The threshold of the CUSUM of a chart of η, and the standard deviation of η.

    Reference and streams are resampled, of as many frames as they have: so references differ from
    what follows them by as much as they do, in what they add to every η too. Frames are in the
    coordinates of the reference, in which those that follow it spread more than its own (`law`).
    With rows of a kernel, η of all looks are sums over one Gram matrix; those of a witness that is
    trained are as many times these as some that are trained indeed. Of any other test, a witness
    learns for each.
    """
    kernel = near(chart, reference) if rows is None else rows
    window = wanted.window
    world, growth = world_and_growth(kernel, reference, n, window, wanted.block, size)
    horizon = max(wanted.horizon, 2 * _SETTLED * window)
    looks = look_counts(horizon, window, wanted.stride)
    options = {"window": window, "size": size, "looks": tuple(looks.tolist())}
    keys = jax.random.split(key, wanted.draws)
    if kernel is None:
        values, scales = _gains(keys, chart, reference, n, world, growth.phased, **options)
    else:
        values, scales = _gains_by_rows(keys, chart, world, growth.phased, **options)
        if rows is None:
            given = keys[:_TRAINED], chart, reference, n, world.block
            values *= trained_by_exact(*given, window=window, size=size)
    unit = jnp.std(values)
    totals = np.asarray(cusum(values / unit - drift))
    pair, doubted = by_streams(totals, looks, wanted, _SETTLED * window)
    found = trusted_by(chart, jnp.asarray(pair, values.dtype), scales, world, window, **doubted)
    return found, unit * (1 + world.own)


def cusum(gains: jax.Array) -> jax.Array:
    """W_t = max(0, W_{t−1} + gain_t) along the last axis."""
    total = jnp.cumsum(gains, axis=-1)
    return total - jnp.minimum(jax.lax.cummin(total, axis=total.ndim - 1), 0)


@jit(static_argnames=("window", "size", "looks"))
def _gains(
    keys: jax.Array, chart: Chart, reference: jax.Array, n: jax.Array, world: World,
    growth: jax.Array, *, window: int, size: int, looks: tuple[int, ...],
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """η at the looks of a stream of blocks of the reference, against such blocks."""
    horizon = looks[-1]

    def run(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        k_reference, k_stream, k_scale, k_looks = jax.random.split(key, 4)
        kept = reference[resampled(k_reference, world.block, n, size)]
        frames = reference[resampled(k_stream, world.block, n, horizon)]
        _, scale = world.reference(jax.random.uniform(k_scale, (len(world.gram),)))
        against = lambda key, seen: chart(key, kept, seen)  # noqa: E731
        values = watched(k_looks, against, frames, looks, window)
        return values * (growth / scale) ** (chart.test.null_order or 1), scale

    return jax.lax.map(run, keys)


@jit(static_argnames=("window", "size", "looks"))
def _gains_by_rows(
    keys: jax.Array, chart: Chart, world: World, growth: jax.Array,
    *, window: int, size: int, looks: tuple[int, ...],
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """The same of a fixed kernel: η = ⟨φ_learned − φ_old, φ_scored − φ_new⟩, of means of φ.

    Frames that come twice, or from blocks that overlap by chance, share nothing (`World.kernel`):
    in many dimensions such pairs would have the tail to themselves.
    """
    at = jnp.arange(len(world.gram))
    some, held, horizon = learned(size, window), chart.held, looks[-1]
    apart = world.kernel(at[:, None], at, world.n // 2)  # stream, reference: all else is chance

    link, kept_of_link = _links(world, window, held)

    def against(picked: jax.Array) -> jax.Array:  # their mean, in a product with every frame
        return jnp.zeros(len(at)).at[picked].add(1 / len(picked)) @ apart

    def run(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        k_reference, k_stream, k_scale = jax.random.split(key, 3)
        kept = resampled(k_reference, world.block, world.n, size)
        frames = resampled(k_stream, world.block, world.n, horizon)
        of_learned, of_scored = against(kept[some]), against(kept[~some])
        offset, places = of_learned[kept[~some]].mean(), jnp.arange(window)
        lags = places[:-held, None] - places[-held:]

        def look(count: jax.Array) -> jax.Array:
            seen = jax.lax.dynamic_slice_in_dim(frames, count - window, window)
            old, new = seen[:-held], seen[-held:]
            of_old = world.kernel(old[:, None], new, lags).mean() - of_scored[old].mean()
            return offset - of_learned[new].mean() + of_old

        _, scale = world.reference(jax.random.uniform(k_scale, (len(world.gram),)))
        gains = (jax.vmap(look)(jnp.asarray(looks)) - kept_of_link) * growth / scale
        return gains + link + _shared(world, some), scale

    return in_batches(run, keys, AT_ONCE)


def _links(world: World, window: int, held: int) -> tuple[jax.Array, jax.Array]:
    """E ⟨φ_old, φ_new⟩ of frames of a window, which follow each other; and what blocks keep of it.

    Of frames h apart, h/block are in different blocks.
    """
    places = jnp.arange(window)
    lags = places[-held:] - places[:-held, None]
    known = world.remembers.covariances[lags]
    return known.mean(), jnp.mean(jnp.maximum(1 - lags / world.block, 0) * known)


def _shared(world: World, some: np.ndarray) -> jax.Array:
    """E ⟨φ_learned, φ_scored⟩ of frames of one reference, which remember each other.

    Args:
        world: Of the kernel.
        some: Which of the frames in use are learned from.
    """
    size, known = len(some), world.remembers.covariances
    apart = jnp.arange(1, size, dtype=known.dtype)  # in places
    pairs = np.correlate(some.astype(float), (~some).astype(float), "full")
    pairs = pairs[size:] + pairs[size - 2 :: -1]
    lags = apart * number(world.frames) / size  # in frames, on average
    covariances = jnp.interp(lags, jnp.arange(len(known), dtype=known.dtype), known, right=0.0)
    return jnp.sum(jnp.asarray(pairs / pairs.sum(), known.dtype) * covariances)
