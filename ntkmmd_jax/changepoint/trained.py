"""Thresholds of charts of a network that is trained: those of its tangent kernel, times a factor.

T of a network that was trained for a short time is that of its tangent kernel up to O(t), and so is
η of a CUSUM, and the law of both while nothing changes. One Gram matrix gives thousands of draws of
it, where a network would have to train for each. What is left is a factor, which some windows tell
on which it does train.
"""

import dataclasses

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.quick import soon
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.changepoint.by_parts import near
from ntkmmd_jax.changepoint.by_rows import of_rows
from ntkmmd_jax.changepoint.chart import Chart
from ntkmmd_jax.changepoint.law import resampled
from ntkmmd_jax.changepoint.rows import Rows
from ntkmmd_jax.changepoint.threshold import Threshold, Wanted
from ntkmmd_jax.twosample import NTKMMD
from ntkmmd_jax.twosample.learning import WitnessTest
from ntkmmd_jax.twosample.pilot import AT_ONCE

_TRAINED = 32  # windows on which a network is trained: T of both differ by some per cent in each


def of_trained(
    key: jax.Array,
    chart: Chart,
    rows: Rows,
    reference: jax.Array,
    n: jax.Array,
    wanted: Wanted,
    *,
    size: int,
) -> Threshold:
    """The threshold of a chart of a trained network, with `size` frames of the reference in use.

    Args:
        key: For the draws.
        chart: Of T.
        rows: Of the tangent kernel.
        reference: Standardised, in a bucket.
        n: How many of it are real.
        wanted: What is asked of the chart.
        size: Frames of the reference in use.
    """
    k_law, k_trained = jax.random.split(key)
    found = of_rows(k_law, rows, reference, n, wanted, used=size)
    given = jax.random.split(k_trained, _TRAINED), chart, reference, n, found.block
    ratio = trained_by_exact(*given, window=wanted.window, size=size)
    value, ends, moments = jax.tree.map(
        lambda leaf: ratio * leaf, (found.value, found.interval, found.moments)
    )
    return dataclasses.replace(found, value=value, interval=ends, moments=moments)


def tangent_rows(chart: Chart, reference: jax.Array) -> Rows | None:
    """The rows to which a trained network's T comes; None if it trains none, or has too many."""
    return near(chart, reference) if isinstance(chart.test, WitnessTest) else None


def _by_exact(
    keys: jax.Array, chart: Chart, reference: jax.Array, n: jax.Array, block: jax.Array,
    *, window: int, size: int,
) -> jax.Array:  # fmt: skip
    """Root mean squares of T, or η, of a trained network over exact ones, of the same frames."""
    (network,) = chart.test.networks
    exact = dataclasses.replace(chart, test=NTKMMD(network, train_fraction=None))

    def squares(key: jax.Array) -> jax.Array:
        k_reference, k_window, k_look = jax.random.split(key, 3)
        kept = reference[resampled(k_reference, block, n, size)]
        seen = reference[resampled(k_window, block, n, window)]
        return jnp.stack([one(k_look, kept, seen) for one in (chart, exact)]) ** 2

    trained, plain = in_batches(squares, keys, AT_ONCE).sum(0)
    return jnp.sqrt(trained / plain)


trained_by_exact = soon(_by_exact, static_argnames=("window", "size"))
