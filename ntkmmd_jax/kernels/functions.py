"""Kernels as pytrees, called k(x1, x2) -> (n1, n2): what `Features` takes."""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.kernels.collection import exponents
from ntkmmd_jax.kernels.gaussian import gaussian_kernel
from ntkmmd_jax.kernels.ntk import empirical_ntk
from ntkmmd_jax.networks import Network, Params, restored


@record
class ScaleKernel:
    """exp(−|x − x'|² / 2σ²), or exp(−√2 |x − x'|₁ / σ): the NTK of `fourier` at infinite width."""

    bandwidth: jax.Array  # () σ
    law: str = static()  # of the frequencies, gaussian or cauchy

    def __call__(self, x1: jax.Array, x2: jax.Array) -> jax.Array:
        """k(x1, x2), shape (n1, n2)."""
        if self.law == "gaussian":
            return gaussian_kernel(x1, x2, self.bandwidth)
        return jnp.exp(-exponents(x1, x2)[1] / self.bandwidth)

    def describe(self) -> dict[str, Any]:
        """What a file says of it beside its leaves."""
        return {"law": self.law}

    @classmethod
    def blank(cls, described: dict[str, Any], features: Any, network: Any) -> "ScaleKernel":
        """A kernel of shapes only, to be refilled."""
        del features, network
        return cls(jnp.zeros(()), law=described["law"])


@record
class TangentKernel:
    """The NTK of a network, the mean over initialisations θ0."""

    params: tuple[Params, ...]  # θ0 of each
    network: Network = static()

    def __call__(self, x1: jax.Array, x2: jax.Array) -> jax.Array:
        """K_0(x1, x2), shape (n1, n2)."""
        kernels = [empirical_ntk(self.network, params, x1, x2) for params in self.params]
        return sum(kernels[1:], kernels[0]) / len(kernels)

    def describe(self) -> dict[str, Any]:
        """What a file says of it beside its leaves."""
        return {"network": self.network.recipe, "initializations": len(self.params)}

    @classmethod
    def blank(cls, described: dict[str, Any], features: Any, network: Any) -> "TangentKernel":
        """A kernel of shapes only, to be refilled."""
        network = restored(described["network"], network)
        params = network.init(jax.random.key(0), jnp.zeros((1, *features)))
        return cls((params,) * described["initializations"], network=network)
