"""A member of a fused test once it is prepared: T(t) at its times, vᵀ Φ(tC) v, and |v|² at t = 0.

It knows the statistics of every labelling, those of a single measure, from its points or from a
table of fixed ones, their moments under H0, and the witness.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.calibration import Relabelling, centred, gram_null, symmetric_null
from ntkmmd_jax.kernels import Filtered, bin_gram, empirical_ntk, fit_filters
from ntkmmd_jax.measure import SignedMeasure, mmd2
from ntkmmd_jax.networks import Network, Params
from ntkmmd_jax.twosample.fused_witness import FusedWitness, UnitsWitness
from ntkmmd_jax.witness import Witness, inner, velocity


@record
class AtTimes:
    """A trained readout, at some times."""

    filtered: Filtered
    traces: tuple[jax.Array, jax.Array] | None = None  # its moments, if they are known

    @classmethod
    def of(cls, *fitted: Any) -> "AtTimes":
        """As `fit_filters` has it, with moments: products of matrices, for any number of T."""
        filtered = fit_filters(*fitted)
        return cls(filtered, filtered.moments())

    @property
    def count(self) -> int:
        """How many statistics it has."""
        return len(self.filtered.times)

    def labelled(
        self, relabelling: Relabelling, placed: jax.Array, measure: SignedMeasure
    ) -> tuple[jax.Array, jax.Array]:
        """T(t) of every labelling, shape (B + 1, times), and v of the observed one."""
        del measure  # is a labelling of the placed points
        rows = relabelling.weights @ relabelling.sums(self.filtered(placed))
        return relabelling.balanced(self.statistics(rows)).T, rows[relabelling.observed]

    def table(self, points: jax.Array) -> jax.Array:
        """h of fixed points, (n, m), for `weighed`."""
        return self.filtered(points)

    def weighed(self, table: jax.Array, weights: jax.Array) -> jax.Array:
        """T(t) of weights (n,) of these points, shape (times,)."""
        return self.statistics(weights @ table)

    def moved(self, measure: SignedMeasure) -> jax.Array:
        """v = Σ w_i h(z_i), shape (m,)."""
        return measure.weights @ self.filtered(measure.points)

    def statistics(self, v: jax.Array) -> jax.Array:
        """vᵀ Φ(tC) v of rows (..., m), shape (times, ...)."""
        return jnp.sum(self.filtered.filtered(v) * v, axis=-1)

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """Sum and sum of squares of the weights of the χ² law of T, for every time."""
        return self.traces or self.filtered.moments()

    def witness(self, v: jax.Array, shares: jax.Array, features: tuple[int, ...]) -> UnitsWitness:
        """Σ_t share_t g_t."""
        coefficients = shares @ self.filtered.filtered(v)
        constant = self.filtered.mean @ coefficients
        return UnitsWitness(self.filtered.units, coefficients, constant, features=features)


@record
class AtStart:
    """A network at θ0, or several, at time 0: gradients of bins, and no landmarks."""

    params: tuple[Params, ...]  # θ0 of each
    traces: tuple[jax.Array, jax.Array]  # moments of the spectrum of the kernel
    network: Network = static()

    @property
    def count(self) -> int:
        """How many statistics it has."""
        return 1

    def labelled(
        self, relabelling: Relabelling, placed: jax.Array, measure: SignedMeasure
    ) -> tuple[jax.Array, tuple[Params, ...]]:
        """T_NTK of every labelling, the mean over θ0, (B + 1, 1), and v of the observed one."""
        bins = relabelling.bins
        if bins is None:
            grams = [empirical_ntk(self.network, at, placed) for at in self.params]
        else:
            grams = [bin_gram(self.network, at, placed, bins) for at in self.params]
        gram = sum(grams[1:], grams[0]) / len(grams)
        null = symmetric_null if bins is None else gram_null
        return null(relabelling, gram, unbiased=False).values[:, None], self.moved(measure)

    def table(self, points: jax.Array) -> jax.Array:
        """K of fixed points, centred, (n, n), for `weighed`."""
        kernels = [empirical_ntk(self.network, at, points) for at in self.params]
        return centred(sum(kernels[1:], kernels[0]) / len(kernels))

    def weighed(self, table: jax.Array, weights: jax.Array) -> jax.Array:
        """T_NTK of weights (n,) of these points, shape (1,)."""
        return mmd2(table, weights)[None]

    def moved(self, measure: SignedMeasure) -> tuple[Params, ...]:
        """v = Σ w_i ∇f(z_i; θ0), of each."""
        return tuple(velocity(self.network, at, measure) for at in self.params)

    def statistics(self, v: tuple[Params, ...]) -> jax.Array:
        """|v|², shape (1,)."""
        return jnp.mean(jnp.stack([inner(one, one) for one in v]))[None]

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """Sum and sum of squares of the weights of the χ² law of T."""
        return self.traces[0][None], self.traces[1][None]

    def witness(
        self, v: tuple[Params, ...], shares: jax.Array, features: tuple[int, ...]
    ) -> FusedWitness:
        """The exact witness, times its share."""
        share = shares[0] / len(self.params)
        scaled = jax.tree.map(lambda leaf: share * leaf, v)
        about = {"network": self.network, "features": features, "nodes": 1}
        zero = jnp.zeros((), share.dtype)
        pairs = zip(self.params, scaled, strict=True)
        return FusedWitness(tuple(Witness(at, one, zero, **about) for at, one in pairs))
