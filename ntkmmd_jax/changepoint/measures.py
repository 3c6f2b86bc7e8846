"""How good is a detector? Run lengths and delays by simulation; where and what has changed.

A run length is the number of frames seen at the first alarm, its own included. ARL is its mean when
nothing changes; the expected detection delay (EDD) is the mean of the frames seen since the change,
with a window full of frames from before it. An alarm at the very frame of the change has delay 1.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import working
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.changepoint.detector import jitted_step
from ntkmmd_jax.changepoint.runs import RunLengths
from ntkmmd_jax.changepoint.state import State
from ntkmmd_jax.changepoint.threshold import look_counts

Source = Callable[..., jax.Array]  # (key, n) -> n frames


def run_lengths(
    key: Any,
    state: State,
    source: Source,
    *,
    before: Source | None = None,
    n_runs: int = 200,
    horizon: int = 1000,
    **parameters: Any,
) -> RunLengths:
    """Simulate streams until `horizon` and find the first alarm of each, all in one program.

    Args:
        key: A JAX key or an int seed.
        state: A detector's, as `init` gives it.
        source: `source(key, n)` draws n frames. Without `before`, of a stream without change, for
            the ARL; else of what follows the change, for the EDD.
        before: Draws the frames before the change; a window full of them precedes it.
        n_runs: Streams.
        horizon: Frames of each stream after the change, or in all without one.
        **parameters: Numbers for `source(key, n, **parameters)`, traced: a curve of delays over the
            size of a change compiles once.
    """
    looks = look_counts(horizon, state.first if before is None else 1, state.stride)
    if not len(looks):
        raise ValueError(f"a horizon of {horizon} frames has no look: the window does not fill")
    keys = jax.random.split(as_key(key), n_runs)
    parameters = {name: jnp.asarray(value) for name, value in parameters.items()}
    with working(f"{n_runs} streams"):
        given: Any = {"source": source, "before": before, "horizon": horizon}
        first = jax.block_until_ready(_first_alarms(state, keys, parameters, **given))
    about = {"horizon": int(looks[-1]), "first": int(looks[0])}
    return RunLengths(jnp.minimum(first, looks[-1]), first <= horizon, **about)


@jit(static_argnames=("source", "before", "horizon"))
def _first_alarms(
    state: State,
    keys: jax.Array,
    parameters: dict[str, jax.Array],
    *,
    source: Source,
    before: Source | None,
    horizon: int,
) -> jax.Array:
    """Frames to the first alarm; more than the horizon where there is none."""
    lead = 0 if before is None else -(-state.window // state.stride) * state.stride

    def run(key: jax.Array) -> jax.Array:
        k_before, k_after, k_looks = jax.random.split(key, 3)
        frames = source(k_after, horizon, **parameters)
        if before is not None:
            frames = jnp.concatenate([before(k_before, lead), frames])
        _, report = jitted_step(dataclasses.replace(state, key=k_looks), frames, len(frames))
        alarms = report.alarms[lead:]
        return jnp.where(alarms.any(), 1 + alarms.argmax(), horizon + 1)

    return jax.lax.map(run, keys)


@record
class Explanation:
    """What a window says of the change: since when, and in which coordinates."""

    change: jax.Array  # () index of the frame at which the change seems to start
    scores: jax.Array  # (window,) the witness at its frames: high is like the reference
    gradient: jax.Array  # of the shape of one frame: mean input-gradient of the witness

    @property
    def coordinates(self) -> np.ndarray:
        """Coordinates by how much they drive the change, the strongest first."""
        return np.argsort(-np.abs(np.ravel(self.gradient)))


def explain(state: State) -> Explanation:
    """Locate the change inside the present window, and the coordinates that drive it.

    The witness is high where the reference has more mass and low where the window has. The change
    is put where the scores of the window, in the order of time, fall apart best into two levels by
    least squares; that supposes that it lies inside the window, as it does when an alarm is fresh.
    The gradient is the mean of ∇g over the window, in units of the reference's spread: the witness
    falls fastest against it, which is how the new frames differ.

    Args:
        state: A detector's, with a full window, of a test with a witness.
    """
    if not _is_full(state):
        raise ValueError(f"the window is not full yet: {int(state.count)} of {state.window} frames")
    if not _has_witness(state):
        method = state.chart.test.method
        raise ValueError(f"{method} has no witness, which would say where; use another test")
    return _explain(state)


def can_explain(state: State) -> bool:
    """Whether `explain` has an answer: the window is full, and the test has a witness."""
    return _is_full(state) and _has_witness(state)


def _is_full(state: State) -> bool:
    return not 0 <= state.count < state.window  # negative: after an event, it is still there


def _has_witness(state: State) -> bool:
    return jax.eval_shape(state.witness) is not None


@jit
def _explain(state: State) -> Explanation:
    witness, frames = state.witness(), state.recent
    scores = witness(frames)
    gradient = jax.grad(lambda points: witness(points).mean())(frames).sum(0)
    n = len(scores)
    old = jnp.arange(1, n, dtype=scores.dtype)  # frames before the change
    total = jnp.cumsum(scores)
    gap = total[:-1] / old - (total[-1] - total[:-1]) / (n - old)
    split = 1 + jnp.argmax(old * (n - old) * gap**2)
    return Explanation(state.time - n + split, scores, gradient)
