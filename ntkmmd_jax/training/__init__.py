"""Training a network for a short time: by SGD, along the pass, and from a stream."""

from ntkmmd_jax.training.sgd import SGD
from ntkmmd_jax.training.trained import Trajectory, trained_witness, trajectory

__all__ = ["SGD", "Trajectory", "trained_witness", "trajectory"]
