"""Bets: which fraction λ_t of its wealth a witness stakes on the next payoff F_t ≥ −1.

    W_t = Π (1 + λ_t F_t),   λ_t in [0, 1), a function of F_1, …, F_{t−1} alone.

*aGRAPA* (Waudby-Smith & Ramdas 2024) stakes what would have been best for the payoffs so far, if
small: λ = Σ F / (1 + Σ F²). The *online Newton step* (Cutkosky & Orabona 2018; of two-sample tests,
Shekhar & Ramdas 2024) follows the gradient z = F / (1 + λF) of the log-wealth at its own pace:
λ ← λ + 2/(2 − ln 3) · z / (1 + Σ z²), at most ½. All numbers are arrays (k,), one per witness.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

BetState = Any  # what a bet remembers of the payoffs: a pytree of arrays (k,)


class Fraction(NamedTuple):
    """What the online Newton step remembers."""

    fraction: jax.Array  # (k,) λ
    curvature: jax.Array  # (k,) 1 + Σ z²


@dataclasses.dataclass(frozen=True)
class ONS:
    """The online Newton step: cautious at first, and the faster the clearer the case.

    Args:
        most: The largest fraction λ to stake, in (0, 1).
        pace: Of the steps: the paper's 2/(2 − ln 3), by default.
    """

    most: float = 0.5
    pace: float = 2 / (2 - math.log(3))

    def __post_init__(self) -> None:
        _check_most(self.most)

    def init(self, k: int) -> Fraction:
        """Stake nothing."""
        return Fraction(jnp.zeros(k), jnp.ones(k))

    def fraction(self, state: Fraction) -> jax.Array:
        """λ_t, shape (k,)."""
        return state.fraction

    def after(self, state: Fraction, payoff: jax.Array) -> Fraction:
        """Take in F_t, shape (k,)."""
        z = payoff / (1 + state.fraction * payoff)
        curvature = state.curvature + z**2
        moved = state.fraction + self.pace * z / curvature
        return Fraction(jnp.clip(moved, 0, self.most), curvature)


class Moments(NamedTuple):
    """What aGRAPA remembers."""

    total: jax.Array  # (k,) Σ F
    squares: jax.Array  # (k,) 1 + Σ F²


@dataclasses.dataclass(frozen=True)
class AGRAPA:
    """The best fraction in hindsight, to second order.

    Args:
        most: The largest fraction λ to stake, in (0, 1).
    """

    most: float = 0.9

    def __post_init__(self) -> None:
        _check_most(self.most)

    def init(self, k: int) -> Moments:
        """Stake nothing."""
        return Moments(jnp.zeros(k), jnp.ones(k))

    def fraction(self, state: Moments) -> jax.Array:
        """λ_t, shape (k,)."""
        return jnp.clip(state.total / state.squares, 0, self.most)

    def after(self, state: Moments, payoff: jax.Array) -> Moments:
        """Take in F_t, shape (k,)."""
        return Moments(state.total + payoff, state.squares + payoff**2)


Bet = ONS | AGRAPA


def _check_most(most: float) -> None:
    if not 0 < most < 1:
        raise ValueError(f"most, the largest fraction to stake, must lie in (0, 1); got {most!r}")
