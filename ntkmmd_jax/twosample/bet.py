"""The bet (Shekhar & Ramdas 2024): pairs in random order, each bet on before it is learned from.

    T = max_t log W_t,   p = exp(−T),   rejected where W has reached 1/α, at whatever time.

All data train and all data test, and no label is permuted. What it costs to be allowed to look at
any time is power at the last; what it brings is `result.wealth.stop`, where one could have stopped.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.networks import Network
from ntkmmd_jax.pooled import pooled
from ntkmmd_jax.sequential.bets import ONS, Bet
from ntkmmd_jax.sequential.bettor import Bettor, as_learners, begin
from ntkmmd_jax.sequential.learners import Learner
from ntkmmd_jax.sequential.mixture import BetWitness
from ntkmmd_jax.sequential.recorded import RATIO, Wealth, blocks, run
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.evidence import Comparable, Samples, Wagered
from ntkmmd_jax.twosample.result import TwoSampleResult


@record
class Bets(Wagered, Comparable):
    """The wealth of all witnesses after every block."""

    bettor: Bettor
    logs: jax.Array  # (m, k)
    features: tuple[int, ...] = static()

    @property
    def witness(self) -> BetWitness:
        """What was learned of all blocks."""
        shares = jax.nn.softmax(self.logs[-1])
        return BetWitness(self.bettor, shares, features=self.features)

    def wealth(self, level: Any) -> Wealth:
        """All of it."""
        return Wealth(self.logs, jnp.asarray(level, self.logs.dtype), names=self.bettor.names)

    def statistic(self) -> jax.Array:
        """max log W, at least 0."""
        return self.wealth(1.0).peak


@record
class BettingTest(TwoSampleTest):
    """An anytime-valid test of recorded samples.

    Args:
        network: What bets: a network, for the exact witness of its tangent kernel; witnesses that
            learn (`sequential.Exact`, `Trained`, `Ridge`), one or several, whose wealths are
            averaged; None for a mixture of ridge witnesses at several scales.
        bet: `sequential.ONS()` or `AGRAPA()`.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> ntk.BettingTest(bet=ntk.sequential.AGRAPA(), level=0.01).bet
        AGRAPA(most=0.9)
    """

    stops: ClassVar[bool] = True

    network: Any = static(default=None)
    bet: Bet = static(default=ONS())

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", as_learners(self.network))
        super().__post_init__()

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "bet"

    @property
    def learners(self) -> tuple[Learner, ...]:
        """The witnesses that learn."""
        return self.network

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks of the learners."""
        return tuple(dict.fromkeys(learner.network for learner in self.learners))

    @property
    def evidence_type(self) -> type[Bets]:
        """Wealth."""
        return Bets

    def prepare(self, key: jax.Array, points: jax.Array) -> Bettor:
        """Draw the networks."""
        return begin(key, self.learners, self.bet, points.shape[1:])

    @property
    def pads_up_to(self) -> int:
        """As long as a program is soon run."""
        return 16_384

    def pads(self, n_x: int, n_y: int) -> bool:
        """Whether samples of these sizes share a program: neither is much the smaller."""
        return max(n_x, n_y) <= RATIO * min(n_x, n_y) and super().pads(n_x, n_y)

    def answer(
        self, key: Any, x: jax.Array, y: jax.Array, within: Any = None, **how: bool
    ) -> TwoSampleResult:
        """The result, with the wealth after the blocks that there are."""
        result = super().answer(key, x, y, within, **how)
        if not how.get("bucket") or result.wealth is None:
            return result
        wealth, m = result.wealth, min(len(x), len(y))
        wealth = dataclasses.replace(wealth, logs=np.asarray(wealth.logs)[:m])
        return dataclasses.replace(result, wealth=wealth)

    def evidence(self, key: jax.Array, prepared: Bettor, train: Samples, held: Samples) -> Bets:
        """Bet on all blocks, in random order."""
        del held  # the same
        samples = pooled(train)
        m = padding.at_most(samples.n_x, samples.n_y)
        bettor, logs = run(prepared, blocks(key, samples), m)
        return Bets(bettor, logs, features=samples.points.shape[1:])

    def scratch(self, n: int) -> int:
        """What the witnesses know, in one dimension: the sums of ridges do not depend on it."""
        del n
        known = jax.eval_shape(lambda key: self.prepare(key, jnp.zeros((1, 1))), jax.random.key(0))
        return 2 * sum(leaf.size for leaf in jax.tree.leaves(known))
