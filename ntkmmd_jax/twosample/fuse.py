"""MMD-FUSE: the normalised MMD² of a collection of kernels, fused by a (soft) maximum.

    T = (1/λ) log mean_k exp(λ MMD²_k / √N_k),   λ = sharpness · √(n(n−1)),   n = min(n_X, n_Y),

with MMD²_k and N_k as in `collected` (Biggs, Schrab & Gretton 2023, with a uniform prior). Their
theory has sharpness 1. Their released program multiplies by √(n(n−1)) once more, which is all but
the maximum; that is the default here, and what their published powers are of.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record
from ntkmmd_jax.calibration import NullStatistics
from ntkmmd_jax.twosample.collected import Collected, CollectionTest, fused


@record
class MMDFuse(CollectionTest):
    """The largest, or softly largest, of normalised MMD², calibrated by permuting all labels.

    Published powers are with 2,000 permutations, where `n_permutations` is 400 here. Quadratic
    time, that of `GaussianMMD` for each of 2 · n_bandwidths kernels.

    Args:
        sharpness: Of the soft maximum, in units of √(n(n−1)), traced; infinite is the maximum.

    Example:
        >>> import jax
        >>> import ntkmmd_jax as ntk
        >>> x, y = ntk.datasets.mixture4(jax.random.key(0), 200, 150, sigma=3.0)
        >>> ntk.two_sample_test(x, y, method="mmd-fuse").reject
        True
    """

    sharpness: Any = math.inf  # in units of √(n(n−1)), traced; infinite is the maximum

    def __post_init__(self) -> None:
        super().__post_init__()
        known = isinstance(self.sharpness, int | float)
        if known and not self.sharpness > 0:
            raise ValueError(f"sharpness must be positive, or infinite; got {self.sharpness!r}")

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "mmd-fuse"

    @property
    def sharp(self) -> Any:
        """That of the test."""
        return self.sharpness

    def joined(self, found: Collected) -> NullStatistics:
        """The fused statistic; it moves by no more than the ratio that moves most."""
        tolerance = jnp.max(found.tolerance / found.scale)
        return NullStatistics(fused(found, self.sharpness), tolerance)

    def shares(self, found: Collected, row: jax.Array) -> jax.Array:
        """∂T/∂(MMD²_k / √N_k): the soft maximum's weights."""
        ratios = found.ratios[:, row]
        sharp = found.sharp(self.sharpness)
        others = (ratios < ratios.max()) & (jnp.arange(len(ratios)) != jnp.argmax(ratios))
        return jax.nn.softmax(jnp.where(others, sharp * (ratios - ratios.max()), 0))
