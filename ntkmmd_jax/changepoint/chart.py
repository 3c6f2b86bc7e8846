"""The chart's statistic: a two-sample statistic T between a reference and a window.

Every test is a chart. Of `NetMMD` and `NTKMMD`, T is the symmetric statistic, T_net or
T_NTK = |v|², of `GaussianMMD` the biased MMD²; the classifier, ME and SCF tests split both at each
look. All that is random or comes from data beforehand (θ0, the bandwidth, the standardisation) is
fixed once, so that statistics of different windows compare with one threshold.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.twosample import NetMMD, TwoSampleTest, make_test, methods
from ntkmmd_jax.twosample.contract import Prepared

LIMIT = 5.0  # spreads: a single wild frame shall not speak for a window
EFFECTIVE_RATE = 0.0015  # the paper's: α / window
WINDOWS = 4  # of the reference, for a chart that passes over all of it at every look
METHODS = tuple(methods())


@record
class Chart:
    """T of a reference x and a window y, in standardised coordinates."""

    test: TwoSampleTest
    centre: jax.Array  # of the shape of one frame
    scale: jax.Array  # likewise
    limit: jax.Array  # () in spreads: no coordinate is further from the centre
    prepared: Prepared  # what the test fixes beforehand
    held: int = static(default=0)  # newest frames that the witness does not see; 0: T

    def standard(self, frames: jax.Array) -> jax.Array:
        """Frames in the coordinates that the witness takes."""
        return jnp.clip((frames - self.centre) / self.scale, -self.limit, self.limit)

    def restandardized(self, reference: jax.Array) -> "Chart":
        """The chart in the coordinates of another reference, if it standardises."""
        centre, scale = spreads(reference)
        fixed = jnp.isinf(self.limit)
        keep = lambda old, new: jnp.where(fixed, old, new)  # noqa: E731
        return dataclasses.replace(
            self, centre=keep(self.centre, centre), scale=keep(self.scale, scale)
        )

    def witness(self, key: jax.Array, x: jax.Array, y: jax.Array) -> Any:
        """The witness of two standardised blocks: large where x exceeds y. None if T has none."""
        return self.test.compared(key, self.prepared, x, y).witness

    def __call__(self, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        """T of two standardised blocks, or η; the key is for the order of training.

        η = mean of g over the reference − that over the newest `held` frames, where g is the
        witness of the other frames of the window, and of some frames of the reference (`learned`)
        over which no mean is taken. So E η = 0 while nothing changes and frames are independent.
        """
        if not self.held:
            return self.test.statistic(key, self.prepared, x, y)
        some = np.zeros(len(x), bool)
        some[evenly(len(x), learned(len(x), len(y)))] = True
        witness = self.witness(key, x[some], y[: -self.held])
        return witness(x[~some]).mean() - witness(y[-self.held :]).mean()


def learned(size: int, window: int) -> int:
    """How many of so many frames of a reference the witness of η learns from."""
    return min(WINDOWS * window, size // 2)


def evenly(length: int, size: int) -> np.ndarray:
    """So many places of a length, evenly spaced."""
    return np.arange(size) * length // size


def chart_test(test: Any, window: int) -> TwoSampleTest:
    """The test of a chart: one of `METHODS` by name, "net" with the paper's settings, or a test."""
    if isinstance(test, TwoSampleTest):
        return test.for_pairs()
    if test not in METHODS:
        raise ValueError(f"a chart takes one of {METHODS}, or a test object; got {test!r}")
    if test == "net":
        rate = EFFECTIVE_RATE * window
        return NetMMD(learning_rate=rate, momentum=0.9, train_fraction=None)
    return make_test(test).for_pairs()


def make_chart(
    key: jax.Array,
    test: TwoSampleTest,
    reference: jax.Array,
    window: int,
    *,
    standardize: bool,
    held: int = 0,
) -> Chart:
    """Fix θ0 or the bandwidth, and the standardisation, from the reference.

    Args:
        key: For θ0, or for the frames of the median.
        test: As `chart_test` gives it.
        reference: Reference frames (N, ...).
        window: Frames in a window.
        standardize: Whether to give every coordinate mean 0 and spread 1 over the reference, and
            to leave none more than `LIMIT` from the mean.
        held: For η instead of T: how many of the newest frames the witness does not see.
    """
    try:
        test.check_samples(window, window, reference.shape[1:])
    except ValueError as error:
        raise ValueError(f"two windows of {window} frames do not do: {error}") from error
    if test.standardize and not standardize:
        raise ValueError(
            "a chart standardises its frames itself, over the reference, and not by its test: use "
            "standardize=True of the chart, or standardize=False of the test"
        )
    shape, limit = reference.shape[1:], jnp.asarray(LIMIT if standardize else jnp.inf)
    centre, scale = spreads(reference) if standardize else (jnp.zeros(shape), jnp.ones(shape))
    unprepared = Chart(test, centre, scale, limit, None, held=held)
    return dataclasses.replace(unprepared, prepared=_prepared(key, unprepared, reference))


@jit
def _prepared(key: jax.Array, chart: Chart, reference: jax.Array) -> Prepared:
    return chart.test.prepare(key, chart.standard(reference))


def spreads(reference: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and spread of every coordinate; 1 for the spread of a constant one."""
    centre, spread = reference.mean(0), reference.std(0)
    return centre, jnp.where(spread > 1e-6 * jnp.abs(centre), spread, 1.0)
