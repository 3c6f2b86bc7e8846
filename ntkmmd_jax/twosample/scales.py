"""Scales that are prepared, and labelled, by one body of a program.

    T_kl = v_kᵀ Φ(t_kl C_k) v_k   of scale k at its l-th time,

where all k have as many times: what has fewer waits at its last, and that is left out. XLA compiles
a loop once, however often it runs, and a test is compiled for longer than it runs. What is found is
that of the scales each by itself.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.calibration import Relabelling
from ntkmmd_jax.kernels import Filtered
from ntkmmd_jax.kernels.filtered import doublings, fit_doubled
from ntkmmd_jax.kernels.units import RadialUnits
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.twosample.at_times import AtTimes
from ntkmmd_jax.twosample.fused_witness import FusedWitness
from ntkmmd_jax.twosample.members import Member, Scale, Seen


@record
class Together:
    """Several scales at some times each."""

    each: AtTimes  # of arrays (k, ...), at as many times all
    counts: tuple[int, ...] = static()  # of times that are their own

    @property
    def count(self) -> int:
        """How many statistics it has."""
        return sum(self.counts)

    @property
    def _own(self) -> np.ndarray:
        """Which of all times are some scale's own, shape (count,)."""
        times = np.arange(self.each.count)
        return np.flatnonzero([times < count for count in self.counts])

    def labelled(
        self, relabelling: Relabelling, placed: jax.Array, measure: SignedMeasure
    ) -> tuple[jax.Array, jax.Array]:
        """T of every labelling, shape (B + 1, count), and v (k, m) of the observed one."""
        one = lambda scale: scale.labelled(relabelling, placed, measure)  # noqa: E731
        values, v = jax.lax.map(one, self.each)
        values = jnp.moveaxis(values, 0, 1)
        return values.reshape(len(values), -1)[:, self._own], v

    def moved(self, measure: SignedMeasure) -> jax.Array:
        """v = Σ w_i h(z_i) of every scale, shape (k, m)."""
        return jax.lax.map(lambda scale: scale.moved(measure), self.each)

    def statistics(self, v: jax.Array) -> jax.Array:
        """vᵀ Φ(tC) v of v (k, m), shape (count,)."""
        return jax.vmap(AtTimes.statistics)(self.each, v).reshape(-1)[self._own]

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """Sum and sum of squares of the weights of the χ² law of T, for every time."""
        total, squares = jax.lax.map(AtTimes.moments, self.each)
        return total.reshape(-1)[self._own], squares.reshape(-1)[self._own]

    def witness(self, v: jax.Array, shares: jax.Array, features: tuple[int, ...]) -> FusedWitness:
        """Σ_k Σ_t share_kt g_kt."""
        all_times = jnp.zeros(len(self.counts) * self.each.count, shares.dtype)
        by_scale = all_times.at[self._own].set(shares).reshape(len(self.counts), -1)
        found = jax.vmap(lambda one, v, share: one.witness(v, share, features))
        parts = found(self.each, v, by_scale)
        return FusedWitness(tuple(_nth(parts, k) for k in range(len(self.counts))))


def prepared_together(members: tuple[Member, ...], key: jax.Array, seen: Seen) -> tuple:
    """What every member makes of the points; of scales side by side, `Together`."""
    keys, found = jax.random.split(key, len(members)), []
    for law, run in itertools.groupby(enumerate(members), _joins):
        places, some = zip(*run, strict=True)
        if isinstance(law, str) and len(some) > 1:
            found.append(_prepared(some, law, seen))
        else:
            found += [one.prepare(keys[i], seen) for i, one in zip(places, some, strict=True)]
    return tuple(found)


def _joins(member: tuple[int, Member]) -> Any:
    """What neighbours have in common: their law. Others, and scales at time 0, stand alone."""
    place, one = member
    return one.law if isinstance(one, Scale) and _ascends(one.times) else place


def _ascends(times: tuple[float, ...]) -> bool:
    return all(early < late for early, late in itertools.pairwise((0.0, *times)))


def _prepared(scales: tuple[Scale, ...], law: str, seen: Seen) -> Together:
    counts = tuple(len(scale.times) for scale in scales)
    most = max(counts)
    plans = [[np.pad(of, (0, most - len(of))) for of in doublings(s.times)] for s in scales]
    starts, doubled = (np.stack(of) for of in zip(*plans, strict=True))
    widths = jnp.stack([seen.width(scale.position, law) for scale in scales])
    shared = jax.tree.map(lambda of: jnp.stack(len(scales) * [of]), (seen.landmarks, seen.m))
    units = RadialUnits(shared[0], widths, shared[1], law=law)

    def fit(scale: tuple) -> tuple:
        units, *plan = scale
        return fit_doubled(units, seen.points, tuple(plan), seen.n)

    steps = (units, jnp.asarray(starts, seen.points.dtype), jnp.asarray(doubled))
    found = jax.lax.map(fit, steps)
    longest = next(scale.times for scale in scales if len(scale.times) == most)
    return Together(AtTimes(Filtered(units, *found, times=longest)), counts=counts)


def _nth(parts: Any, k: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[k], parts)
