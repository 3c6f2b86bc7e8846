"""The chart's statistic: a two-sample statistic T between a reference block and a window.

Every test is a chart. Of `NetMMD` and `NTKMMD`, T is the symmetric statistic, T_net or
T_NTK = |v|², of `GaussianMMD` the biased MMD²; the classifier, ME and SCF tests split the two
blocks at each look. All that is random or comes from data beforehand (θ0, the bandwidth, the
standardisation) is fixed once, so that statistics of different windows compare with one threshold.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record
from ntkmmd_jax.twosample import NetMMD, TwoSampleTest, make_test, methods
from ntkmmd_jax.twosample.contract import Prepared

EFFECTIVE_RATE = 0.0015  # the paper's: α / window
METHODS = tuple(methods())


@record
class Chart:
    """T of a reference block x and a window y, in standardised coordinates."""

    test: TwoSampleTest
    centre: jax.Array  # of the shape of one frame
    scale: jax.Array  # likewise
    prepared: Prepared  # what the test fixes beforehand

    def standard(self, frames: jax.Array) -> jax.Array:
        """Frames in the coordinates that the witness takes."""
        return (frames - self.centre) / self.scale

    def witness(self, key: jax.Array, x: jax.Array, y: jax.Array) -> Any:
        """The witness of two standardised blocks: large where x exceeds y. None if T has none."""
        return self.test.compared(key, self.prepared, x, y).witness

    def __call__(self, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        """T of two standardised blocks; the key is for the order of training."""
        return self.test.statistic(key, self.prepared, x, y)


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
    key: jax.Array, test: TwoSampleTest, reference: jax.Array, window: int, *, standardize: bool
) -> Chart:
    """Fix θ0 or the bandwidth, and the standardisation, from the reference.

    Args:
        key: For θ0, or for the frames of the median.
        test: As `chart_test` gives it.
        reference: Reference frames (N, ...).
        window: Frames in a window.
        standardize: Whether to give every coordinate mean 0 and spread 1 over the reference.
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
    centre, scale = jnp.zeros(reference.shape[1:]), jnp.ones(reference.shape[1:])
    if standardize:
        centre, spread = reference.mean(0), reference.std(0)
        scale = jnp.where(spread > 1e-6 * jnp.abs(centre), spread, 1.0)  # constant: as it is
    return Chart(test, centre, scale, test.prepare(key, (reference - centre) / scale))
