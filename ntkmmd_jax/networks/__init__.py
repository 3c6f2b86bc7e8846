"""Networks f(x; θ): pairs of pure functions, some leaves of θ frozen; ours, flax's or anybody's."""

from ntkmmd_jax.networks.check import check_network
from ntkmmd_jax.networks.network import (
    Network,
    NetworkLike,
    Params,
    as_network,
    convnet,
    freeze,
    from_flax,
    merged,
    mlp,
    rebuild,
    restored,
)
from ntkmmd_jax.networks.random_features import fourier

__all__ = [
    "Network",
    "NetworkLike",
    "Params",
    "as_network",
    "check_network",
    "convnet",
    "fourier",
    "freeze",
    "from_flax",
    "merged",
    "mlp",
    "rebuild",
    "restored",
]
