"""The anytime-valid test as a stream: `init` draws the witnesses, `step` takes blocks.

    state = init(key)
    state, report = step(state, x, y)

Both are pure, and the state is a pytree of fixed size that saves, loads and goes on. The wealth is
the mean of those of all witnesses, W_t; at any time, P(sup W ≥ 1/α) ≤ α under H0 (`payoff`), so
one may look whenever one likes, and stop when 1 / max W, a p-value at any time, is small enough.

The first `warmup` blocks wait until they are all there: standard coordinates are fixed from their
pooled points, which look at no label, and then they are bet on like the others.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.files import load_leaves, refill, save_leaves, whole_file
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.standard import Standard, blank_standard, standard_of
from ntkmmd_jax.calibration import check_level
from ntkmmd_jax.sequential.bets import ONS, Bet
from ntkmmd_jax.sequential.bettor import Bettor, as_learners, begin, mixed, take_block
from ntkmmd_jax.sequential.payoff import Block, placed
from ntkmmd_jax.sequential.recipe import from_recipe, learners_of, recipe
from ntkmmd_jax.training.streaming import checked_points

_KIND = "sequential.State"  # of its files
_CHUNK = 64  # blocks of one program: batches of any length are the same computation


@record
class Report:
    """What `step` says after its blocks."""

    n: jax.Array  # () blocks so far; of pairs, samples of each
    log_wealth: jax.Array  # () log W
    peak: jax.Array  # () log of the largest W so far
    path: jax.Array  # (k,) log W after each of the blocks taken
    level: jax.Array  # () α

    @property
    def evalue(self) -> Any:
        """W, evidence against H0; infinite where float32 ends, at 3e38."""
        return jnp.exp(self.log_wealth)

    @property
    def pvalue(self) -> Any:
        """1 / max W, at most 1: a p-value at any time."""
        return jnp.exp(-self.peak)

    @property
    def reject(self) -> Any:
        """Whether W has reached 1/α, now or before."""
        return self.peak >= -jnp.log(self.level)


@record
class State:
    """All that the test knows; `init` makes it."""

    bettor: Bettor  # the witnesses, and what they stake
    standard: Standard  # coordinates that points are seen in
    waiting: jax.Array  # (warmup, 1 + c, ...) the first blocks, until they are all there
    wealth: jax.Array  # (k,) log W of every witness
    peak: jax.Array  # () log of the largest mean W so far
    n: jax.Array  # () blocks so far
    key: jax.Array  # for the places of points, and the order in which the first are summed
    level: jax.Array  # () α
    features: tuple[int, ...] = static()  # shape of one point
    block: tuple[int, int] = static()  # points of x and of y in a block; one of them is 1

    @property
    def names(self) -> tuple[str, ...]:
        """Of the witnesses."""
        return self.bettor.names

    @property
    def log_wealth(self) -> jax.Array:
        """log of the mean wealth."""
        return mixed(self.wealth)

    def report(self) -> Report:
        """The state of affairs, without another block."""
        none = jnp.zeros(0, self.wealth.dtype)
        return Report(self.n, self.log_wealth, self.peak, none, self.level)

    def save(self, path: str | os.PathLike) -> Path:
        """Save to one `.npz` file, as a whole or not at all; `load` goes on from it."""
        return save_leaves(path, self, kind=_KIND, **self.describe())

    def describe(self) -> dict[str, Any]:
        """What a file says of the state beside its leaves; `blank` is the way back."""
        about: dict[str, Any] = {"learners": [recipe(one) for one in self.bettor.learners]}
        about |= {"bet": recipe(self.bettor.bet), "features": self.features}
        return about | {"block": self.block, "warmup": len(self.waiting)}

    @staticmethod
    def blank(described: dict[str, Any], network: Any = None) -> "State":
        """A state of shapes only, to be refilled with saved leaves."""
        learners = learners_of(described["learners"], network)
        about: dict[str, Any] = {"bet": from_recipe(described["bet"])}
        about |= {"block": tuple(described["block"]), "warmup": described["warmup"]}
        features = tuple(described["features"])
        return jax.eval_shape(lambda key: init(key, learners, features, **about), jax.random.key(0))


def init(
    key: Any,
    network: Any = None,
    features: int | tuple[int, ...] | np.ndarray | jax.Array | None = None,
    *,
    bet: Bet | None = None,
    level: float = 0.05,
    block: tuple[int, int] = (1, 1),
    warmup: int = 32,
) -> State:
    """Begin a test.

    Args:
        key: A JAX key or an int seed.
        network: What bets: a network, for the exact witness of its tangent kernel; witnesses that
            learn (`Exact`, `Trained`, `Ridge`), one or several, whose wealths are averaged; or
            None for a mixture of ridge witnesses at several scales.
        features: Shape of one point, or the number of its coordinates; or some points.
        bet: `ONS()`, the default, or `AGRAPA()`.
        level: α, at which a report rejects.
        block: Points of x and of y that are bet on together, one of them 1: (1, 1) are pairs, (1,
            5) fits streams of which y brings five times as many.
        warmup: Blocks from whose pooled points standard coordinates are fixed before they are bet
            on; 0 takes points as they are.
    """
    if features is None:
        raise ValueError("init needs the shape of one point: features=10 for 10 coordinates")
    if isinstance(features, np.ndarray | jax.Array):  # points, of which only the shape is taken
        features = features.shape[1:]
    features = (features,) if isinstance(features, int | np.integer) else tuple(features)
    block = check_block(block)
    whole("warmup", warmup, 0)
    check_level(level)
    k_bettor, k_standard = jax.random.split(as_key(key))
    bettor = begin(k_bettor, as_learners(network), bet or ONS(), features)
    k, dtype = len(bettor.names), jnp.result_type(float)
    points = jax.ShapeDtypeStruct((sum(block), *features), dtype)
    shapes = blank_standard(points)
    standard = Standard(jnp.zeros(shapes.mean.shape), jnp.ones(shapes.scale.shape))
    waiting = jnp.zeros((warmup, sum(block), *features), dtype)
    zero = jnp.zeros((), dtype)
    counts = (jnp.zeros((), jnp.int32), k_standard, jnp.asarray(level, dtype))
    about: dict[str, Any] = {"features": features, "block": block}
    return State(bettor, standard, waiting, jnp.zeros(k, dtype), zero, *counts, **about)


def check_block(block: Any) -> tuple[int, int]:
    """Two whole numbers, one of which is 1."""
    sizes = tuple(block) if isinstance(block, tuple | list) else ()
    if len(sizes) != 2 or min(sizes) != 1 or not all(isinstance(one, int) for one in sizes):
        raise ValueError(f"block must be a pair of whole numbers, one of them 1; got {block!r}")
    return sizes


def step(state: State, x: Any, y: Any) -> tuple[State, Report]:
    """Take blocks in order: the new state, and a report.

    Batches of any size give the same wealth. Points that are not finite, of another width, or no
    whole number of blocks are an error, and the state given is as it was.

    Args:
        state: As `init` or the last `step` gave it.
        x: Points (m · block[0], ...), or a single one.
        y: Points (m · block[1], ...), likewise: the i-th pair is x[i], y[i].
    """
    points = _blocks(state, x, y)
    m = len(points)
    rows = -(-m // _CHUNK) * _CHUNK
    fill = jnp.zeros((rows - m, *points.shape[1:]), points.dtype)
    chunks = jnp.concatenate([points, fill]).reshape(-1, _CHUNK, *points.shape[1:])
    present = jnp.asarray(np.arange(rows) < m).reshape(-1, _CHUNK)
    paths = []
    for chunk, real in zip(chunks, present, strict=True):
        state, path = _steps(state, chunk, real)
        paths.append(path)
    if not isinstance(state.wealth, Tracer) and not bool(jnp.isfinite(state.wealth).all()):
        lost = [n for n, w in zip(state.names, state.wealth, strict=True) if not jnp.isfinite(w)]
        raise ValueError(
            f"the wealth is not a number: what {lost[0]!r} learned diverges; take a smaller "
            "learning rate"
        )
    return state, dataclasses.replace(state.report(), path=jnp.concatenate(paths)[:m])


def _blocks(state: State, x: Any, y: Any) -> jax.Array:
    """Checked points as blocks (m, 1 + c, ...), the one that stands alone first."""
    singles = (_single(batch, state.features) for batch in (x, y))
    parts = [checked_points(state, batch, name) for name, batch in zip("xy", singles, strict=True)]
    counts = [len(points) for points in parts]
    m = counts[0] // state.block[0]
    if m == 0 or counts != [m * size for size in state.block]:
        what = "as many points of x as of y" if state.block == (1, 1) else f"blocks {state.block}"
        raise ValueError(
            f"step takes {what}; got {counts[0]} and {counts[1]}. `Watch` keeps what is left over"
        )
    pairs = zip(parts, state.block, strict=True)
    shaped = [points.reshape(m, size, *state.features) for points, size in pairs]
    return jnp.concatenate(shaped if state.block[0] == 1 else shaped[::-1], axis=1)


def _single(batch: Any, features: tuple[int, ...]) -> Any:
    """A single point as a batch of one."""
    shape = np.shape(batch) if not isinstance(batch, jax.Array) else batch.shape
    return jnp.reshape(jnp.asarray(batch), (1, *features)) if shape == features else batch


@jit
def _steps(state: State, points: jax.Array, present: jax.Array) -> tuple[State, jax.Array]:
    """The blocks of a chunk, one after the other; those that are not there change nothing."""

    def one(state: State, given: tuple) -> tuple[State, jax.Array]:
        points, real = given
        state = jax.lax.cond(real, lambda: _take(state, points), lambda: state)
        return state, state.log_wealth

    return jax.lax.scan(one, state, (points, present))


def _take(state: State, points: jax.Array) -> State:
    """One block: it waits, is the last that was waited for, or is bet on."""
    warmup, n = len(state.waiting), state.n + 1
    if warmup == 0:
        return dataclasses.replace(bet_on(state, points), n=n)

    def wait() -> State:
        return dataclasses.replace(state, waiting=waiting)

    def start() -> State:
        pooled = waiting.reshape(-1, *state.features)
        k_order = jax.random.fold_in(state.key, 2**31)  # blocks have 0, 1, …
        begun = dataclasses.replace(state, standard=standard_of(k_order, pooled))
        begun = jax.lax.scan(lambda old, one: (bet_on(old, one), None), begun, waiting)[0]
        return dataclasses.replace(begun, waiting=jnp.zeros_like(waiting))

    waiting = state.waiting.at[state.n].set(points, mode="drop")
    stage = (n >= warmup).astype(jnp.int32) + (n > warmup).astype(jnp.int32)
    taken = jax.lax.switch(stage, [wait, start, lambda: bet_on(state, points)])
    return dataclasses.replace(taken, n=n)


def bet_on(state: State, points: jax.Array) -> State:
    """A block (1 + c, ...), of which the first stands alone: bet, learn, and count the wealth."""
    sign = jnp.asarray(1.0 if state.block[0] == 1 else -1.0, points.dtype)
    size = jnp.asarray(len(points) - 1, jnp.int32)
    place = jax.random.randint(jax.random.fold_in(state.key, state.bettor.n), (), 0, len(points))
    block = Block(placed(state.standard(points), place), place, sign, size)
    bettor, log_e = take_block(state.bettor, block)
    wealth = state.wealth + log_e
    peak = jnp.maximum(state.peak, mixed(wealth))
    return dataclasses.replace(state, bettor=bettor, wealth=wealth, peak=peak)


def load(path: str | os.PathLike, *, network: Any = None) -> State:
    """The saved state of a test, to go on with.

    Args:
        path: What `State.save` wrote.
        network: The network or witnesses that `init` was given, only if there is a function of your
            own among them, which no file can hold.
    """
    leaves, header = load_leaves(path, _KIND)
    with whole_file(path):
        return refill(State.blank(header, network), leaves, source=str(path))
