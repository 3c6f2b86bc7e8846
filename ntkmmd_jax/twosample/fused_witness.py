"""The witness of a fused test: a sum of the witnesses of its members, each with its share."""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.kernels.units import GradientUnits, KernelUnits, RadialUnits
from ntkmmd_jax.witness import KINDS, in_tiles, savable

_UNITS = {kind.__name__: kind for kind in (RadialUnits, KernelUnits, GradientUnits)}


@savable
@record
class UnitsWitness:
    """g(z) = Σ_l a_l h_l(z) − constant: a trained readout."""

    units: Any  # points -> (n, m)
    coefficients: jax.Array  # (m,) a
    constant: jax.Array  # ()
    features: tuple[int, ...] = static()  # shape of one point

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (n, ...): large where p exceeds q. Shape (n,)."""
        return _values(self, points_like(points, self.features))

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        own = {"of": type(self.units).__name__, "features": self.features}
        return {**self.units.describe(), **own, "readout": len(self.coefficients)}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "UnitsWitness":
        """A witness of shapes only, to be refilled with saved leaves."""
        features = tuple(described["features"])
        units = _UNITS[described["of"]].blank(described, features, network)
        return cls(units, jnp.zeros(described["readout"]), jnp.zeros(()), features=features)


@jit
def _values(witness: UnitsWitness, points: jax.Array) -> jax.Array:
    return in_tiles(lambda z: witness.units(z) @ witness.coefficients, points) - witness.constant


@savable
@record
class FusedWitness:
    """The sum of some witnesses."""

    parts: tuple[Any, ...]

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (n, ...): large where p exceeds q. Shape (n,)."""
        return jnp.sum(jnp.stack([part(points) for part in self.parts]), axis=0)

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        parts = [{"kind": type(part).__name__, **part.describe()} for part in self.parts]
        known = all(part.get("network", ()) is not None for part in parts)
        return {"parts": parts} if known else {"parts": parts, "network": None}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "FusedWitness":
        """A witness of shapes only, to be refilled; `network` stands for those of no recipe."""

        def one(part: dict[str, Any]) -> Any:
            missing = part.get("network", ()) is None
            return KINDS[part["kind"]].blank(part, network if missing else None)

        return cls(tuple(map(one, described["parts"])))
