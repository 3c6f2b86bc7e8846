"""Kernels: the neural tangent kernel, three ways, the Gaussian kernel, and collections."""

from typing import TYPE_CHECKING

from ntkmmd_jax._lib.lazy import lazily

if TYPE_CHECKING:
    from ntkmmd_jax.kernels.bins import bin_gram, gram_of_sums
    from ntkmmd_jax.kernels.collection import collection_bandwidths, exponents, rates
    from ntkmmd_jax.kernels.estimated import EstimatedMMD, estimate_mmd
    from ntkmmd_jax.kernels.filtered import Filtered, fit_filters
    from ntkmmd_jax.kernels.functions import GaussianKernel, TangentKernel
    from ntkmmd_jax.kernels.gaussian import (
        gaussian_kernel,
        gaussian_profile,
        median_bandwidth,
        median_distance,
        squared_distances,
    )
    from ntkmmd_jax.kernels.ntk import empirical_ntk, infinite_ntk, two_layer_ntk
    from ntkmmd_jax.kernels.polynomial import PolynomialKernel, polynomial_kernel

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ntkmmd_jax.kernels.bins": "bin_gram gram_of_sums",
        "ntkmmd_jax.kernels.collection": "collection_bandwidths exponents rates",
        "ntkmmd_jax.kernels.estimated": "EstimatedMMD estimate_mmd",
        "ntkmmd_jax.kernels.filtered": "Filtered fit_filters",
        "ntkmmd_jax.kernels.functions": "GaussianKernel TangentKernel",
        "ntkmmd_jax.kernels.gaussian": (
            "gaussian_kernel gaussian_profile median_bandwidth median_distance squared_distances"
        ),
        "ntkmmd_jax.kernels.ntk": "empirical_ntk infinite_ntk two_layer_ntk",
        "ntkmmd_jax.kernels.polynomial": "PolynomialKernel polynomial_kernel",
    },
)

__all__ = [
    "EstimatedMMD",
    "Filtered",
    "GaussianKernel",
    "PolynomialKernel",
    "TangentKernel",
    "bin_gram",
    "collection_bandwidths",
    "empirical_ntk",
    "estimate_mmd",
    "exponents",
    "fit_filters",
    "gaussian_kernel",
    "gaussian_profile",
    "gram_of_sums",
    "infinite_ntk",
    "median_bandwidth",
    "median_distance",
    "polynomial_kernel",
    "rates",
    "squared_distances",
    "two_layer_ntk",
]
