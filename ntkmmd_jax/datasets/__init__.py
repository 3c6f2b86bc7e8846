"""Samplers `(key, n_x, n_y, **parameters) -> (x, y)` of the paper's experiments, and its data."""

from ntkmmd_jax.datasets.gaussian import covariance_shift, gaussian_mixture, mean_shift
from ntkmmd_jax.datasets.gestures import msrc12, synthetic_gestures
from ntkmmd_jax.datasets.mnist import mnist_abundance

# By name on the command line.
SAMPLERS = ("mean_shift", "covariance_shift", "gaussian_mixture", "mnist_abundance")

__all__ = [
    "SAMPLERS",
    "covariance_shift",
    "gaussian_mixture",
    "mean_shift",
    "mnist_abundance",
    "msrc12",
    "synthetic_gestures",
]
