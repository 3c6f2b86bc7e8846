"""One block of frames: watch by the reference, or gather a new one.

A frame goes into the buffer, its row of the kernel into S of all lengths, and at a look T, the
largest z or the CUSUM W is held against the threshold. An event, an alarm where the look before had
none, ends a block if a new reference is to follow it.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.changepoint.by_rows import moved
from ntkmmd_jax.changepoint.rows import grown, seen
from ntkmmd_jax.changepoint.state import BLOCK, State, first_time, start
from ntkmmd_jax.changepoint.threshold import given


@record
class Report:
    """What `step` says of each of its k frames."""

    times: jax.Array  # (k,) index of the frame in the stream
    looked: jax.Array  # (k,) bool: whether there was a look after it
    statistics: jax.Array  # (k,) T, where looked; else NaN
    alarms: jax.Array  # (k,) bool: T exceeds the threshold
    events: jax.Array  # (k,) bool: an alarm where the look before had none

    @property
    def first_alarm(self) -> int | None:
        """The frame at which the first alarm is raised, or None."""
        return first_time(self.times, self.alarms)


def advance(state: State, frames: jax.Array, n: jax.Array) -> tuple[State, Report, jax.Array]:
    """Take some of the first n of `BLOCK` frames, and say how many: watch, or gather."""
    if state.after == "hold":
        return watch(state, frames, n)
    return jax.lax.cond(state.count < 0, gather, watch, state, frames, n)


def watch(state: State, frames: jax.Array, n: jax.Array) -> tuple[State, Report, jax.Array]:
    """Put frames into the present block, up to its end or an event, and look."""
    begin = state.filled
    n = jnp.minimum(n, BLOCK - begin)
    row = jnp.arange(BLOCK)
    new = (row >= begin) & (row < begin + n)
    apart = (BLOCK,) + (1,) * (frames.ndim - 1)
    placed = jnp.roll(state.chart.standard(frames), begin, axis=0)
    block = jnp.where(new.reshape(apart), placed, state.buffer[-BLOCK:])
    state = dataclasses.replace(state, buffer=state.buffer.at[-BLOCK:].set(block))
    counts, times = state.count + row - begin + 1, state.time + row - begin
    looked = new & (counts >= state.first) & (counts % state.stride == 0)
    state, alarmed, report = _look(state, block, new, counts, looked, times)
    if state.after == "rereference":
        event = report.events.any()
        n = jnp.where(event, jnp.argmax(report.events) - begin + 1, n)
        count = jnp.where(event, -state.frames, state.count + n)
        alarmed = alarmed & ~event
    else:
        count = state.count + n
    state = dataclasses.replace(
        state, count=count, time=state.time + n, filled=begin + n, alarmed=alarmed
    )
    report = jax.tree.map(lambda leaf: jnp.roll(leaf, -begin), report)
    return _closed(state), report, n


def _look(
    state: State,
    block: jax.Array,
    new: jax.Array,
    counts: jax.Array,
    looked: jax.Array,
    times: jax.Array,
) -> tuple[State, jax.Array, Report]:
    """T at the looks of a block, one frame after the other."""
    rows, kernel, cusum, memory = state.rows, state.kernel, state.cusum, state.memory
    lengths = jnp.arange(1, state.window + 1)
    added = jnp.zeros((BLOCK, 0), block.dtype)
    if rows is not None and memory is not None:
        memory, added = seen(rows, memory, block)

    def of_rows(sums: jax.Array, count: jax.Array) -> jax.Array:
        if state.shortest is None:
            return sums[-1] / state.window**2
        z = state.moments.standard(sums / lengths.astype(sums.dtype) ** 2)
        return jnp.max(jnp.where((lengths >= state.shortest) & (lengths <= count), z, -jnp.inf))

    def of_test(at: jax.Array, time: jax.Array) -> jax.Array:
        first = len(state.buffer) - BLOCK + at + 1 - state.window
        recent = jax.lax.dynamic_slice_in_dim(state.buffer, first, state.window)
        if cusum is not None and cusum.halves is not None and kernel is not None:
            return cusum.halves.gain(kernel, recent[: -state.stride], recent[-state.stride :])
        if state.moved is not None:
            return state.chart.apart(state.moved, len(state.reference), recent)
        return state.chart(jax.random.fold_in(state.key, time), state.reference, recent)

    def frame(carry: tuple, given: tuple) -> tuple:
        sums, total, alarmed = carry
        at, added, new, count, looked, time = given
        nothing = jnp.full((), jnp.nan, block.dtype)
        if rows is not None:
            sums = jnp.where(new, grown(sums, added), sums)
            statistic = jnp.where(looked, of_rows(sums, count), nothing)
        else:
            statistic = jax.lax.cond(looked, lambda: of_test(at, time), lambda: nothing)
        if cusum is not None:
            more = jnp.maximum(0, total + statistic / cusum.unit - cusum.drift)
            total = jnp.where(looked, more, total)
            statistic = jnp.where(looked, more, nothing)
        alarm = looked & (statistic > state.threshold)
        event = alarm & ~alarmed
        carry = sums, total, jnp.where(looked, alarm, alarmed)
        return carry, Report(time, looked, statistic, alarm, event)

    zero = jnp.zeros(0, block.dtype)
    sums = zero if rows is None or memory is None else memory.sums
    total = jnp.zeros((), block.dtype) if cusum is None else cusum.total
    given = (jnp.arange(BLOCK), added, new, counts, looked, times)
    (sums, total, alarmed), report = jax.lax.scan(frame, (sums, total, state.alarmed), given)
    if rows is not None and memory is not None:
        memory = dataclasses.replace(memory, sums=sums)
    if cusum is not None:
        cusum = dataclasses.replace(cusum, total=total)
    return dataclasses.replace(state, memory=memory, cusum=cusum), alarmed, report


def _closed(state: State) -> State:
    """With room for another block, if the present one is full."""
    full = state.filled == BLOCK

    def moved(leaf: jax.Array) -> jax.Array:
        return jnp.where(full, jnp.concatenate([leaf[BLOCK:], leaf[:BLOCK]]), leaf)

    memory = state.memory
    if memory is not None:
        memory = dataclasses.replace(memory, codes=moved(memory.codes), gaps=moved(memory.gaps))
    return dataclasses.replace(
        state, memory=memory, buffer=moved(state.buffer), filled=jnp.where(full, 0, state.filled)
    )


def gather(state: State, frames: jax.Array, n: jax.Array) -> tuple[State, Report, jax.Array]:
    """Put frames into the new reference; once it is whole, watch by it."""
    n = jnp.minimum(n, -state.count)
    at = state.frames + state.count
    pending = jax.lax.dynamic_update_slice_in_dim(state.pending, frames, at, 0)
    times = state.time + jnp.arange(BLOCK)
    state = dataclasses.replace(state, pending=pending, time=state.time + n, count=state.count + n)
    state = jax.lax.cond(state.count == 0, renewed, lambda state: state, state)
    none = jnp.zeros(BLOCK, bool)
    nothing = jnp.full(BLOCK, jnp.nan, frames.dtype)
    return state, Report(times, none, nothing, none, none), n


def renewed(state: State) -> State:
    """With the reference that has been gathered, and the law of T that goes with it."""
    n = state.frames
    reference = padding.filled(state.pending[:-BLOCK], n)
    chart = state.chart.restandardized(reference, n)
    found = given(state.threshold, state.window)
    found = dataclasses.replace(found, moments=state.moments, interval=state.threshold_interval)
    rows, cusum = state.rows, state.cusum
    if rows is not None:
        found = moved(found, rows, chart.standard(reference), n, state.shortest)
    if cusum is not None:
        cusum = dataclasses.replace(cusum, total=jnp.zeros_like(cusum.total))
    about: Any = {name: getattr(state, name) for name in ("window", "shortest", "stride", "after")}
    about |= {"used": len(state.reference)}
    fresh = start(chart, reference, n, found, state.key, cusum=cusum, **about)
    return dataclasses.replace(fresh, time=state.time, pending=state.pending)
