"""The chart's statistic: a two-sample statistic T between a reference and a window.

Every test is a chart. Of `NetMMD` and `NTKMMD`, T is the symmetric statistic, T_net or
T_NTK = |v|², of `GaussianMMD` the biased MMD²; the classifier, ME and SCF tests split both at each
look. All that is random or comes from data beforehand (θ0, the bandwidth, the standardisation) is
fixed once, so that statistics of different windows compare with one threshold.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.padding import evenly, mean, random_order, variance
from ntkmmd_jax._lib.quick import soon
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.twosample import Hotelling, NetMMD, TwoSampleTest, make_test, methods
from ntkmmd_jax.twosample.parts import Prepared

LIMIT = 5.0  # spreads: a single wild frame shall not speak for a window
EFFECTIVE_RATE = 0.0015  # the paper's: α / window
WINDOWS = 4  # of the reference, for a chart that passes over all of it at every look
METHODS = tuple(methods())
_SOME = 1  # folded into the key of a chart; others are split from it


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

    @property
    def null_centre(self) -> Any:
        """What T, or η, comes to as the spread of means goes to 0 while nothing changes."""
        return 0.0 if self.held else self.test.null_centre(self.prepared)

    def restandardized(self, reference: jax.Array, n: Any) -> "Chart":
        """The chart in the coordinates of another reference of n frames, if it standardises."""
        centre, scale = spreads(reference, n)
        fixed = jnp.isinf(self.limit)
        keep = lambda old, new: jnp.where(fixed, old, new)  # noqa: E731
        return dataclasses.replace(
            self, centre=keep(self.centre, centre), scale=keep(self.scale, scale)
        )

    def witness(self, key: jax.Array, x: jax.Array, y: jax.Array, n: Any = None) -> Any:
        """The witness of two standardised blocks: large where x exceeds y. None if T has none.

        Args:
            key: For the order of training.
            x: The reference; or a bucket of it, of a test with a fixed kernel.
            y: The window.
            n: How many frames of a bucket are real; all, by default.
        """
        if n is None:
            return self.test.compared(key, self.prepared, x, y).witness
        places = jnp.arange(len(x) + len(y))
        points = jnp.concatenate([x, y])[jnp.where(places < n, places, places - n + len(x))]
        both = Pooled(points, n, jnp.asarray(len(y), n.dtype))
        return self.test.evidence(key, self.prepared, both, both).witness

    def __call__(self, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        """T of two standardised blocks, or η; the key is for the order of training.

        η = mean of g over the reference − that over the newest `held` frames, where g is the
        witness of the other frames of the window, and of some frames of the reference (`learned`)
        over which no mean is taken. So E η = 0 while nothing changes and frames are independent.
        """
        if not self.held:
            value = self.test.statistic(key, self.prepared, x, y)
            # T² has no end if a coordinate stands still, at another place in y than in x.
            endless = isinstance(self.test, Hotelling) & jnp.isnan(value)
            return jnp.where(endless, jnp.finfo(value.dtype).max, value)
        some = learned(len(x), len(y))
        witness = self.witness(key, x[some], y[: -self.held])
        return witness(x[~some]).mean() - witness(y[-self.held :]).mean()

    def moved(self, reference: jax.Array) -> Any:
        """What a standardised reference adds to T of any window; None if T is not so made."""
        return None if self.held else self.test.moved(self.prepared, reference)

    def apart(self, moved: Any, size: int, window: jax.Array) -> jax.Array:
        """T of a window, and of a reference of so many frames by what that has `moved`."""
        other = self.test.moved(self.prepared, window)
        return self.test.apart(self.prepared, moved, other, size, len(window))

    def between(self, frames: jax.Array) -> Callable[[jax.Array, jax.Array, jax.Array], jax.Array]:
        """T, or η, of frames that are given by their places among some: (key, x, y) -> ()."""
        table = None if self.held else self.test.tabled(self.prepared, frames)
        if table is None:
            return lambda key, x, y: self(key, frames[x], frames[y])

        def weighed(key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
            del key  # nothing is random
            weights = jnp.zeros(len(frames), frames.dtype).at[x].add(1 / len(x))
            return table(weights.at[y].add(-1 / len(y)), len(x), len(y))

        return weighed


def learned(size: int, window: int) -> np.ndarray:
    """Which of so many frames of a reference the witness of η learns from, (size,)."""
    some = np.zeros(size, bool)
    some[evenly(size, min(WINDOWS * window, size // 2))] = True
    return some


def whole_windows(frames: int, window: int) -> int:
    """The frames of as many whole windows as there are; all, if there is none.

    Programs know how many windows a reference has, and not how many frames.
    """
    return frames if frames < window else frames // window * window


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
    n: Any = None,
    least: int | None = None,
) -> Chart:
    """Fix θ0 or the bandwidth, and the standardisation, from the reference.

    Args:
        key: For θ0, or for the frames of the median.
        test: As `chart_test` gives it.
        reference: Reference frames (N, ...), or a bucket of them.
        window: Frames in a window.
        standardize: Whether to give every coordinate mean 0 and spread 1 over the reference, and
            to leave none more than `LIMIT` from the mean.
        held: For η instead of T: how many of the newest frames the witness does not see.
        n: How many of a bucket are real; all, by default.
        least: How many are in any case, by which the test is prepared.
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
    options = {"standardize": standardize, "held": held, "least": least}
    return _fixed(key, test, reference, n, **options)


def _fix(
    key: jax.Array, test: TwoSampleTest, reference: jax.Array, n: Any,
    *, standardize: bool, held: int, least: int | None,
) -> Chart:  # fmt: skip
    shape = reference.shape[1:]
    limit = jnp.asarray(LIMIT if standardize else jnp.inf, reference.dtype)
    plain = jnp.zeros(shape, reference.dtype), jnp.ones(shape, reference.dtype)
    chart = Chart(test, *(spreads(reference, n) if standardize else plain), limit, None, held=held)
    some = reference
    if least is not None:  # at random: frames at even distances may all be at one point of a swing
        bits = jax.random.bits(jax.random.fold_in(key, _SOME), (len(reference),))
        some = reference[random_order(bits, n)[:least]]
    return dataclasses.replace(chart, prepared=test.prepare(key, chart.standard(some)))


_fixed = soon(_fix, static_argnames=("standardize", "held", "least"))


def spreads(reference: jax.Array, n: Any = None) -> tuple[jax.Array, jax.Array]:
    """Mean and spread of every coordinate of n frames; 1 for the spread of a constant one."""
    n = len(reference) if n is None else n
    centre, spread = mean(reference, n), jnp.sqrt(variance(reference, n))
    return centre, jnp.where(spread > 1e-6 * jnp.abs(centre), spread, 1.0)
