"""Training a network for a short time: by SGD, along the pass, and from a stream."""

from typing import TYPE_CHECKING

from ntkmmd_jax._lib.lazy import lazily

if TYPE_CHECKING:
    from ntkmmd_jax.training.sgd import SGD
    from ntkmmd_jax.training.trained import Trajectory, trained_witness, trajectory

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ntkmmd_jax.training.sgd": "SGD",
        "ntkmmd_jax.training.trained": "Trajectory trained_witness trajectory",
    },
)

__all__ = ["SGD", "Trajectory", "trained_witness", "trajectory"]
