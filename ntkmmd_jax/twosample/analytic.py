"""Calibrations by formula, without permutations: normal, asymptotic, and by the theorems.

They need no null sample, and pay for it: "normal" and "asymptotic" are limits in n, and "theory"
is a bound, so conservative that it rejects only what is plain to see.
"""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri

from ntkmmd_jax.calibration import centred, label_pool
from ntkmmd_jax.measure import label_weights, signed_measure
from ntkmmd_jax.statistics import mean_gap, mmd2, unbiased_mmd2
from ntkmmd_jax.theory import Theorem, asymptotic_weights, kernel_moments, quantile, tail
from ntkmmd_jax.twosample.contract import analytic_result
from ntkmmd_jax.twosample.result import TwoSampleResult

_TRIED = 200  # labellings that tell whether the weighted χ² law can be exceeded at all
NORMAL = 20  # held-out points of each sample from which on "normal" is measured to hold


def warn_if_too_few(method: str, law: str, sizes: tuple[int, int], least: int) -> None:
    """Warn where fewer points than `least` of a sample stand for a limit in n."""
    if min(sizes) < least:
        warnings.warn(
            f"{method} with calibration {law!r} rejects too often with {sizes[0]} + {sizes[1]} "
            f"points: it is a limit law, measured to hold from about {least} of each on. The "
            "default calibration is exact at any size",
            stacklevel=5,
        )


def normal_law(statistic: jax.Array, error: jax.Array, level: Any) -> tuple[jax.Array, jax.Array]:
    """The one-sided p-value of a statistic with a standard error, never 0, and the threshold."""
    # If all terms are 0, nothing speaks against H0.
    pvalue = jnp.where((error == 0) & (statistic == 0), 1, ndtr(-statistic / error))
    limits = jnp.finfo(statistic.dtype)
    return jnp.maximum(pvalue, limits.tiny), -ndtri(jnp.asarray(level, statistic.dtype)) * error


def normal_result(scores: jax.Array, of_x: int, level: Any, **rest: Any) -> TwoSampleResult:
    """The mean gap of held-out scores over its standard error (Welch), taken as normal.

    Given the witness the scores are independent, so this is the central limit theorem. In d = 2
    and 10 its level of 5 % is 6.6 to 7.2 % at n = 10 per sample (5 held out), 5.5 to 5.7 % at 20
    and 30, 5.2 to 5.5 % at 40 and 60, and within 0.3 % of 5 % from 100 on (4,000 runs each).
    """
    x, y = scores[:of_x], scores[of_x:]
    if min(len(x), len(y)) < 2:
        raise ValueError(
            f"calibration 'normal' needs 2 held-out points of each; got {len(x)} and {len(y)}"
        )
    error = jnp.sqrt(x.var(ddof=1) / len(x) + y.var(ddof=1) / len(y))
    statistic = x.mean() - y.mean()
    return analytic_result(statistic, *normal_law(statistic, error, level), level, **rest)


def asymptotic_result(
    kernel: jax.Array, of_x: int, level: Any, *, unbiased: bool, **rest: Any
) -> TwoSampleResult:
    """The symmetric MMD² against its limit law, a weighted χ² sum, from the kernel matrix (n, n).

    The weights are eigenvalues of the centred kernel: cubic time, quadratic memory. Sampling noise
    spreads them, so in higher dimension the test is conservative until n is large: in d = 10 its
    level of 5 % is 1 % at n = 10 per sample and 3 % at n = 50; in d = 2 it is 5 % from n = 50. Some
    labellings are tried as well, and if none of them reaches the threshold the result says so.
    """
    n, kernel = len(kernel), centred(kernel)
    weights = asymptotic_weights(kernel, of_x, n - of_x)
    # The unbiased statistic leaves the diagonal out, whose mean is the mean of the law.
    shift = weights.sum() if unbiased else 0.0
    others = label_pool(jax.random.key(0), of_x, n, _TRIED)
    labels = jnp.concatenate([jnp.arange(n)[None] < of_x, others])
    if unbiased:
        values = unbiased_mmd2(kernel, labels)
    else:
        values = mmd2(kernel, label_weights(labels, of_x, n - of_x))
    statistic, least = values[0], tail(weights, values.max() + shift)
    law = (tail(weights, statistic + shift), quantile(weights, level) - shift)
    return analytic_result(statistic, *law, level, least=least, **rest)


def theory_result(
    theorem: Theorem,
    kernel: Callable,
    scores: jax.Array,
    samples: tuple[jax.Array, jax.Array],
    test: tuple[jax.Array, jax.Array],
    cn: int,
    level: Any,
    **rest: Any,
) -> TwoSampleResult:
    """T against the threshold of a theorem, for the kernel normalised by its largest K(z, z).

    ν is the upper end of its estimate from all samples (two standard errors).
    """
    moments = kernel_moments(kernel, *samples)
    statistic = mean_gap(scores, signed_measure(*test).weights)
    nu, unit = moments.bound(), moments.scale
    pvalue = theorem.pvalue(statistic / unit, cn, nu)
    threshold = unit * theorem.threshold(cn, nu, level)
    return analytic_result(statistic, pvalue, threshold, level, **rest)
