"""The laws by which formula tests judge, kept in their results: P[Q ≥ t] under H0, for any t.

A test whose null law is a formula has no null sample; what it has instead is a `Tail`, a record of
the few numbers that fix the law (of a weighted χ² sum, its weights). `laws.py` computes them; here
they are told to pictures, to `repr` and to files.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaincc, ndtr

from ntkmmd_jax._lib.laws import f_tail, weighted_tail
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record


@record
class Tail:
    """Base: what every law says of itself."""

    bounds: ClassVar[bool] = False  # whether the tail is only bounded: then there is no density

    @property
    def label(self) -> str:
        """The law in a few words."""
        raise NotImplementedError

    @property
    def low(self) -> float:
        """Where a picture of it begins: nothing, or nearly nothing, lies below."""
        return 0.0

    def tail(self, t: jax.Array) -> jax.Array:
        """P[Q ≥ t], or a bound on it, at values of any shape."""
        raise NotImplementedError

    def __call__(self, t: Any) -> np.ndarray:
        """P[Q ≥ t] at values of any shape, in plain numbers."""
        return np.asarray(self.tail(jnp.asarray(t, float)), float)

    def to_dict(self) -> dict[str, Any]:
        """The law in plain values, ready for JSON; `from_dict` is the way back."""
        numbers = {name: np.asarray(value).tolist() for name, value in vars(self).items()}
        return {"law": type(self).__name__, **numbers}

    @staticmethod
    def from_dict(made: dict[str, Any]) -> "Tail":
        """The law that `to_dict` has described."""
        numbers = {name: np.asarray(value, float) for name, value in made.items() if name != "law"}
        return _LAWS[made["law"]](**numbers)


@record
class NormalTail(Tail):
    """N(centre, error²)."""

    centre: Any
    error: Any

    @property
    def label(self) -> str:
        """Normal."""
        return "normal law"

    @property
    def low(self) -> float:
        """Four standard errors below the centre."""
        return float(self.centre - 4 * self.error)

    def tail(self, t: jax.Array) -> jax.Array:
        """1 − Φ((t − centre) / error)."""
        return ndtr((self.centre - t) / self.error)


@record
class ChiSquaredTail(Tail):
    """χ²(k)."""

    k: Any

    @property
    def label(self) -> str:
        """With its degrees of freedom."""
        return f"χ²({int(self.k)}) law"

    def tail(self, t: jax.Array) -> jax.Array:
        """The incomplete gamma function."""
        return gammaincc(jnp.full_like(t, self.k / 2), jnp.maximum(t, 0) / 2)


@record
class FTail(Tail):
    """T² = (n−2) r / (n−r−1) · F, with F of the law F(r, n−r−1)."""

    rank: Any
    n: Any

    @property
    def label(self) -> str:
        """With its degrees of freedom."""
        return f"F({int(self.rank)}, {int(self.n - self.rank - 1)}) law of T²"

    def tail(self, t: jax.Array) -> jax.Array:
        """By quadrature, as `f_law` has it."""
        one = lambda value: f_tail(value, int(self.rank), int(self.n))  # noqa: E731
        return jnp.vectorize(one)(t)


@record
class WeightedTail(Tail):
    """Σ a_k χ²_1 − shift."""

    weights: Any  # (m,) a_k
    shift: Any

    @property
    def label(self) -> str:
        """By name: its weights are many."""
        return "weighted χ² law"

    @property
    def low(self) -> float:
        """The sum is positive."""
        return -float(self.shift)

    def tail(self, t: jax.Array) -> jax.Array:
        """By the integral of `weighted_tail`."""
        return _weighted_tails(jnp.asarray(self.weights, float), t + self.shift)


@jit
def _weighted_tails(weights: jax.Array, t: jax.Array) -> jax.Array:
    tails = jax.lax.map(lambda value: weighted_tail(weights, value), jnp.ravel(t))
    return tails.reshape(t.shape)


@record
class BoundTail(Tail):
    """4 exp(−((t − start) / width)²), at most 1, and no less than `least`: that of a theorem."""

    bounds: ClassVar[bool] = True

    start: Any
    width: Any
    least: Any  # beyond some t the theorem says no more

    @property
    def label(self) -> str:
        """A bound."""
        return "bound of the theorem"

    @property
    def low(self) -> float:
        """Below, the bound is 1."""
        return min(0.0, float(self.start))

    def tail(self, t: jax.Array) -> jax.Array:
        """The bound."""
        away = jnp.maximum((t - self.start) / self.width, 0)
        return jnp.clip(4 * jnp.exp(-(away**2)), self.least, 1.0)


_LAWS = {cls.__name__: cls for cls in (NormalTail, ChiSquaredTail, FTail, WeightedTail, BoundTail)}
