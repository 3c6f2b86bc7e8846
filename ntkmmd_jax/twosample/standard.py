"""A witness of standardised points, which takes them in the user's units: g((z − m) / s)."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.standard import Standard, blank_standard
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.witness import KINDS, savable


@savable
@record
class StandardWitness:
    """g((z − m) / s): a witness of standardised points, at points in the user's units."""

    inner: Any  # the witness g
    standard: Standard
    features: tuple[int, ...] = static()  # shape of one point

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (n, ...): large where p exceeds q. Shape (n,)."""
        return self.inner(self.standard(points_like(points, self.features)))

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        own = {"inner": type(self.inner).__name__, "features": self.features}
        return {**self.inner.describe(), **own}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "StandardWitness":
        """A witness of shapes only, to be refilled with saved leaves."""
        features = tuple(described["features"])
        points = jax.ShapeDtypeStruct((2, *features), jnp.result_type(float))
        inner = KINDS[described["inner"]].blank(described, network)
        standard = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), blank_standard(points))
        return cls(inner, standard, features=features)


def in_units(
    found: TwoSampleResult, standard: Standard, features: tuple[int, ...]
) -> TwoSampleResult:
    """The result of standardised points, with a witness of points as they were."""
    witness = found.witness
    if witness is not None:
        witness = StandardWitness(witness, standard, features=features)
    return dataclasses.replace(found, witness=witness, standardized=True)
