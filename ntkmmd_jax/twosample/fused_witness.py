"""The witness of a fused test: a sum of the witnesses of its members, each with its share."""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.kernels import Features
from ntkmmd_jax.kernels.functions import ScaleKernel, TangentKernel
from ntkmmd_jax.witness import KINDS, savable

_KERNELS = {kind.__name__: kind for kind in (ScaleKernel, TangentKernel)}


@savable
@record
class FeatureWitness:
    """g(z) = Σ_l a_l φ_l(z), in the features of a kernel."""

    kernel_features: Features
    coefficients: jax.Array  # (m,) a
    features: tuple[int, ...] = static()  # shape of one point

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (n, ...): large where p exceeds q. Shape (n,)."""
        return _values(self, points_like(points, self.features))

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        found = self.kernel_features
        own = {"kernel": type(found.kernel).__name__, "features": self.features}
        shapes = {"landmarks": len(found.landmarks), "times": found.times}
        return {**found.kernel.describe(), **own, **shapes}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "FeatureWitness":
        """A witness of shapes only, to be refilled with saved leaves."""
        features, m = tuple(described["features"]), described["landmarks"]
        kernel = _KERNELS[described["kernel"]].blank(described, features, network)
        times, row, square = tuple(described["times"]), jnp.zeros(m), jnp.zeros((m, m))
        filters = jnp.zeros((sum(t > 0 for t in times), m, m))
        points = jnp.zeros((m, *features))
        found = Features(kernel, points, square, row, square, filters, times=times)
        return cls(found, row, features=features)


@jax.jit
def _values(witness: FeatureWitness, points: jax.Array) -> jax.Array:
    return witness.kernel_features(points) @ witness.coefficients


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
