"""Kernels as objects: k(x1, x2), fixed once and for all, to measure several samples by one unit."""

from typing import Any

import jax
from jax.tree_util import Partial

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_points
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.kernels.gaussian import gaussian_kernel, median_bandwidth
from ntkmmd_jax.kernels.ntk import empirical_ntk
from ntkmmd_jax.networks import Network, NetworkLike, Params, as_network, mlp

_POINTS = 2000  # whose median distance is taken


def as_pytree(kernel: Any) -> Any:
    """A kernel that jit takes as an argument: as it is, or a bare function wrapped."""
    return Partial(kernel) if jax.tree_util.all_leaves([kernel]) else kernel


@record
class GaussianKernel:
    """k(z, z') = exp(−|z − z'|² / 2σ²), at most 1: an MMD is at most √2.

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> kernel = ntk.GaussianKernel(2.0)
        >>> float(kernel(np.zeros((1, 3)), np.zeros((1, 3)))[0, 0])
        1.0
    """

    bandwidth: Any  # σ, or several of shape (k,): the mean of their kernels

    def __call__(self, x1: Any, x2: Any) -> jax.Array:
        """k(x1, x2), shape (n1, n2)."""
        return gaussian_kernel(x1, x2, self.bandwidth)

    @classmethod
    def of(cls, reference: Any) -> "GaussianKernel":
        """σ the median distance of a reference, of its first 2,000 points if there are more."""
        return cls(median_bandwidth(as_points(reference, "reference")[:_POINTS]))


@record
class TangentKernel:
    """K_0(z, z') = ⟨∇f(z; θ0), ∇f(z'; θ0)⟩ of a network at θ0, unbounded for most networks.

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> kernel = ntk.TangentKernel.of(0, np.zeros((1, 3)), ntk.mlp(8))
        >>> kernel(np.zeros((2, 3)), np.ones((5, 3))).shape
        (2, 5)
    """

    params: Params  # θ0
    network: Network = static()  # that of f

    def __call__(self, x1: Any, x2: Any) -> jax.Array:
        """K_0(x1, x2), shape (n1, n2)."""
        return empirical_ntk(self.network, self.params, x1, x2)

    @classmethod
    def of(cls, key: Any, reference: Any, network: NetworkLike | None = None) -> "TangentKernel":
        """That of a network begun at random, for points like those of a reference.

        Args:
            key: An int seed or a JAX key, for θ0.
            reference: Points, shape (n, ...).
            network: One of ours, a flax module, or a pair (init, apply); the paper's, by default.
        """
        network = mlp() if network is None else as_network(network)
        return cls(
            network.init(as_key(key), as_points(reference, "reference")[:1]), network=network
        )
