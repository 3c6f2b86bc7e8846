"""A moving reference: every window of a series against the window just before it.

    T(t) = T(x_{t−w}, …, x_{t−1};  x_t, …, x_{t+w−1})

For a series without a clean beginning. There is no threshold, for nothing is known to be without
change: T is a score along the series, high where it changes, and judged by the area under its ROC
curve where the changes are known.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_points, check_finite
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import working
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.changepoint.chart import Chart, chart_test, make_chart
from ntkmmd_jax.changepoint.state import check_sizes
from ntkmmd_jax.twosample.pilot import AT_ONCE


@record
class Contrast:
    """Scores along a series."""

    times: jax.Array  # (k,) index of the first frame of the later window
    statistics: jax.Array  # (k,)
    window: int = static()  # frames in each of both
    method: str = static()  # of the test

    def area(self, changes: Any, *, margin: int) -> float:
        """The area under the ROC curve: how often a score near a change exceeds one far from any.

        Args:
            changes: Indices of the first frames after a change.
            margin: Frames within which a score is near.
        """
        times, values = np.asarray(self.times), np.asarray(self.statistics)
        away = np.abs(times[:, None] - np.atleast_1d(changes)).min(1)
        near: np.ndarray = np.asarray(away <= margin)
        if near.all() or not near.any():
            raise ValueError(
                f"{int(near.sum())} of {len(near)} looks are within {margin} frames of a change: "
                "the curve needs looks near a change, and others"
            )
        above, below = values[near][:, None], values[~near]
        return float(np.mean((above > below) + 0.5 * (above == below)))


def contrast(
    key: Any, series: Any, *, window: int = 100, stride: int = 10, test: Any = "ntk"
) -> Contrast:
    """Compare every window of a series with the window just before it.

    Args:
        key: A JAX key or an int seed.
        series: Array-like (N, ...), one row per frame; coordinates are standardised over all of it.
        window: Frames in each of both windows.
        stride: Frames between two looks.
        test: Any method by name, or a test object.
    """
    series = as_points(series, "the series")
    check_finite(series, "the series")
    check_sizes(window, None, stride)
    if len(series) < 2 * window:
        raise ValueError(f"two windows of {window} frames need a longer series; got {len(series)}")
    k_chart, k_looks = jax.random.split(as_key(key))
    chart = make_chart(k_chart, chart_test(test, window), series, window, standardize=True)
    times = jnp.arange(window, len(series) - window + 1, stride)
    with working("contrast"):
        values = jax.block_until_ready(_contrasts(k_looks, chart, series, times, window=window))
    return Contrast(times, values, window=window, method=chart.test.method)


@jit(static_argnames="window")
def _contrasts(
    key: jax.Array, chart: Chart, series: jax.Array, times: jax.Array, *, window: int
) -> jax.Array:
    frames = chart.standard(series)

    def look(time: jax.Array) -> jax.Array:
        both = jax.lax.dynamic_slice_in_dim(frames, time - window, 2 * window)
        return chart(jax.random.fold_in(key, time), both[:window], both[window:])

    return in_batches(look, times, AT_ONCE)
