"""The e-detector: bets on reference frame against new frame, in a CUSUM of evidence.

    M_t = E_t · max(M_{t−1}, 1),   alarm at M_t ≥ A,   E_t = 1 + λ_t F_t as in `sequential`.

**What holds.** As long as frames are exchangeable with those of the reference, E[E_t | before] = 1,
so M is at most the sum over all beginnings j ≤ t of the wealths Π_{i=j..t} E_i, whose mean is t:
the average run length to a false alarm is at least A, in compared frames, without any simulation
and for any law (Shin, Ramdas & Rinaldo 2024). The same of the mean over several witnesses, which is
M here. It does *not* hold of frames that depend on each other: neighbours resemble each other more
than they do the reference. Take every r-th frame, r as long as the dependence lasts.

**The reference never runs out.** A pair is fair only if neither of its frames has been used before.
So reference frames are taken from a queue, and when it is down to `reserve`, every other new frame
joins its end instead of being compared: fresh when its turn comes, and older than a change for
`reserve` pairs to come. (Conformal p-values against a fixed reference are not independent given
it, and would hold on average over references only.)

Where M falls to 1 a new beginning is as good, and the bets begin anew. Witnesses forget.
"""

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.files import load_leaves, refill, save_leaves, whole_file
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_points, check_finite
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.standard import Standard, standard_of
from ntkmmd_jax.changepoint.detector import as_frames
from ntkmmd_jax.changepoint.watch import Report
from ntkmmd_jax.networks import fourier, mlp
from ntkmmd_jax.sequential.bets import ONS, Bet
from ntkmmd_jax.sequential.bettor import Bettor, as_learners, begin, mixed, take_block
from ntkmmd_jax.sequential.learners import Exact, Learner
from ntkmmd_jax.sequential.payoff import Block, placed
from ntkmmd_jax.sequential.recipe import from_recipe, learners_of, recipe
from ntkmmd_jax.sequential.ridge import Ridge

DEFAULT: tuple[Learner, ...] = (
    Exact(mlp(64), memory=50),
    Ridge(fourier(64), scale=1 / 2, ridges=(0.3, 3.0), memory=100),
    Ridge(fourier(64), scale=2.0, ridges=(0.3, 3.0), memory=100),
    Ridge(fourier(64, additive=True), scale=3 / 2, ridges=(0.3, 3.0), memory=100),
)
_KIND = "e-detector's state"  # of its files


@record
class State:
    """All that the e-detector knows; `init` makes it."""

    bettor: Bettor  # the witnesses, and what they stake
    standard: Standard  # coordinates that frames are seen in
    queue: jax.Array  # (R, ...) frames to compare with, standardised; a ring
    first: jax.Array  # () index of the oldest that is unused
    left: jax.Array  # () how many are
    evidence: jax.Array  # (k,) log M of every witness
    arl: jax.Array  # () A
    key: jax.Array  # for the places of frames in their pairs
    time: jax.Array  # () index of the next frame
    alarmed: jax.Array  # () bool: whether the last comparison was an alarm
    joined: jax.Array  # () bool: whether the last frame joined the queue
    reserve: int = static()  # frames that the queue keeps

    @property
    def features(self) -> tuple[int, ...]:
        """Shape of one frame."""
        return self.queue.shape[1:]

    @property
    def log_evidence(self) -> jax.Array:
        """log M."""
        return mixed(self.evidence)

    def save(self, path: str | os.PathLike) -> Path:
        """Save to one `.npz` file, as a whole or not at all; `load` goes on from it."""
        about: dict[str, Any] = {"learners": [recipe(one) for one in self.bettor.learners]}
        about |= {"bet": recipe(self.bettor.bet), "queue": self.queue.shape}
        return save_leaves(path, self, kind=_KIND, reserve=self.reserve, **about)


def load(path: str | os.PathLike, *, network: Any = None) -> State:
    """The saved state of an e-detector, to go on with.

    Args:
        path: What `State.save` wrote.
        network: What `init` was given, only if there is a function of your own in it.
    """
    leaves, header = load_leaves(path, _KIND)
    with whole_file(path):
        learners = learners_of(header["learners"], network)
        bet, reserve = from_recipe(header["bet"]), int(header["reserve"])

        def blank(key: jax.Array) -> State:
            queue = jnp.zeros(header["queue"])
            standard = standard_of(key, queue)
            return _start(key, learners, bet, standard, queue, 1.0, reserve, 0)

        return refill(jax.eval_shape(blank, jax.random.key(0)), leaves, source=str(path))


