"""Results from what a calibration has found: a null sample, or a law."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax import calibration
from ntkmmd_jax.twosample.evidence import Law, Permuted
from ntkmmd_jax.twosample.result import TwoSampleResult


def permuted_result(found: Permuted, level: Any) -> TwoSampleResult:
    """The result of a permutation test, from its statistic under every labelling of the pool."""
    values, tolerance = found.null.values, found.null.tolerance
    sample = calibration.without(values, found.observed)
    result = null_result(values[found.observed], sample, level, tolerance, witness=found.witness)
    least = calibration.least_pvalue(values, tolerance)
    return dataclasses.replace(result, least=least, members=found.members)


def null_result(
    statistic: jax.Array, null: jax.Array, level: Any, tolerance: Any = 0.0, *, witness: Any = None
) -> TwoSampleResult:
    """The result of a test with a sample of its null law."""
    return TwoSampleResult(
        statistic,
        calibration.pvalue(statistic, null, tolerance),
        calibration.threshold(null, level, tolerance),
        null,
        jnp.asarray(level, statistic.dtype),
        witness=witness,
    )


def law_result(found: Law, level: Any) -> TwoSampleResult:
    """The result of a test whose null law is a formula: its null sample is empty."""
    statistic, pvalue, dtype = found.statistic, found.pvalue, found.statistic.dtype
    level = jnp.asarray(level, dtype)
    # Within a rounding error of the threshold, the p-value decides.
    lower = jnp.nextafter(statistic, jnp.full_like(statistic, -jnp.inf))
    below = jnp.minimum(found.threshold, lower)
    threshold = jnp.where(pvalue <= level, below, jnp.fmax(found.threshold, statistic))
    none = jnp.zeros(0, dtype)
    rest = {"witness": found.witness, "least": found.least, "law": found.tail}
    return TwoSampleResult(statistic, pvalue, threshold, none, level, **rest)
