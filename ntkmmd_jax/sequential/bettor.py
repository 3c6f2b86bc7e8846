"""The bettor: scores a block with the witnesses of all before it, bets, and only then learns.

    s = gaps of the block,  F = payoff(s / ŝ),  log E = log(1 + λF),  then ŝ, λ and g learn.

ŝ² is a running mean of s² that leans to the newer blocks (the share of the t-th is 4 / (t + 4)),
since the witnesses of long ago were others. Nothing of a block is known when it is bet on. What
becomes of the E is for others: their product is the wealth of a test (`state`), their CUSUM that of
a detector (`changepoint.edetector`).
"""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.networks import check_network, fourier, mlp
from ntkmmd_jax.sequential.bets import AGRAPA, ONS, Bet, BetState
from ntkmmd_jax.sequential.learners import Exact, Learned, Learner
from ntkmmd_jax.sequential.payoff import Block, gaps, mean_square, payoff
from ntkmmd_jax.sequential.ridge import Ridge

_RECENT = 3.0  # how much the mean of s² leans to the newer blocks

# Chosen by the time to a rejection on shifts of a mean, a variance, and blobs (benchmarks/anytime).
DEFAULT: tuple[Learner, ...] = (
    Ridge(fourier(128), scale=1 / 8, ridges=(0.03, 0.3)),
    Ridge(fourier(128), scale=1 / 2, ridges=(0.3, 3.0)),
    Ridge(fourier(128), scale=2.0),
    Ridge(fourier(128, additive=True), scale=3 / 2),
    Exact(mlp(64)),
)


@record
class Bettor:
    """What the witnesses know, and what they stake."""

    learned: tuple[Learned, ...]  # one per learner
    square: jax.Array  # (k,) ŝ²
    bets: BetState
    n: jax.Array  # () blocks so far
    learners: tuple[Learner, ...] = static()
    bet: Bet = static()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the k witnesses."""
        return tuple(name for learner in self.learners for name in learner.names)

    def scores(self, points: jax.Array) -> jax.Array:
        """All witnesses at points in standard coordinates, in units of ŝ, shape (k, n)."""
        pairs = zip(self.learners, self.learned, strict=True)
        scores = jnp.concatenate([learner.scores(known, points) for learner, known in pairs])
        return scores / jnp.sqrt(jnp.where(self.square > 0, self.square, 1))[:, None]


def as_learners(given: Any) -> tuple[Learner, ...]:
    """Learners from None (the default), a network (its exact witness), one learner or several."""
    if given is None:
        return DEFAULT
    if isinstance(given, Learner):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, str):
        several = tuple(given)
        if several and all(isinstance(one, Learner) for one in several):
            return several
        if not (len(several) == 2 and all(map(callable, several))):
            raise ValueError(
                "give a network, or witnesses that learn (Exact, Trained, Ridge), at least one; "
                f"got {given!r}"
            )
    return (Exact(given),)


def begin(
    key: jax.Array, learners: tuple[Learner, ...], bet: Bet, features: tuple[int, ...]
) -> Bettor:
    """Witnesses that know nothing yet, for points of a shape."""
    if not isinstance(bet, ONS | AGRAPA):
        raise TypeError(f"bet must be ONS(...) or AGRAPA(...); got {bet!r}")
    for learner in learners:
        check_network(learner.network, features)
    return _begun(key, learners, bet, features)


@jit(static_argnums=(1, 2, 3))
def _begun(
    key: jax.Array, learners: tuple[Learner, ...], bet: Bet, features: tuple[int, ...]
) -> Bettor:
    keys = jax.random.split(key, len(learners))
    learned = tuple(one.init(k, features) for one, k in zip(learners, keys, strict=True))
    k = sum(len(learner.names) for learner in learners)
    about = {"learners": learners, "bet": bet}
    return Bettor(learned, jnp.zeros(k), bet.init(k), jnp.zeros((), jnp.int32), **about)


def take_block(bettor: Bettor, block: Block) -> tuple[Bettor, jax.Array]:
    """Bet on a block in standard coordinates, then learn from it: log E of every witness, (k,)."""
    pairs = list(zip(bettor.learners, bettor.learned, strict=True))
    scores = jnp.concatenate([one.scores(known, block.points) for one, known in pairs])
    learned = tuple(one.learn(known, block) for one, known in pairs)
    s = gaps(block, scores)
    paid = payoff(block, s, jnp.sqrt(bettor.square))
    log_e = jnp.log1p(bettor.bet.fraction(bettor.bets) * paid)
    new = mean_square(block, s)
    share = (1 + _RECENT) / (bettor.n.astype(s.dtype) + 1 + _RECENT)
    share = jnp.where(bettor.square == 0, 1, share)  # the first that says anything
    about: dict[str, Any] = {"learners": bettor.learners, "bet": bettor.bet}
    known = bettor.square + share * (new - bettor.square)
    return Bettor(learned, known, bettor.bet.after(bettor.bets, paid), bettor.n + 1, **about), log_e


def mixed(log_values: jax.Array) -> jax.Array:
    """log of the mean of exp(log_values), over the last axis: a mean of wealths is a wealth."""
    return jax.nn.logsumexp(log_values, axis=-1) - jnp.log(
        jnp.asarray(log_values.shape[-1], log_values.dtype)
    )
