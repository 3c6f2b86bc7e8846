"""Samplers `(key, n_x, n_y, **parameters) -> (x, y)` of the paper's experiments, and its data."""

from ntkmmd_jax.datasets.gaussian import covariance_shift, gaussian_mixture, mean_shift

SAMPLERS = ("mean_shift", "covariance_shift", "gaussian_mixture")  # by name on the command line

__all__ = ["SAMPLERS", "covariance_shift", "gaussian_mixture", "mean_shift"]
