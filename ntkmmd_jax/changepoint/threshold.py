"""Thresholds: how large T is when nothing has changed, and how far that is known.

*Per look*: the value that a single look exceeds with probability `level`. *For an average run
length*: looks overlap and share their reference, so that their alarms come in clusters and a level
per look says little; whole streams are watched until a quarter of the wanted length, and the
threshold is the least for which they run so long (`runs`).

With f, the scale that a reference of this length estimates, the threshold is uncertain by the
spread of log f, and the rate of false alarms by h times that, if it falls as threshold^−h. Beside
its spread, the mean of a reference is off by as much as that of a window of its length: one of few
windows has a rate of its own. And one of few blocks does not know how long it remembers; still less
if what lasts is the spread of frames, whose largest episodes are rare, or few features among many.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.records import record
from ntkmmd_jax._lib.telling import warn
from ntkmmd_jax.changepoint.law import Moments, World
from ntkmmd_jax.changepoint.runs import first_alarms, threshold_for
from ntkmmd_jax.twosample.taught import beside

NEARBY = 3.0  # ratio of the rates of false alarms between which h is found
WINDOWS = 6  # in a reference whose own mean does not move T as a window's does
_BLOCKS = 100  # likewise, as long as frames remember: fewer say too little of their own memory
_EPISODES = 5.0  # times as many blocks, if these are large or small together
_FEW = 3.0  # times as many, if few features remember longer than others: T goes by these
OF_CUSUM = 2.0  # times as many of both: what a reference adds to every η adds up
OF_HALVES = 2  # times as many windows, of streams of one half of them against the other
_DOUBT = 0.3  # of the logarithm of the rate of false alarms, from which on it is told


@dataclass(frozen=True)
class Wanted:
    """What is asked of a chart: where it looks, and how seldom it may be wrong."""

    window: int  # frames
    stride: int  # frames between two looks
    level: float  # of a look
    arl: float | None  # instead: frames to a false alarm
    draws: int  # windows, or streams, by which the threshold is found
    block: int | None  # frames of the blocks in which the reference is resampled; None: by memory

    @property
    def horizon(self) -> int:
        """Frames of the streams that are watched."""
        return self.stride * math.ceil(max(4 * self.window, (self.arl or 0) / 4) / self.stride)


@record
class Threshold:
    """A threshold, and how far it can be trusted."""

    value: jax.Array  # () in units of the chart's statistic
    interval: jax.Array  # (2,) where it may lie, 95 %, by what is known and by chance of the draws
    moments: Moments  # of T_1, …, T_window
    doubt: jax.Array  # () standard error of the logarithm of the rate of false alarms
    memory: jax.Array  # () frames that say as much as one independent frame
    spread: jax.Array  # () as many, if that is how long frames are large or small together; or 1
    slowest: jax.Array  # () as many, if few features remember so long; or 1
    block: jax.Array  # () frames that share little with those before them


def trusted(
    pair: jax.Array,
    scales: jax.Array,
    moments: Moments,
    world: World,
    *,
    alarms: Any,
    ratio: float = NEARBY,
    centre: float = 0.0,
    order: float = 1.0,
) -> Threshold:
    """The first of two thresholds, whose rates of false alarms have a ratio, and its doubt.

    Args:
        pair: Both, (2,), in units of T.
        scales: f of many references.
        moments: Of T.
        world: Of the reference.
        alarms: Draws that exceed the threshold, by which it was found.
        ratio: Of the rates.
        centre: What T comes to under H0 as the sizes grow.
        order: T − centre goes with f to this power.
    """
    value, below = pair - centre
    error = order * jnp.std(jnp.log(scales))
    # A CUSUM that hardly leaves 0 has a threshold of 0, and nothing to tell how fast it falls.
    some = jnp.where(value > 0, value, 1)
    fall = jnp.where(value > 0, jnp.log(some / jnp.clip(below, 1e-6 * some, 0.999 * some)), 0)
    both = jnp.hypot(error, fall / math.log(ratio) / jnp.sqrt(jnp.asarray(alarms, error.dtype)))
    ends = centre + value * jnp.exp(1.96 * both * jnp.array([-1.0, 1.0], pair.dtype))
    doubt, known = error * math.log(ratio) / fall, world.remembers
    lasting = known.memory, known.spread, jnp.asarray(known.slowest)
    return Threshold(pair[0], ends, moments, doubt, *lasting, world.block)


def look_counts(length: int, first: int, stride: int) -> np.ndarray:
    """How many frames have been seen at each look: every `stride`, from `first` on."""
    return np.arange(-(-first // stride) * stride, length + 1, stride)


def given(value: Any, window: int) -> Threshold:
    """A threshold as it was given."""
    plain = Moments(jnp.zeros(window), jnp.ones(window))
    value = jnp.asarray(value, jnp.result_type(float))
    one = jnp.ones(())
    return Threshold(value, jnp.stack([value, value]), plain, 0 * one, one, one, one, one)


def by_streams(
    values: np.ndarray, looks: np.ndarray, wanted: Wanted, first: int
) -> tuple[list[float], dict[str, float]]:
    """The threshold, one below it, the ratio of their rates of alarms, and streams in alarm.

    A level is that of looks from the frame `first` on.
    """
    arl, level = wanted.arl, wanted.level

    def doubted(at: float, ratio: float) -> dict[str, float]:
        return {"ratio": ratio, "alarms": max(int(np.sum(values.max(1) >= at)), 1)}

    if arl is None:
        looked = values[:, looks >= first].ravel()
        at = [float(np.quantile(looked, 1 - p)) for p in (level, NEARBY * level)]
        return at, doubted(at[0], NEARBY)
    high = threshold_for(values, looks, arl)
    low = threshold_for(values, looks, looks[0] + (arl - looks[0]) / NEARBY)
    runs = [first_alarms(values, looks, at).mean - looks[0] for at in (high, low)]
    return [high, low], doubted(high, max(runs[0] / runs[1], 1.01))


def warn_if_doubtful(
    found: Threshold,
    frames: int,
    window: int,
    *,
    times: float = 1.0,
    windows: int = WINDOWS,
    learned: int = 0,
) -> None:
    """Tell of a reference that cannot carry what is asked, and how many frames would do.

    Args:
        found: The threshold.
        frames: Of the reference.
        window: Frames in the window.
        times: How many times the windows and blocks that T asks for a reference must have.
        windows: How many T asks for.
        learned: Frames beside it, from which the test has learned.
    """
    doubt, together, few = float(found.doubt), float(found.spread) > 1, float(found.slowest) > 1
    blocks = _BLOCKS * (_EPISODES if together else _FEW if few else 1)
    enough = times * max(windows * window, blocks * int(found.block))
    if doubt <= _DOUBT and frames >= enough:
        return
    needed = math.ceil(frames * (min(doubt, 1) / _DOUBT) ** 2 / 10) * 10
    factor = f"{math.exp(2 * doubt):.1f}" if doubt < 1 else "more than 7"
    kind = ""
    if together:
        kind = " (they are large or small together for so long)"
    elif few:
        kind = " (some of their coordinates or features do, longer than others)"
    low, high = (float(end) for end in found.interval)
    enough = math.ceil((frames + learned) / frames * max(needed, enough))
    warn(
        f"the reference is short: {frames} frames{beside(learned)}, {frames / window:.1f} windows, "
        f"which remember {float(found.memory):.1f} frames each{kind}, leave the rate of false "
        f"alarms uncertain by a factor of {factor} either way by their spread alone (threshold "
        f"{float(found.value):.4g}, "
        f"95 % from {low:.4g} to {high:.4g}); about {enough} frames would do",
    )
