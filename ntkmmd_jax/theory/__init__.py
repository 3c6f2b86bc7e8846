"""The paper's guarantees as functions: thresholds, sample sizes, asymptotics, kernel drift.

`SYMMETRIC`, `TEST_ONLY` and `FULL` are the three theorems on power (`theorems.py`);
`kernel_moments` estimates what they ask for (`moments.py`); `asymptotic_weights`, `tail` and
`quantile` are the weighted χ² law (`weighted_chi2.py`); `kernel_drift`, `lemma_constants` and
`sgd_displacement` are the lemma on the kernel and its discrete-time version (`drift.py`);
`finite_time_witness` is least squares for a finite time, linearised (`finite_time.py`), and
`compare_widths` how near training comes to it (`widths.py`).
"""

from typing import TYPE_CHECKING

from ntkmmd_jax._lib.laws import weighted_quantile as quantile
from ntkmmd_jax._lib.laws import weighted_tail as tail
from ntkmmd_jax._lib.lazy import lazily

if TYPE_CHECKING:
    from ntkmmd_jax.theory.drift import (
        KernelDrift,
        LemmaConstants,
        SGDDisplacement,
        kernel_drift,
        lemma_constants,
        sgd_displacement,
    )
    from ntkmmd_jax.theory.finite_time import finite_time_witness
    from ntkmmd_jax.theory.moments import Estimate, KernelMoments, kernel_moments, ntk
    from ntkmmd_jax.theory.theorems import FULL, SYMMETRIC, TEST_ONLY, Guarantee, Theorem, balance
    from ntkmmd_jax.theory.weighted_chi2 import asymptotic_weights
    from ntkmmd_jax.theory.widths import WidthComparison, compare_widths

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ntkmmd_jax.theory.drift": (
            "KernelDrift LemmaConstants SGDDisplacement kernel_drift lemma_constants "
            "sgd_displacement"
        ),
        "ntkmmd_jax.theory.finite_time": "finite_time_witness",
        "ntkmmd_jax.theory.moments": "Estimate KernelMoments kernel_moments ntk",
        "ntkmmd_jax.theory.theorems": "FULL SYMMETRIC TEST_ONLY Guarantee Theorem balance",
        "ntkmmd_jax.theory.weighted_chi2": "asymptotic_weights",
        "ntkmmd_jax.theory.widths": "WidthComparison compare_widths",
    },
)

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
    "WidthComparison",
    "asymptotic_weights",
    "balance",
    "compare_widths",
    "finite_time_witness",
    "kernel_drift",
    "kernel_moments",
    "lemma_constants",
    "ntk",
    "quantile",
    "sgd_displacement",
    "tail",
]
