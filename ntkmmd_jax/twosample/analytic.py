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

from ntkmmd_jax.calibration import centred
from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.statistics import mean_gap, mmd2, unbiased_mmd2
from ntkmmd_jax.theory import Theorem, asymptotic_weights, kernel_moments, quantile, tail
from ntkmmd_jax.twosample.contract import analytic_result
from ntkmmd_jax.twosample.result import TwoSampleResult

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

    Given the witness the scores are independent, so this is the central limit theorem. In d = 10
    its level of 5 % is 6.7 % at n = 10 per sample (5 held out), and in the binomial band from
    n = 20 on; scores with heavy tails need more.
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
    level of 5 % is 1 % at n = 10 per sample and 3 % at n = 50; in d = 2 it is 5 % from n = 50.
    """
    n, kernel = len(kernel), centred(kernel)
    weights = asymptotic_weights(kernel, of_x, n - of_x)
    labels = jnp.arange(n) < of_x
    # The unbiased statistic leaves the diagonal out, whose mean is the mean of the law.
    shift = weights.sum() if unbiased else 0.0
    largest = n * weights.max()  # wᵀKw ≤ |w|² max λ, and |w|² = 1/n_X + 1/n_Y
    if unbiased:
        statistic = unbiased_mmd2(kernel, labels)
        largest = _largest_unbiased(largest, jnp.diagonal(kernel), of_x, n - of_x)
    else:
        statistic = mmd2(kernel, jnp.where(labels, 1 / of_x, -1 / (n - of_x)))
    law = (tail(weights, statistic + shift), quantile(weights, level) - shift)
    return analytic_result(statistic, *law, level, largest=largest, **rest)


def _largest_unbiased(biased: jax.Array, diagonal: jax.Array, n_x: int, n_y: int) -> jax.Array:
    """What the unbiased MMD² cannot exceed, from what the biased one cannot.

    With K centred, both are linear in q = uᵀKu, where u = 1_x − n_X/n: the biased one is
    (1/n_X + 1/n_Y)² q.
    """
    xx, yy, xy = 1 / (n_x * (n_x - 1)), 1 / (n_y * (n_y - 1)), 1 / (n_x * n_y)
    q = biased / (1 / n_x + 1 / n_y) ** 2
    return (xx + yy + 2 * xy) * q - (1 / (n_x - 1) + 1 / (n_y - 1)) * diagonal.min()


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
