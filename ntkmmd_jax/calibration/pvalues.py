"""p-value and threshold of a statistic among those of other labellings: never 0, ties counted."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.checks import whole


def pvalue(statistic: jax.Array, null: jax.Array, tolerance: Any = 0.0) -> jax.Array:
    """(1 + #{null ≥ T}) / (1 + B): never 0, and NaN if the statistic is.

    Args:
        statistic: T, scalar.
        null: Statistics of other labellings, shape (B,).
        tolerance: Values that differ by no more are a tie.

    Example:
        >>> float(pvalue(jnp.asarray(2.5), jnp.arange(3.0)))
        0.25
    """
    exceeding = jnp.sum(~(null < statistic - tolerance))  # NaN in the null counts as exceeding
    return jnp.where(jnp.isnan(statistic), jnp.nan, _fractions(len(null))[exceeding])


def least_pvalue(values: jax.Array, tolerance: Any = 0.0) -> jax.Array:
    """The smallest p-value that any of B + 1 labellings would have, were it the observed one.

    Args:
        values: Statistics of all labellings, shape (B + 1,).
        tolerance: Values that differ by no more are a tie.
    """
    tied = jnp.sum(~(values < jnp.max(values) - tolerance))
    return _fractions(len(values) - 1)[tied - 1]


def threshold(null: jax.Array, level: Any, tolerance: Any = 0.0) -> jax.Array:
    """The order statistic for which `statistic > threshold` says `pvalue <= level`.

    Args:
        null: Statistics of other labellings, shape (B,).
        level: α in (0, 1), traced or not.
        tolerance: Values that differ by no more are a tie.
    """
    allowed = jnp.sum(_fractions(len(null))[:-1] <= level)  # reject iff fewer than that exceed T
    descending = -jnp.sort(-jnp.where(jnp.isnan(null), jnp.inf, null))
    return jnp.where(allowed > 0, descending[allowed - 1], jnp.inf) + tolerance


def _fractions(b: int) -> jax.Array:
    """1/(1+B), …, 1, each rounded once, so that a p-value that equals the level compares equal."""
    return jnp.asarray(np.arange(1, b + 2) / (b + 1), jnp.result_type(float))


def check_level(level: Any, n_permutations: int | None = None) -> None:
    """Raise if a level lies outside (0, 1), or if B permutations cannot reach it.

    Args:
        level: α; one that is traced is not checked.
        n_permutations: B; None where nothing is permuted.
    """
    if n_permutations is not None:
        whole("n_permutations", n_permutations)
    if not isinstance(level, int | float | np.number):  # traced, or a batch: checked by its maker
        return
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1); got {level}")
    if n_permutations is not None and 1 / (1 + n_permutations) > level * (1 + 1e-6):
        needed = math.ceil(1 / level - 1e-6) - 1
        raise ValueError(
            f"n_permutations = {n_permutations} cannot reach level {level}: the smallest p-value "
            f"is 1/{1 + n_permutations}; use at least {needed} permutations"
        )
