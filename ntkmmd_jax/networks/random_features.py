"""Random Fourier features as a network: sine units, of which only the phases are trained.

    f(x; φ) = √(2/m) Σ_k sin(w_k·x/σ + φ_k),   φ_k uniform,

so that ∂f/∂φ_k = √(2/m) cos(w_k·x/σ + φ_k), and the neural tangent kernel is the random-feature
kernel (Rahimi & Recht 2007) of the law of w: as m grows, with Δ = (x − x')/σ, exp(−|Δ|²/2) for
Gaussian w, and exp(−|Δ|₁) for Cauchy w. The kernels of the field are members of this family.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen

from ntkmmd_jax._lib.checks import positive, whole
from ntkmmd_jax._lib.normals import normal
from ntkmmd_jax.networks.network import CONSTRUCTORS, Network, from_flax

LAWS = ("gaussian", "cauchy")


class Fourier(linen.Module):
    """Sine units with random frequencies and phases."""

    width: int
    law: str
    scale: float

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map (n, ...) to (n,)."""
        x = x.reshape(x.shape[0], -1) / self.scale
        draw = normal if self.law == "gaussian" else jax.random.cauchy
        frequencies = self.param("frequencies", draw, (x.shape[1], self.width))
        phases = self.param("phases", _phases, (self.width,))
        return math.sqrt(2 / self.width) * jnp.sin(x @ frequencies + phases).sum(1)


def _phases(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.uniform(key, shape, maxval=2 * math.pi)


def fourier(width: int = 512, *, law: str = "gaussian", scale: float = 1.0) -> Network:
    """A network whose tangent kernel is that of random Fourier features.

    Args:
        width: m, the number of features.
        law: Of the frequencies: "gaussian" for the Gaussian kernel exp(−|x − x'|²/2σ²), "cauchy"
            for the Laplace kernel exp(−|x − x'|₁/σ).
        scale: σ, in the units of the inputs.

    Example:
        >>> network = fourier(64, law="cauchy", scale=0.5)
        >>> x = jnp.ones((5, 3))
        >>> network(network.init(jax.random.key(0), x), x).shape
        (5,)
    """
    whole("width", width)
    positive("scale", scale)
    if law not in LAWS:
        raise ValueError(f"unknown law {law!r} of the frequencies; use one of {LAWS}")
    return _built(width=int(width), law=law, scale=float(scale))


@functools.cache
def _built(**options: Any) -> Network:
    """One object per configuration, so that equal networks share one compiled program."""
    built = from_flax(Fourier(**options), frozen="frequencies")
    return Network(
        built.init,
        built.apply,
        frozen=built.frozen,
        collection=built.collection,
        recipe=("fourier", tuple(options.items())),
        module=built.module,
    )


CONSTRUCTORS["fourier"] = fourier
