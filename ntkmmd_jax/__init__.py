"""Two-sample testing with the neural tangent kernel, in JAX.

What draws at random takes `key` first and never has a default for it; only the outermost
conveniences, `two_sample_test(x, y, *, key=0)` and `plan`, take it by name. An int seed will do.

>>> import numpy as np
>>> import ntkmmd_jax as ntk
>>> rng = np.random.default_rng(0)
>>> r = ntk.two_sample_test(rng.normal(size=(100, 3)), rng.normal(size=(80, 3)) + 1.0, key=0)
>>> r.reject
True
>>> r.witness(np.zeros((4, 3))).shape
(4,)
"""

from typing import TYPE_CHECKING, Any

from ntkmmd_jax._lib import xla as _xla
from ntkmmd_jax._lib.lazy import lazily as _lazily
from ntkmmd_jax._version import __version__ as __version__

if TYPE_CHECKING:
    from ntkmmd_jax import calibration, changepoint, datasets, sequential, theory
    from ntkmmd_jax._lib.cache import cache
    from ntkmmd_jax._lib.cores import use_cores
    from ntkmmd_jax._lib.precision import precision
    from ntkmmd_jax._lib.records import record, static
    from ntkmmd_jax.kernels import (
        EstimatedMMD,
        GaussianKernel,
        TangentKernel,
        empirical_ntk,
        estimate_mmd,
        infinite_ntk,
        two_layer_ntk,
    )
    from ntkmmd_jax.measure import SignedMeasure, signed_measure
    from ntkmmd_jax.networks import (
        Network,
        convnet,
        embed,
        fourier,
        freeze,
        from_flax,
        mlp,
        with_head,
    )
    from ntkmmd_jax.power.plan import plan
    from ntkmmd_jax.power.planned import Plan
    from ntkmmd_jax.power.sweep import power_sweep
    from ntkmmd_jax.power.table import PowerTable
    from ntkmmd_jax.theory.comparison import Comparison, compare
    from ntkmmd_jax.training import SGD, Trajectory, binned, streaming, trained_witness, trajectory
    from ntkmmd_jax.twosample import (
        C2ST,
        NTKMMD,
        Adaptive,
        Asymptotic,
        BettingTest,
        Bound,
        Distance,
        Explanation,
        FiniteTimeNTK,
        Full,
        FusedNTK,
        GaussianMMD,
        Hotelling,
        KSampleResult,
        LinearTimeMMD,
        MeanEmbedding,
        MMDAgg,
        MMDFuse,
        NetMMD,
        Normal,
        Permutation,
        PermutationTest,
        Scale,
        SmoothCF,
        Tangent,
        ToleranceResult,
        TwoSampleResult,
        TwoSampleTest,
        distance,
        k_sample_test,
        make_test,
        methods,
        sharded_test,
        streamed_test,
        tolerance_of,
        tolerance_test,
        two_sample_test,
    )
    from ntkmmd_jax.twosample.pilot import PilotNull, pilot_null
    from ntkmmd_jax.twosample.side_by_side import SideBySide, side_by_side
    from ntkmmd_jax.witness import Witness, exact_witness

_xla.repair()  # before anything is compiled: importing compiles nothing

_get, __dir__ = _lazily(
    __name__,
    {
        "ntkmmd_jax._lib.cache": "cache",
        "ntkmmd_jax._lib.cores": "use_cores",
        "ntkmmd_jax._lib.precision": "precision",
        "ntkmmd_jax._lib.records": "record static",
        "ntkmmd_jax.kernels": (
            "EstimatedMMD GaussianKernel TangentKernel empirical_ntk estimate_mmd "
            "infinite_ntk two_layer_ntk"
        ),
        "ntkmmd_jax.measure": "SignedMeasure signed_measure",
        "ntkmmd_jax.networks": "Network convnet embed fourier freeze from_flax mlp with_head",
        "ntkmmd_jax.power.plan": "plan",
        "ntkmmd_jax.power.planned": "Plan",
        "ntkmmd_jax.power.sweep": "power_sweep",
        "ntkmmd_jax.power.table": "PowerTable",
        "ntkmmd_jax.theory.comparison": "Comparison compare",
        "ntkmmd_jax.training": "SGD Trajectory binned streaming trained_witness trajectory",
        "ntkmmd_jax.twosample": (
            "C2ST NTKMMD Adaptive Asymptotic BettingTest Bound Distance Explanation "
            "FiniteTimeNTK Full FusedNTK GaussianMMD Hotelling KSampleResult LinearTimeMMD "
            "MeanEmbedding MMDAgg MMDFuse NetMMD Normal Permutation PermutationTest Scale "
            "SmoothCF Tangent ToleranceResult TwoSampleResult TwoSampleTest distance "
            "k_sample_test make_test methods sharded_test streamed_test tolerance_of "
            "tolerance_test two_sample_test"
        ),
        "ntkmmd_jax.twosample.pilot": "PilotNull pilot_null",
        "ntkmmd_jax.twosample.side_by_side": "SideBySide side_by_side",
        "ntkmmd_jax.witness": "Witness exact_witness",
    },
)

__all__ = [
    "C2ST",
    "NTKMMD",
    "SGD",
    "Adaptive",
    "Asymptotic",
    "BettingTest",
    "Bound",
    "Comparison",
    "Distance",
    "EstimatedMMD",
    "Explanation",
    "FiniteTimeNTK",
    "Full",
    "FusedNTK",
    "GaussianKernel",
    "GaussianMMD",
    "Hotelling",
    "KSampleResult",
    "LinearTimeMMD",
    "MMDAgg",
    "MMDFuse",
    "MeanEmbedding",
    "NetMMD",
    "Network",
    "Normal",
    "Permutation",
    "PermutationTest",
    "PilotNull",
    "Plan",
    "PowerTable",
    "Scale",
    "SideBySide",
    "SignedMeasure",
    "SmoothCF",
    "Tangent",
    "TangentKernel",
    "ToleranceResult",
    "Trajectory",
    "TwoSampleResult",
    "TwoSampleTest",
    "Witness",
    "binned",
    "cache",
    "calibration",
    "changepoint",
    "compare",
    "convnet",
    "datasets",
    "distance",
    "embed",
    "empirical_ntk",
    "estimate_mmd",
    "exact_witness",
    "fourier",
    "freeze",
    "from_flax",
    "infinite_ntk",
    "k_sample_test",
    "make_test",
    "methods",
    "mlp",
    "pilot_null",
    "plan",
    "power_sweep",
    "precision",
    "record",
    "sequential",
    "sharded_test",
    "side_by_side",
    "signed_measure",
    "static",
    "streamed_test",
    "streaming",
    "theory",
    "tolerance_of",
    "tolerance_test",
    "trained_witness",
    "trajectory",
    "two_layer_ntk",
    "two_sample_test",
    "use_cores",
    "with_head",
]


def __getattr__(name: str) -> Any:
    """Names that are asked for; those of earlier versions for one version more."""
    if name == "statistics":
        import warnings

        from ntkmmd_jax import measure

        warnings.warn(
            "ntkmmd_jax.statistics is now part of ntkmmd_jax.measure",
            DeprecationWarning,
            stacklevel=2,
        )
        return measure
    return _get(name)
