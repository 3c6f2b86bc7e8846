"""The fully connected network, as plain functions: how its weights are drawn and scaled.

    h_0 = x,   h_l = σ(c·(h_{l−1} W_l) + b_l),   f = c·Σ_k a_k h_k,   W ~ N(0, s²),   b = 0,

where `initialization` says what s and c are. Parameters have the names that flax would give them,
and are drawn from the keys that it would take (`key_of`); but flax itself takes a fifth of a second
to import, and as long again to trace, and the first p-value would wait for it.
"""

import dataclasses
import hashlib
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.normals import normal
from ntkmmd_jax._lib.surroundings import separates
from ntkmmd_jax.networks.activations import Activation, activation_fn


def layer_scales(initialization: str, position: str, fan_in: int) -> tuple[float, float]:
    """s and c of an affine layer z = c·(h W) + b.

    paper: s = 1 in the first layer and 1/√fan_in after it; lecun (LeCun et al. 1998): s =
    1/√fan_in; he (He et al. 2015): √(2/fan_in) in front of an activation; ntk (Jacot, Gabriel &
    Hongler 2018): s = 1 and c = 1/√fan_in. Elsewhere c = 1.

    Args:
        initialization: paper, lecun, he or ntk.
        position: first, hidden or readout.
        fan_in: Inputs of a unit.
    """
    std = {
        "paper": 1.0 if position == "first" else fan_in**-0.5,
        "lecun": fan_in**-0.5,
        "he": ((1.0 if position == "readout" else 2.0) / fan_in) ** 0.5,
        "ntk": 1.0,
    }[initialization]
    return std, fan_in**-0.5 if initialization == "ntk" else 1.0


def readout_scales(initialization: str, width: int) -> tuple[float, float]:
    """s and c of the readout f = c·Σ_k a_k h_k."""
    return (1.0, width**-0.5) if initialization == "ntk" else (width**-0.5, 1.0)


def key_of(key: jax.Array, name: str) -> jax.Array:
    """The key from which flax draws the first parameter of a layer of this name."""
    between = b"\0" if separates() else b""  # a setting of flax
    path = between + name.encode() + between + b"\1"  # its name, and that it is the first
    return jax.random.fold_in(key, int.from_bytes(hashlib.sha1(path).digest()[:4], "big"))


@dataclasses.dataclass(frozen=True)
class MLP:
    """Fully connected layers of the given widths and a readout.

    The readout has no bias: p̂ − q̂ has mass 0 and would not see it.
    """

    widths: tuple[int, ...]
    activation: Activation
    initialization: str

    def init(self, key: jax.Array, x: jax.Array) -> dict[str, Any]:
        """θ0 for points like x (n, ...)."""
        params, fan_in = {}, x[0].size
        for name, position, width in self._layers:
            std, _ = layer_scales(self.initialization, position, fan_in)
            kernel = std * normal(key_of(key, name), (fan_in, width))
            params[name] = {"kernel": kernel, "bias": jnp.zeros(width)}
            fan_in = width
        std, _ = readout_scales(self.initialization, fan_in)
        params["readout"] = {"kernel": std * normal(key_of(key, "readout"), (fan_in,))}
        return {"params": params}

    def apply(self, params: dict[str, Any], x: jax.Array) -> jax.Array:
        """Map (n, ...) to (n,)."""
        weights, sigma = params["params"], activation_fn(self.activation)
        h = x.reshape(x.shape[0], -1)
        for name, position, _ in self._layers:
            _, scale = layer_scales(self.initialization, position, h.shape[1])
            h = sigma(scale * (h @ weights[name]["kernel"]) + weights[name]["bias"])
        _, scale = readout_scales(self.initialization, h.shape[1])
        return scale * (h @ weights["readout"]["kernel"])

    @property
    def _layers(self) -> list[tuple[str, str, int]]:
        """Names, positions and widths of the hidden layers."""
        positions = ("first", *len(self.widths[1:]) * ("hidden",))
        pairs = zip(positions, self.widths, strict=True)
        return [(f"layer_{i}", position, width) for i, (position, width) in enumerate(pairs, 1)]
