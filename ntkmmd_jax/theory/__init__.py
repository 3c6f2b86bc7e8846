"""The paper's guarantees as functions: thresholds, sample sizes, asymptotics, kernel drift.

`SYMMETRIC`, `TEST_ONLY` and `FULL` are the three theorems on power (`theorems.py`);
`kernel_moments` estimates what they ask for (`moments.py`); `asymptotic_weights`, `tail` and
`quantile` are the weighted χ² law (`weighted_chi2.py`); `kernel_drift`, `lemma_constants` and
`sgd_displacement` are the lemma on the kernel and its discrete-time version (`drift.py`).
"""

from ntkmmd_jax._lib.laws import weighted_quantile as quantile
from ntkmmd_jax._lib.laws import weighted_tail as tail
from ntkmmd_jax.theory.drift import (
    KernelDrift,
    LemmaConstants,
    SGDDisplacement,
    kernel_drift,
    lemma_constants,
    sgd_displacement,
)
from ntkmmd_jax.theory.moments import Estimate, KernelMoments, kernel_moments, ntk
from ntkmmd_jax.theory.theorems import FULL, SYMMETRIC, TEST_ONLY, Guarantee, Theorem, balance
from ntkmmd_jax.theory.weighted_chi2 import asymptotic_weights

__all__ = [
    "FULL",
    "SYMMETRIC",
    "TEST_ONLY",
    "Estimate",
    "Guarantee",
    "KernelDrift",
    "KernelMoments",
    "LemmaConstants",
    "SGDDisplacement",
    "Theorem",
    "asymptotic_weights",
    "balance",
    "kernel_drift",
    "kernel_moments",
    "lemma_constants",
    "ntk",
    "quantile",
    "sgd_displacement",
    "tail",
]
