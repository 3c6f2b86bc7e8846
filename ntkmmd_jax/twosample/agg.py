"""MMDAgg in one pool: the smallest of the p-values of a collection of kernels.

    p_k(b) = #{b' : MMD²_k(b') ≥ MMD²_k(b)} / (B + 1),   T(b) = −min_k p_k(b),

for every labelling b of one pool of B + 1; the p-value of the test is the rank of the observed T
among all T(b). By the proof at the top of `calibration` it is exact, as T is a function of the
placed points and the pool. It is the min-p of Westfall & Young (1993).

Schrab et al. (2023) reject if p_k ≤ u_α w_k for some k: the same aggregation. They estimate the
quantiles of each kernel by B₁ permutations (or signs, for equal sizes), and u_α by bisection over
B₂ others; here one pool serves both, which gives a p-value as well as a verdict. Weights w_k are
uniform. Bandwidths grow by a factor, as theirs do, over the range that `kernels.collection` says.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.calibration import NullStatistics
from ntkmmd_jax.twosample.collected import Collected, CollectionTest


@record
class MMDAgg(CollectionTest):
    """The smallest of the kernels' p-values, calibrated by permuting all labels.

    Many labellings share the smallest p-value, the first in rank of some kernel each; among such,
    the mean of all p-values decides, by less than one step of 1/(B + 1) in T. Charts and pilots,
    which have no pool, take the kernels' largest MMD²_k / √N_k instead, as `MMDFuse` does.
    Published powers are with 2,000 permutations, where `n_permutations` is 400 here.

    Args:
        geometric: Whether bandwidths grow by a factor, or by a step.

    Example:
        >>> import jax
        >>> import ntkmmd_jax as ntk
        >>> x, y = ntk.datasets.perturbed_uniform(jax.random.key(0), 300, 250, amplitude=0.9)
        >>> ntk.two_sample_test(x, y, method="mmd-agg").reject
        True
    """

    ranks: ClassVar[bool] = True

    geometric: bool = static(default=True)

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "mmd-agg"

    def joined(self, found: Collected) -> NullStatistics:
        """−min_k p_k + (1 − mean_k p_k) / (B + 1): the second term settles ties of the first."""
        ranks, size = _ranks(found), found.mmd2.shape[1]
        steps = ranks.min(0) - 1 + ranks.mean(0) / size  # sums of whole numbers, so ties are exact
        missing = jnp.isnan(found.mmd2).any(0)
        return NullStatistics(jnp.where(missing, jnp.nan, -steps / size), jnp.zeros(()))

    def shares(self, found: Collected, row: jax.Array) -> jax.Array:
        """All to the kernels of the smallest p-value."""
        ranks = _ranks(found)[:, row]
        smallest = (ranks == ranks.min()).astype(found.mmd2.dtype)
        ratios = jnp.where(smallest > 0, found.ratios[:, row], -jnp.inf)
        return jax.nn.one_hot(jnp.argmax(ratios), len(ranks), dtype=smallest.dtype)


def _ranks(found: Collected) -> jax.Array:
    """#{b' : MMD²_k(b') ≥ MMD²_k(b)}, equal but for rounding counted; floats (K, B + 1)."""

    def of_kernel(values: jax.Array, tolerance: jax.Array) -> jax.Array:
        below = jnp.searchsorted(jnp.sort(values), values - tolerance)
        return (len(values) - below).astype(values.dtype)

    return jax.vmap(of_kernel)(found.mmd2, found.tolerance)