def init(
    key: Any,
    reference: Any,
    network: Any = None,
    *,
    arl: float = 1000.0,
    bet: Bet | None = None,
    warmup: int | None = None,
    reserve: int | None = None,
    time: int = 0,
) -> State:
    """Begin to watch.

    Args:
        key: A JAX key or an int seed.
        reference: Frames without change, array-like (N, ...).
        network: What bets, as for `sequential.init`; None for witnesses that forget.
        arl: A, which the average run length to a false alarm is at least.
        bet: `sequential.ONS()` or `AGRAPA()`.
        warmup: Frames of the reference that fix standard coordinates, and are used up by that; a
            quarter by default, and at most 64.
        reserve: Frames that the queue keeps; half of it by default.
        time: Index of the first frame to come.
    """
    reference = as_points(reference, "the reference")
    if not isinstance(reference, Tracer):
        check_finite(reference, "the reference")
    n = len(reference)
    if n < 8:
        raise ValueError(f"the reference needs 8 frames or more; got {n}")
    warmup = min(64, n // 4) if warmup is None else warmup
    whole("warmup", warmup, 2)
    if n - warmup < 4:
        raise ValueError(f"{warmup} of {n} reference frames for the warm-up leave fewer than 4")
    reserve = (n - warmup) // 2 if reserve is None else reserve
    whole("reserve", reserve, 1)
    if reserve >= n - warmup:
        raise ValueError(f"reserve must be below the {n - warmup} frames of the queue: {reserve}")
    if not 1 < arl < math.inf:
        raise ValueError(f"arl must exceed 1 and be finite; got {arl!r}")
    learners = DEFAULT if network is None else as_learners(network)
    k_order, k_state = jax.random.split(as_key(key))
    shuffled = jax.random.permutation(k_order, reference)
    standard = standard_of(k_order, shuffled[:warmup])
    queue = standard(shuffled[warmup:])
    return _start(k_state, learners, bet or ONS(), standard, queue, arl, reserve, time)


def _start(
    key: jax.Array,
    learners: tuple[Learner, ...],
    bet: Bet,
    standard: Standard,
    queue: jax.Array,
    arl: float,
    reserve: int,
    time: int,
) -> State:
    k_bettor, k_places = jax.random.split(key)
    bettor = begin(k_bettor, learners, bet, queue.shape[1:])
    zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    numbers = (jnp.zeros(len(bettor.names)), jnp.asarray(arl, queue.dtype), k_places, zero + time)
    return State(
        bettor, standard, queue, zero, zero + len(queue), *numbers, no, no, reserve=reserve
    )


def step(state: State, frames: Any) -> tuple[State, Report]:
    """Take frames (k, ...), or a single one, in order: the new state, and a report on each.

    Its `statistics` are log M, where a frame was compared; `alarms` say M ≥ A.

    Args:
        state: As `init` or the last `step` gave it.
        frames: Array-like, in order.
    """
    return _steps(state, as_frames(frames, state.features))


@jit
def _steps(state: State, frames: jax.Array) -> tuple[State, Report]:
    return jax.lax.scan(take_frame, state, frames)


def take_frame(state: State, frame: jax.Array) -> tuple[State, Report]:
    """One frame: compared with the oldest of the queue or, in turn, joined to its end.

    Args:
        state: Before it.
        frame: Of the shape of one frame.
    """
    frame, time = state.standard(frame[None])[0], state.time
    joins = (state.left <= state.reserve) & ~state.joined
    state = jax.lax.cond(joins, lambda: _join(state, frame), lambda: _compare(state, frame))
    alarm = ~joins & (state.log_evidence >= jnp.log(state.arl))
    event = alarm & ~state.alarmed
    statistic = jnp.where(joins, jnp.nan, state.log_evidence)
    alarmed = jnp.where(joins, state.alarmed, alarm)
    state = dataclasses.replace(state, time=time + 1, alarmed=alarmed, joined=joins)
    return state, Report(time, ~joins, statistic, alarm, event)


def _join(state: State, frame: jax.Array) -> State:
    end = (state.first + state.left) % len(state.queue)
    return dataclasses.replace(state, queue=state.queue.at[end].set(frame), left=state.left + 1)


def _compare(state: State, frame: jax.Array) -> State:
    pair = jnp.stack([state.queue[state.first], frame])
    place = jax.random.randint(jax.random.fold_in(state.key, state.time), (), 0, 2)
    one = jnp.ones((), jnp.int32)
    block = Block(placed(pair, place), place, jnp.ones((), frame.dtype), one)
    bettor, log_e = take_block(_anew(state), block)
    evidence = log_e + jnp.maximum(state.evidence, 0)
    first = (state.first + 1) % len(state.queue)
    rest = {"first": first, "left": state.left - 1, "evidence": evidence}
    return dataclasses.replace(state, bettor=bettor, **rest)


def _anew(state: State) -> Bettor:
    """The bettor, with the bets of witnesses whose evidence is gone as at the beginning."""
    bettor, gone = state.bettor, state.evidence < 0  # at 0, they have begun
    fresh = bettor.bet.init(len(bettor.names))
    bets = jax.tree.map(lambda new, old: jnp.where(gone, new, old), fresh, bettor.bets)
    return dataclasses.replace(bettor, bets=bets)
