"""Laws by formula for kernel statistics: the weighted χ² limit, and the bounds of the theorems."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.tails import BoundTail, WeightedTail
from ntkmmd_jax.calibration import centred, label_pool
from ntkmmd_jax.measure import label_weights, mmd2, unbiased_mmd2
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.theory import Theorem, kernel_moments, quantile, tail
from ntkmmd_jax.theory.weighted_chi2 import centred_weights
from ntkmmd_jax.twosample.evidence import Law, Sample

_TRIED = 200  # labellings that tell whether the weighted χ² law can be exceeded at all


def weighted_chi2_law(
    kernel: jax.Array, samples: Pooled, level: Any, *, unbiased: bool, witness: Any
) -> Law:
    """The symmetric MMD² against its limit law, a weighted χ² sum, from the kernel matrix (n, n).

    The weights are eigenvalues of the centred kernel: cubic time, quadratic memory. Sampling noise
    spreads them, so in higher dimension the test is conservative until n is large: in d = 10 its
    level of 5 % is 1 % at n = 10 per sample and 3 % at n = 50; in d = 2 it is 5 % from n = 50. Some
    labellings are tried as well, and if none of them reaches the threshold the result says so.
    """
    (n_x, n_y, n), places = (samples.n_x, samples.n_y, samples.n), len(kernel)
    kernel = centred(kernel, n, n)
    weights = centred_weights(kernel, padding.number(n_x), padding.number(n_y))
    # The unbiased statistic leaves the diagonal out, whose mean is the mean of the law.
    shift = weights.sum() if unbiased else 0.0
    others = label_pool(jax.random.key(0), n_x, n, _TRIED, places=places)
    labels = jnp.concatenate([jnp.arange(places)[None] < n_x, others])
    if unbiased:
        values = unbiased_mmd2(kernel, labels, n)
    else:
        values = mmd2(kernel, label_weights(labels, n_x, n_y))
    pvalue, least = (tail(weights, value + shift) for value in (values[0], values.max()))
    threshold = quantile(weights, level) - shift
    law = WeightedTail(weights, jnp.asarray(shift, weights.dtype))
    return Law(values[0], pvalue, threshold, least=least, witness=witness, tail=law)


def theorem_law(
    theorem: Theorem,
    kernel: Callable,
    statistic: jax.Array,
    samples: Sample,
    cn: int,
    level: Any,
    *,
    witness: Any,
) -> Law:
    """T against the threshold of a theorem, for the kernel normalised by its largest K(z, z).

    ν is the upper end of its estimate from all samples (two standard errors).
    """
    moments = kernel_moments(kernel, *samples)
    nu, unit = moments.bound(), moments.scale
    pvalue = theorem.pvalue(statistic / unit, cn, nu)
    threshold = unit * theorem.threshold(cn, nu, level)
    # The bound is 4 at its start, and 4/e a width beyond it.
    start, next_ = (unit * theorem.threshold(cn, nu, 4 * p) for p in (1.0, jnp.exp(-1.0)))
    law = BoundTail(start, next_ - start, theorem.pvalue(jnp.inf, cn, nu))
    return Law(statistic, pvalue, threshold, witness=witness, tail=law)
