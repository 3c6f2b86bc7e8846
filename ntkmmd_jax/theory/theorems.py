"""Three theorems on power (Cheng & Xie 2021): thresholds, p-values, power and sample sizes.

All are about a kernel with sup K ≤ 1, sample sizes of at least c n, ν ≥ ν_pp, ν_pq, ν_qq and
δ_K = MMD²(p, q), and have one shape:

    λ_1 = √(e log(4/α)),   threshold = o/(cn) + 4 (s λ_1 + λ_(1)) √(ν/(cn)),
    P[T ≤ threshold] ≤ k exp(−λ_2²/e) under H1, for any λ_2 with max λ < 3 √(νcn) and
    a (2 λ_(1) + s (λ_1 + λ_2)) √(ν/(cn)) < δ_K,   and b/(cn) < δ_K.

Test-only bootstrap holds on an event of probability 1 − γ over the training half, which costs
λ_(1) = √(e log(8/γ)), s = √1.1, and 8cn > (λ_(1)/(0.1 ν))²; elsewhere λ_(1) = 0 and s = 1.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.help import with_help


@with_help
@dataclasses.dataclass(frozen=True)
class Guarantee:
    """What a theorem says at one sample size."""

    theorem: str  # which one
    n: int  # all samples, n_X + n_Y
    threshold: float  # of T, for the kernel with sup K ≤ 1
    level: float  # P[reject] under H0 is at most this, if `valid`
    power: float  # P[reject] under H1 is at least this; 0 if δ_K is not given or n is too small
    probability: float  # of the event over the training half on which it holds, 1 − γ
    conditions: dict[str, bool]  # each condition on n, in words

    @property
    def valid(self) -> bool:
        """Whether the conditions for the level hold."""
        return all(holds for text, holds in self.conditions.items() if "δ_K" not in text)


@with_help
@dataclasses.dataclass(frozen=True)
class Theorem:
    """One of the three; the constants are those of the module's formulas.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> c = ntk.theory.balance(500, 500)
        >>> ntk.theory.SYMMETRIC.sample_size(0.8, delta=0.1, nu=0.05, balance=c)
        71720
    """

    name: str  # in words
    exponent: float  # e of the formulas
    misses: float  # k of the formulas
    gap: float  # a of the formulas
    offset: float = 0.0  # o of the formulas
    bias: float = 0.0  # b of the formulas
    on_event: bool = False  # whether it holds on an event over the training half only

    @property
    def spread(self) -> float:
        """The factor s."""
        return math.sqrt(1.1) if self.on_event else 1.0

    def event(self, gamma: Any) -> Any:
        """λ_(1)."""
        return jnp.sqrt(self.exponent * jnp.log(8 / gamma)) if self.on_event else 0.0

    def threshold(self, cn: Any, nu: Any, level: Any = 0.05, *, gamma: Any = 0.05) -> jax.Array:
        """The threshold at smallest sample size cn; everything may be traced."""
        first = jnp.sqrt(self.exponent * jnp.log(4 / jnp.asarray(level)))
        unit = 4 * jnp.sqrt(nu / cn)
        return self.offset / cn + (self.spread * first + self.event(gamma)) * unit

    def pvalue(self, statistic: Any, cn: Any, nu: Any, *, gamma: Any = 0.05) -> jax.Array:
        """The smallest level whose threshold lies below the statistic, by inverting the bound."""
        over = (statistic - self.offset / cn) / (4 * jnp.sqrt(nu / cn))
        first = (over - self.event(gamma)) / self.spread
        first = jnp.clip(first, 0, 3 * jnp.sqrt(nu * cn))  # beyond, the bound says no more
        least = jnp.finfo(jnp.result_type(float)).tiny
        return jnp.clip(4 * jnp.exp(-(first**2) / self.exponent), least, 1.0)

    def guarantee(
        self,
        n: int,
        *,
        balance: float,
        nu: float,
        level: float = 0.05,
        gamma: float = 0.05,
        delta: float | None = None,
    ) -> Guarantee:
        """Threshold, level and power at n samples, and which conditions hold.

        Args:
            n: All samples, n_X + n_Y.
            balance: c, or c_a for a split test (see `balance`).
            nu: A bound on ν_pp, ν_pq and ν_qq of the normalised kernel.
            level: α.
            gamma: γ, of test-only bootstrap.
            delta: δ_K of the normalised kernel, for the power.
        """
        _check(balance=balance, nu=nu, level=level, gamma=gamma)
        cn = balance * n
        first = math.sqrt(self.exponent * math.log(4 / level))
        event = float(self.event(gamma))
        largest = 3 * math.sqrt(nu * cn)
        conditions = {"n > λ_1² / (9 ν c)": max(first, event) < largest}
        if self.on_event:
            conditions["n > (λ_(1) / (0.1 ν))² / (8 c)"] = 8 * cn > (event / (0.1 * nu)) ** 2
        power = 0.0
        if delta is not None:
            if delta <= 0:
                raise ValueError(f"delta must be positive: H1 with δ_K > 0; got {delta!r}")
            room = delta * math.sqrt(cn / nu) / self.gap - 2 * event
            second = min(room / self.spread - first, largest)
            if self.bias:
                conditions[f"n > {self.bias:g} / (c δ_K)"] = cn * delta > self.bias
            conditions["n > (ν/δ_K²) (…)² / c for some λ_2 > 0"] = second > 0
            if second > 0 and all(conditions.values()):
                power = max(0.0, 1 - self.misses * math.exp(-(second**2) / self.exponent))
        threshold = float(self.threshold(cn, nu, level, gamma=gamma))
        probability = 1 - gamma if self.on_event else 1.0
        return Guarantee(self.name, n, threshold, level, power, probability, conditions)

    def sample_size(
        self,
        power: float,
        *,
        delta: float,
        nu: float,
        balance: float,
        level: float = 0.05,
        gamma: float = 0.05,
    ) -> int:
        """The smallest n = n_X + n_Y at which the theorem guarantees a power in (0, 1)."""
        _check(balance=balance, nu=nu, level=level, gamma=gamma, power=power)
        if delta <= 0:
            raise ValueError(f"delta must be positive: H1 with δ_K > 0; got {delta!r}")
        first = math.sqrt(self.exponent * math.log(4 / level))
        second = math.sqrt(self.exponent * math.log(self.misses / (1 - power)))
        event = float(self.event(gamma))
        needed = [
            max(first, second, event) ** 2 / (9 * nu),
            nu / delta**2 * (self.gap * (2 * event + self.spread * (first + second))) ** 2,
            self.bias / delta,
        ]
        if self.on_event:
            needed.append((event / (0.1 * nu)) ** 2 / 8)
        return math.floor(max(needed) / balance) + 1


SYMMETRIC = Theorem("T_NTK without a split", exponent=8, misses=3, gap=8, offset=4, bias=8)
TEST_ONLY = Theorem("T_a, test-only bootstrap", exponent=4, misses=4, gap=4, on_event=True)
FULL = Theorem("T_a, full bootstrap", exponent=8, misses=4, gap=4)


def balance(*sizes: int) -> float:
    """The constant c of the sizes that partition the n samples.

    Args:
        *sizes: Two of an unsplit test, with c n + 1 ≤ n_X, n_Y; or the four of a split one.
    """
    if len(sizes) not in (2, 4) or min(sizes) < 2:
        raise ValueError(f"balance takes n_x, n_y or the four sizes of a split; got {sizes}")
    return (min(sizes) - (len(sizes) == 2)) / sum(sizes)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value <= 1 or (value == 1 and name != "nu"):
            raise ValueError(f"{name} must lie in (0, 1); got {value!r}")
