"""Kernels: the neural tangent kernel, three ways, and the Gaussian kernel."""

from ntkmmd_jax.kernels.bins import bin_gram
from ntkmmd_jax.kernels.gaussian import (
    gaussian_kernel,
    gaussian_profile,
    median_bandwidth,
    median_distance,
    squared_distances,
)
from ntkmmd_jax.kernels.ntk import empirical_ntk, infinite_ntk, two_layer_ntk

__all__ = [
    "bin_gram",
    "empirical_ntk",
    "gaussian_kernel",
    "gaussian_profile",
    "infinite_ntk",
    "median_bandwidth",
    "median_distance",
    "squared_distances",
    "two_layer_ntk",
]
