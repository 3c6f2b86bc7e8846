"""The witness of a bettor: those that learned, each in units of ŝ, by their share of the wealth."""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.sequential.bettor import Bettor, begin
from ntkmmd_jax.sequential.recipe import from_recipe, is_own, learners_of, recipe
from ntkmmd_jax.witness import savable


@savable
@record
class BetWitness:
    """g = Σ_k W_k g_k / ŝ_k / Σ_k W_k: large where p exceeds q."""

    bettor: Bettor
    shares: jax.Array  # (k,) of the wealth
    features: tuple[int, ...] = static()  # shape of one point

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (n, ...). Shape (n,)."""
        return _scores(self, points_like(points, self.features))

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        learners = [recipe(one) for one in self.bettor.learners]
        about = {"learners": learners, "bet": recipe(self.bettor.bet), "features": self.features}
        return about | ({"network": None} if any(map(is_own, learners)) else {})

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "BetWitness":
        """A witness of shapes only, to be refilled with saved leaves."""
        learners = learners_of(described["learners"], network)
        features = tuple(described["features"])

        def shapes(key: jax.Array) -> BetWitness:
            bettor = begin(key, learners, from_recipe(described["bet"]), features)
            return cls(bettor, jnp.zeros(len(bettor.names)), features=features)

        return jax.eval_shape(shapes, jax.random.key(0))


@jit
def _scores(witness: BetWitness, points: jax.Array) -> jax.Array:
    return witness.shares @ witness.bettor.scores(points)
