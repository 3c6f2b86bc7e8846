"""Random Fourier features as a network: sine units, of which only the phases are trained.

    f(x; φ) = √(2/m) Σ_k sin(w_k·x/σ + φ_k),   φ_k uniform,

so that ∂f/∂φ_k = √(2/m) cos(w_k·x/σ + φ_k), and the neural tangent kernel is the random-feature
kernel (Rahimi & Recht 2007) of the law of w: as m grows, with Δ = (x − x')/σ, exp(−|Δ|²/2) for
Gaussian w, and exp(−|Δ|₁) for Cauchy w. The kernels of the field are members of this family.

*Additive*, every unit sees one of the d coordinates: sin(√d w_k x_j(k)/σ + φ_k), and the kernel is
the mean over j of k(√d Δ_j), with k that of one dimension. The √d is for σ to mean the same: for
differences that are alike in all coordinates, |√d Δ_j| = |Δ|. A difference in few of them stands
out, and what only several of them show together is not seen.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from ntkmmd_jax._lib.checks import positive, whole
from ntkmmd_jax._lib.normals import normal
from ntkmmd_jax.networks.modules import from_flax
from ntkmmd_jax.networks.network import Network
from ntkmmd_jax.networks.shipped import CONSTRUCTORS

LAWS = ("gaussian", "cauchy")


class Fourier(linen.Module):
    """Sine units with random frequencies and phases."""

    width: int
    law: str
    scale: float
    additive: bool = False

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map (n, ...) to (n,)."""
        x = x.reshape(x.shape[0], -1) / self.scale
        draw = normal if self.law == "gaussian" else jax.random.cauchy
        dim = x.shape[1]
        shape = (self.width,) if self.additive else (dim, self.width)
        frequencies = self.param("frequencies", draw, shape)
        phases = self.param("phases", _phases, (self.width,))
        if self.additive:
            units = np.arange(self.width)
            seen = units % dim if dim <= self.width else units * dim // self.width
            turned = math.sqrt(dim) * x[:, seen] * frequencies
        else:
            turned = x @ frequencies
        return math.sqrt(2 / self.width) * jnp.sin(turned + phases).sum(1)


def _phases(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.uniform(key, shape, maxval=2 * math.pi)


def fourier(
    width: int = 512, *, law: str = "gaussian", scale: float = 1.0, additive: bool = False
) -> Network:
    """A network whose tangent kernel is that of random Fourier features.

    Args:
        width: m, the number of features.
        law: Of the frequencies: "gaussian" for the Gaussian kernel exp(−|x − x'|²/2σ²), "cauchy"
            for the Laplace kernel exp(−|x − x'|₁/σ).
        scale: σ, in the units of the inputs.
        additive: Whether every unit sees a single coordinate, in turn; of more coordinates than
            units, as many as there are units, evenly spaced.

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
    return _built(width=int(width), law=law, scale=float(scale), additive=bool(additive))


@functools.cache
def _built(**options: Any) -> Network:
    """One object per configuration, so that equal networks share one compiled program."""
    built = from_flax(Fourier(**options), frozen="frequencies")
    return dataclasses.replace(built, recipe=("fourier", tuple(options.items())))


CONSTRUCTORS["fourier"] = fourier
