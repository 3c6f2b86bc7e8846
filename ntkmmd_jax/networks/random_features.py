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

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from ntkmmd_jax._lib.normals import normal


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
