"""As many permutations as the verdict takes: few where p is large, or where nothing comes near T.

Labellings are drawn one after the other, T_1, T_2, …, and compared with T; "exceeds" is T_l ≥ T.

- None of the first c exceeds T: stop, p = 1/(1 + c). It is clear.
- The h-th that exceeds is T_L: stop, p = 1/(1 + c) + h/L (Besag & Clifford 1991).
- Fewer, g, among B: stop, p = 1/(1 + c) + (1 + g)/(1 + B).

P[p ≤ u] ≤ u under H0, for every u. For T, T_1, T_2, … are exchangeable, so T is among the h largest
of the first l of them with probability h/l at most (ties count against it). Let q be h/L or
(1 + g)/(1 + B). Then q ≤ h/l says L ≥ l: fewer than h of T_1, …, T_{l−1} exceed T, which is that
event; q ≤ (1 + g)/(1 + B), g < h, that T is among the 1 + g largest of 1 + B. So P[q ≤ u] ≤ u. A
first stop has probability 1/(1 + c) at most; hence P[p ≤ u] ≤ 1/(1 + c) + P[q ≤ u − 1/(1 + c)] ≤ u
for u ≥ 1/(1 + c), and no p is smaller.

They are exchangeable because the points take their places once, by a labelling that is drawn as
the others are: under H0 the places say nothing of which it was (see `calibration`). The first chunk
has the observed labelling in a random row; later chunks are new labellings of the same places.
"""

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.padding import number
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.twosample.calibrations import Permuting
from ntkmmd_jax.twosample.evidence import Evidence, Law, Permutable, Permuted, Pool, Relabelled
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.twosample.verdicts import law_result

_CHUNK = 200  # labellings drawn at once


@record
class Adaptive(Permuting):
    """Permute labels until the verdict is clear: some 130 times under H0, 400 where it is plain.

    Its p-value is valid as that of a fixed number is, and known to about 1/√h of itself.

    Attributes:
        at_most: B, the most labellings that are drawn.
        exceedances: h, that many at least as large as T are enough.
        clear: c, none among so many is enough.

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> x = np.random.default_rng(0).normal(size=(60, 3))
        >>> result = ntk.two_sample_test(x[:30], x[30:], method="gmmd", calibration=ntk.Adaptive())
        >>> result.drawn < 400
        True
    """

    word: ClassVar[str] = "adaptive"
    needs: ClassVar[type[Evidence]] = Relabelled

    at_most: int = static(default=9_999, kw_only=True)
    exceedances: int = static(default=20, kw_only=True)
    clear: int = static(default=399, kw_only=True)

    def __post_init__(self) -> None:
        if self.n_permutations is not None or self.shared_pool is not None:
            raise ValueError("Adaptive draws as many permutations as it takes: set at_most")
        whole("at_most", self.at_most, _CHUNK)
        whole("exceedances", self.exceedances)
        whole("clear", self.clear)
        if self.clear > self.at_most:
            raise ValueError(f"clear = {self.clear} is more than at_most = {self.at_most}")

    def numbered(self, test: Any) -> "Adaptive":
        """The same: its numbers are its own."""
        del test
        return self

    def check(self, test: Any) -> None:
        """Refuse a level that cannot be reached, and a statistic that is a rank in its pool."""
        calibration.check_level(test.level)
        if test.ranks:
            raise ValueError(
                f"{test.described} ranks the labellings of one pool, whose number is fixed: set "
                "n_permutations"
            )
        level = test.level
        if isinstance(level, int | float) and level < 4 / (1 + self.clear):
            raise ValueError(
                f"clear = {self.clear} leaves too little of level {level}: a stop where it is "
                f"clear costs 1/{1 + self.clear}; use Adaptive(clear={math.ceil(20 / level) - 1}, "
                f"at_most={math.ceil(500 / level) - 1})"
            )

    def result(self, key: jax.Array, evidence: Any, level: Any) -> TwoSampleResult:
        """The statistic among as many labellings as it takes."""

        def chunk(which: Any) -> Permuted:
            pool = Pool(n_permutations=_CHUNK - 1, chunk=which)
            if isinstance(evidence, Permutable):
                return evidence.permuted(key, pool)
            return evidence.refitted(key, pool)

        first = chunk(0)
        statistic = first.null.values[first.observed]
        reach = statistic - first.null.tolerance
        chunks = math.ceil((self.at_most - (_CHUNK - 1)) / _CHUNK)
        some = calibration.without(first.null.values, first.observed)
        null = jnp.concatenate([some, jnp.full(chunks * _CHUNK, -jnp.inf, some.dtype)])

        def undecided(state: tuple[jax.Array, jax.Array]) -> jax.Array:
            which, null = state
            seen = self._seen(null, reach)
            clear = (seen[self.clear - 1] == 0) & (which * _CHUNK > self.clear)
            return (which <= chunks) & (seen[-1] < self.exceedances) & ~clear

        def draw(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            which, null = state
            values = chunk(which).null.values
            start = which * _CHUNK - 1
            return which + 1, jax.lax.dynamic_update_slice_in_dim(null, values, start, 0)

        start = (jnp.asarray(1, jnp.int32), null)
        null = jax.lax.while_loop(undecided, draw, start)[1][: self.at_most]
        pvalue, drawn = self._pvalue(self._seen(null, reach))
        pvalue = jnp.where(jnp.isnan(statistic), jnp.nan, pvalue).astype(statistic.dtype)
        most = jnp.sort(jnp.where(jnp.arange(len(null)) < drawn, null, -jnp.inf))[::-1]
        allowed = jnp.clip(jnp.floor(level * number(drawn)).astype(int) - 1, 0, len(null) - 1)
        law = Law(statistic, pvalue, most[allowed], witness=first.witness)
        found = law_result(law, level)
        return dataclasses.replace(found, null=null, drawn=drawn, members=first.members)

    def _seen(self, null: jax.Array, reach: jax.Array) -> jax.Array:
        """How many of the first l exceed T, for every l; what is not drawn does not."""
        drawn = null[: self.at_most]
        return jnp.cumsum(~(drawn < reach))  # NaN counts as exceeding

    def _pvalue(self, seen: jax.Array) -> tuple[jax.Array, jax.Array]:
        """p, and how many labellings it comes from."""
        b, h, cost = self.at_most, self.exceedances, 1 / (1 + self.clear)
        last = 1 + jnp.sum(seen < h)  # L
        reached, clear = seen[-1] >= h, seen[self.clear - 1] == 0
        q = jnp.where(reached, h / number(last), number(1 + seen[-1]) / (1 + b))
        drawn = jnp.where(clear, self.clear, jnp.where(reached, last, b))
        return jnp.where(clear, cost, jnp.minimum(cost + q, 1)), drawn
