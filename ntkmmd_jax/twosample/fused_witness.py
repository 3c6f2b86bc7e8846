"""The witness of a fused test: a sum of the witnesses of its members, each with its share."""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.kernels import Basis
from ntkmmd_jax.kernels.functions import ScaleKernel, TangentKernel
from ntkmmd_jax.witness import KINDS, savable

_KERNELS = {kind.__name__: kind for kind in (ScaleKernel, TangentKernel)}


@savable
@record
class BasisWitness:
    """g(z) = Σ_l a_l c_l(z), in the coordinates of a `Basis`."""

    basis: Basis
    coefficients: jax.Array  # (r,) a
    features: tuple[int, ...] = static()  # shape of one point

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (n, ...): large where p exceeds q. Shape (n,)."""
        return _values(self, points_like(points, self.features))

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        kernel, transform = self.basis.kernel, self.basis.transform
        own = {"kernel": type(kernel).__name__, "features": self.features}
        return {**kernel.describe(), **own, "transform": transform.shape}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "BasisWitness":
        """A witness of shapes only, to be refilled with saved leaves."""
        features, (m, r) = tuple(described["features"]), described["transform"]
        kernel = _KERNELS[described["kernel"]].blank(described, features, network)
        one = jnp.zeros(r)
        basis = Basis(kernel, jnp.zeros((m, *features)), jnp.zeros((m, r)), one, one)
        return cls(basis, one, features=features)


@jax.jit
def _values(witness: BasisWitness, points: jax.Array) -> jax.Array:
    return witness.basis.coordinates(points) @ witness.coefficients


@savable
@record
class FusedWitness:
    """The sum of some witnesses."""

    parts: tuple[Any, ...]

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (n, ...): large where p exceeds q. Shape (n,)."""
        first, *others = [part(points) for part in self.parts]
        return sum(others, first)

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
