"""Networks f(x; θ): pairs of pure functions, some leaves of θ frozen; ours, flax's or anybody's."""

from ntkmmd_jax.networks.check import check_network
from ntkmmd_jax.networks.features import embed
from ntkmmd_jax.networks.modules import NetworkLike, as_network, freeze, from_flax, with_head
from ntkmmd_jax.networks.network import Network, Params, merged
from ntkmmd_jax.networks.shipped import convnet, fourier, mlp, rebuild, restored

__all__ = [
    "Network",
    "NetworkLike",
    "Params",
    "as_network",
    "check_network",
    "convnet",
    "embed",
    "fourier",
    "freeze",
    "from_flax",
    "merged",
    "mlp",
    "rebuild",
    "restored",
    "with_head",
]
