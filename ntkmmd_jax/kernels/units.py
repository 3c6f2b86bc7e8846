"""Units h(z) as pytrees, called on points, (n, ...) -> (n, m): for a readout to be trained on."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ntkmmd_jax._lib.padding import cleared
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.kernels.collection import distances
from ntkmmd_jax.kernels.gaussian import gaussian_kernel
from ntkmmd_jax.kernels.ntk import empirical_ntk
from ntkmmd_jax.networks import Network, Params, restored


@record
class RadialUnits:
    """exp(−|z − c_j|² / σ²) / √m, or exp(−2√2 |z − c_j|₁ / σ) / √m, around m centres.

    The kernel h(z)·h(z') is then one of width σ, weighted by the density of the centres: for
    Gaussian units exp(−|z − z'|² / 2σ²) times how many centres lie between z and z'.
    """

    centres: jax.Array  # (m, ...)
    bandwidth: jax.Array  # () σ
    m: Any = None  # how many centres are real; None: all
    law: str = static(default="gaussian")  # or cauchy, for the Laplace kernel

    def __call__(self, points: jax.Array) -> jax.Array:
        """h(z), shape (n, m)."""
        if self.law == "gaussian":
            units = gaussian_kernel(points, self.centres, self.bandwidth / 2**0.5)
        else:
            units = jnp.exp(-(2**1.5) * distances(points, self.centres)[1] / self.bandwidth)
        if self.m is None:
            return len(self.centres) ** -0.5 * units
        return cleared(units, self.m, axis=1) / jnp.sqrt(jnp.asarray(self.m, units.dtype))

    def describe(self) -> dict[str, Any]:
        """What a file says of the units beside their leaves."""
        own = {"law": self.law, "units": len(self.centres)}
        return own if self.m is None else {**own, "padded": True}

    @classmethod
    def blank(cls, described: dict[str, Any], features: Any, network: Any) -> "RadialUnits":
        """Units of shapes only, to be refilled."""
        del network
        centres = jnp.zeros((described["units"], *features))
        m = jnp.zeros((), int) if described.get("padded") else None
        return cls(centres, jnp.zeros(()), m, law=described["law"])


@record
class KernelUnits:
    """K_0(z, c_j) / √m: the tangent kernel of a network with m centres."""

    centres: jax.Array  # (m, ...)
    params: tuple[Params, ...]  # θ0, one or several, whose kernels are averaged
    network: Network = static()

    def __call__(self, points: jax.Array) -> jax.Array:
        """h(z), shape (n, m)."""
        kernels = [empirical_ntk(self.network, at, points, self.centres) for at in self.params]
        return jnp.mean(jnp.stack(kernels), axis=0) * len(self.centres) ** -0.5

    def describe(self) -> dict[str, Any]:
        """What a file says of the units beside their leaves."""
        about = {"units": len(self.centres), "initializations": len(self.params)}
        return {"network": self.network.recipe, **about}

    @classmethod
    def blank(cls, described: dict[str, Any], features: Any, network: Any) -> "KernelUnits":
        """Units of shapes only, to be refilled."""
        network = restored(described["network"], network)
        params = network.init(jax.random.key(0), jnp.zeros((1, *features)))
        centres = jnp.zeros((described["units"], *features))
        return cls(centres, (params,) * described["initializations"], network=network)


@record
class GradientUnits:
    """∇f(z; θ0) itself, of a network with few parameters: its tangent kernel, exactly."""

    params: tuple[Params, ...]  # θ0, one or several, whose kernels are averaged
    network: Network = static()

    def __call__(self, points: jax.Array) -> jax.Array:
        """h(z), shape (n, m)."""
        each = [_gradients(self.network, at, points) for at in self.params]
        return jnp.concatenate(each, axis=1) * len(each) ** -0.5

    def describe(self) -> dict[str, Any]:
        """What a file says of the units beside their leaves."""
        return {"network": self.network.recipe, "initializations": len(self.params)}

    @classmethod
    def blank(cls, described: dict[str, Any], features: Any, network: Any) -> "GradientUnits":
        """Units of shapes only, to be refilled."""
        network = restored(described["network"], network)
        params = network.init(jax.random.key(0), jnp.zeros((1, *features)))
        return cls((params,) * described["initializations"], network=network)


def _gradients(network: Network, params: Params, points: jax.Array) -> jax.Array:
    """∇f(z_i; θ0) of every point, shape (n, p)."""
    f, theta = network.trainable(params)
    gradient = jax.grad(lambda theta, point: f(theta, point[None])[0])
    return jax.vmap(lambda point: ravel_pytree(gradient(theta, point))[0])(points)
