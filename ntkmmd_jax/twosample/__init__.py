"""Two-sample tests: one contract, `test(key, x, y) -> TwoSampleResult`, and the call by name."""

from typing import TYPE_CHECKING

from ntkmmd_jax._lib.lazy import lazily

if TYPE_CHECKING:
    from ntkmmd_jax._lib.keys import as_key
    from ntkmmd_jax.twosample.adaptive import Adaptive
    from ntkmmd_jax.twosample.agg import MMDAgg
    from ntkmmd_jax.twosample.bet import BettingTest
    from ntkmmd_jax.twosample.c2st import C2ST
    from ntkmmd_jax.twosample.calibrations import Asymptotic, Bound, Full, Normal, Permutation
    from ntkmmd_jax.twosample.contract import TwoSampleTest
    from ntkmmd_jax.twosample.distances import Distance, distance
    from ntkmmd_jax.twosample.embedding import MeanEmbedding, SmoothCF
    from ntkmmd_jax.twosample.explained import Explanation
    from ntkmmd_jax.twosample.finite_time import FiniteTimeNTK
    from ntkmmd_jax.twosample.fuse import MMDFuse
    from ntkmmd_jax.twosample.fused import FusedNTK
    from ntkmmd_jax.twosample.gaussian import GaussianMMD
    from ntkmmd_jax.twosample.hotelling import Hotelling
    from ntkmmd_jax.twosample.k_samples import KSampleResult, k_sample_test
    from ntkmmd_jax.twosample.linear_time import LinearTimeMMD
    from ntkmmd_jax.twosample.members import Scale, Tangent
    from ntkmmd_jax.twosample.named import (
        default_method,
        make_test,
        methods,
        shipped_test,
        two_sample_test,
    )
    from ntkmmd_jax.twosample.ntk import NTKMMD, NetMMD
    from ntkmmd_jax.twosample.own import PermutationTest
    from ntkmmd_jax.twosample.result import TwoSampleResult
    from ntkmmd_jax.twosample.sharded import sharded_test
    from ntkmmd_jax.twosample.streamed import streamed_test
    from ntkmmd_jax.twosample.tolerance import ToleranceResult, tolerance_of, tolerance_test

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ntkmmd_jax._lib.keys": "as_key",
        "ntkmmd_jax.twosample.adaptive": "Adaptive",
        "ntkmmd_jax.twosample.agg": "MMDAgg",
        "ntkmmd_jax.twosample.bet": "BettingTest",
        "ntkmmd_jax.twosample.c2st": "C2ST",
        "ntkmmd_jax.twosample.calibrations": "Asymptotic Bound Full Normal Permutation",
        "ntkmmd_jax.twosample.contract": "TwoSampleTest",
        "ntkmmd_jax.twosample.distances": "Distance distance",
        "ntkmmd_jax.twosample.embedding": "MeanEmbedding SmoothCF",
        "ntkmmd_jax.twosample.explained": "Explanation",
        "ntkmmd_jax.twosample.finite_time": "FiniteTimeNTK",
        "ntkmmd_jax.twosample.fuse": "MMDFuse",
        "ntkmmd_jax.twosample.fused": "FusedNTK",
        "ntkmmd_jax.twosample.gaussian": "GaussianMMD",
        "ntkmmd_jax.twosample.hotelling": "Hotelling",
        "ntkmmd_jax.twosample.k_samples": "KSampleResult k_sample_test",
        "ntkmmd_jax.twosample.linear_time": "LinearTimeMMD",
        "ntkmmd_jax.twosample.members": "Scale Tangent",
        "ntkmmd_jax.twosample.named": (
            "default_method make_test methods shipped_test two_sample_test"
        ),
        "ntkmmd_jax.twosample.ntk": "NTKMMD NetMMD",
        "ntkmmd_jax.twosample.own": "PermutationTest",
        "ntkmmd_jax.twosample.result": "TwoSampleResult",
        "ntkmmd_jax.twosample.sharded": "sharded_test",
        "ntkmmd_jax.twosample.streamed": "streamed_test",
        "ntkmmd_jax.twosample.tolerance": "ToleranceResult tolerance_of tolerance_test",
    },
)

__all__ = [
    "C2ST",
    "NTKMMD",
    "Adaptive",
    "Asymptotic",
    "BettingTest",
    "Bound",
    "Distance",
    "Explanation",
    "FiniteTimeNTK",
    "Full",
    "FusedNTK",
    "GaussianMMD",
    "Hotelling",
    "KSampleResult",
    "LinearTimeMMD",
    "MMDAgg",
    "MMDFuse",
    "MeanEmbedding",
    "NetMMD",
    "Normal",
    "Permutation",
    "PermutationTest",
    "Scale",
    "SmoothCF",
    "Tangent",
    "ToleranceResult",
    "TwoSampleResult",
    "TwoSampleTest",
    "as_key",
    "default_method",
    "distance",
    "k_sample_test",
    "make_test",
    "methods",
    "sharded_test",
    "shipped_test",
    "streamed_test",
    "tolerance_of",
    "tolerance_test",
    "two_sample_test",
]
