"""Samplers `(key, n_x, n_y, **parameters) -> (x, y)` of the paper and its field, and its data."""

from ntkmmd_jax.datasets.gaussian import (
    blobs,
    covariance_shift,
    gaussian_mixture,
    mean_shift,
    mixture4,
)
from ntkmmd_jax.datasets.gestures import msrc12, synthetic_gestures
from ntkmmd_jax.datasets.mnist import mnist_abundance, mnist_missing
from ntkmmd_jax.datasets.perturbed import perturbed_uniform

# By name on the command line.
SAMPLERS = (
    "mean_shift",
    "covariance_shift",
    "gaussian_mixture",
    "mixture4",
    "blobs",
    "perturbed_uniform",
    "mnist_abundance",
    "mnist_missing",
)

__all__ = [
    "SAMPLERS",
    "blobs",
    "covariance_shift",
    "gaussian_mixture",
    "mean_shift",
    "mixture4",
    "mnist_abundance",
    "mnist_missing",
    "msrc12",
    "perturbed_uniform",
    "synthetic_gestures",
]
