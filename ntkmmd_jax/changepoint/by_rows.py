"""Thresholds of charts with rows of a kernel, from the law of T that their reference gives."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.padding import at_most
from ntkmmd_jax._lib.quick import soon
from ntkmmd_jax.changepoint.law import World, stream_draws, window_draws
from ntkmmd_jax.changepoint.rows import Rows
from ntkmmd_jax.changepoint.threshold import (
    NEARBY,
    Threshold,
    Wanted,
    by_streams,
    given,
    look_counts,
    trusted,
)

RESAMPLED = 3000  # frames of a reference that are resampled: the middle ones of a longer one


def world_of(
    rows: Rows,
    reference: jax.Array,
    window: int,
    block: Any = None,
    n: Any = None,
    used: Any = None,
) -> World:
    """The law of T by a standardised reference, or by n frames of a bucket; some may be in use."""
    n, room = len(reference) if n is None else n, min(len(reference), RESAMPLED)
    known = at_most(n, room)
    some = jax.lax.dynamic_slice_in_dim(reference, (n - known) // 2, room)
    return World.of(rows.gram(some, known), n, window, block, known, used)


_world = soon(world_of, static_argnames="window")


def of_rows(
    key: jax.Array,
    rows: Rows,
    reference: jax.Array,
    n: jax.Array,
    wanted: Wanted,
    *,
    shortest: int | None = None,
    fixed: float | None = None,
    used: int | None = None,
) -> Threshold:
    """The threshold of a chart with rows of a kernel, for z if there is a shortest window."""
    window, draws = wanted.window, wanted.draws
    world = _world(rows, reference, window, wanted.block, n, used)
    if fixed is not None:
        return dataclasses.replace(given(fixed, window), moments=world.moments)
    first, moments = window if shortest is None else shortest, world.moments
    if wanted.arl is None and shortest is None:
        return of_level(key, world, wanted.level, window=window, draws=draws)
    horizon = wanted.horizon
    looks = look_counts(horizon, first, wanted.stride)
    options = {"window": window, "shortest": first, "horizon": horizon, "draws": draws}
    z, scales = stream_draws(key, world, **options)
    at, doubted = by_streams(np.asarray(z)[:, looks - 1], looks, wanted, window)
    mean, spread = moments.mean[-1], moments.spread[-1]
    pair = mean + jnp.asarray(at, z.dtype) * spread
    found = trusted(pair, scales, moments, world, **doubted)
    if shortest is None:
        return found
    ends = (found.interval - mean) / spread
    return dataclasses.replace(found, value=jnp.asarray(at[0], z.dtype), interval=ends)


def _of_level(key: jax.Array, world: World, level: float, *, window: int, draws: int) -> Threshold:
    """The threshold that T of a window exceeds with probability `level`."""
    z, scales = window_draws(key, world, window=window, draws=draws)
    at = jnp.stack([calibration.threshold(z, level), calibration.threshold(z, NEARBY * level)])
    moments = world.moments
    pair = moments.mean[-1] + at * moments.spread[-1]
    return trusted(pair, scales, moments, world, alarms=level * draws)


of_level = soon(_of_level, static_argnames=("window", "draws"))


def moved(
    found: Threshold, rows: Rows, reference: jax.Array, n: Any, shortest: int | None
) -> Threshold:
    """The threshold as it is for another reference of the same length: the same z, other moments.

    One that was given in units of T, without moments, stays.
    """
    old = found.moments
    new = world_of(rows, reference, len(old.mean), n=n).moments
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
