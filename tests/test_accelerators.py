"""Programs as an accelerator gets them: lowered for GPUs and TPUs here, without either.

A program is ready for a platform if, in the module that XLA is given there, nothing calls back into
Python, nothing calls a library of another platform (LAPACK above all), nothing is a float64, and
every product of floats asks for float32 proper. What XLA makes of the module is not seen here.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax.changepoint import chart, detector, edetector, state, threshold
from ntkmmd_jax.pooled import in_bucket
from ntkmmd_jax.power import replicas
from ntkmmd_jax.power.grid import cells_of
from ntkmmd_jax.sequential import state as sequential
from ntkmmd_jax.twosample.contract import run_program
from tests._lib.test_precision import equations

# The libraries of each platform; all else that JAX lowers to is StableHLO.
LIBRARIES = {
    "cuda": r"cu(solver|blas|fft|sparse)\w*|cu_\w+",
    "tpu": r"Eigh|Qr|LuDecomposition|ProductOfElementaryHouseholderReflectors",
}
NEUTRAL = r"Sharding|SPMD\w+|(xla\.sdy|mhlo|stablehlo|chlo)\.\w+"
TO_HOST = "callback|infeed|outfeed"
PRODUCT = re.compile(r"stablehlo\.(dot_general|dot|convolution)\b.*: \(tensor<(?:\d+x)*b?f\d+>")
KEY, X = jax.random.key(0), jnp.zeros((24, 3))
SAMPLER = ntk.datasets.covariance_shift


def faults(traced, platform):
    """What keeps a traced program from a platform, sorted."""
    names = {eqn.primitive.name for eqn in equations(traced.jaxpr.jaxpr)}
    found = [f"host callback: {name}" for name in names if re.search(TO_HOST, name)]
    if found:  # these cannot even be lowered where the platform is not
        return found
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    for target in re.findall(r"custom_call @([\w.$]+)", text):
        if not re.fullmatch(f"{LIBRARIES[platform]}|{NEUTRAL}", target):
            found.append(f"call of another platform: {target}")
    if re.search(r"[x<]f64>", text):
        found.append("float64")
    for line in text.splitlines():
        product = PRODUCT.search(line)
        if product and line.count("HIGHEST") != 2:
            found.append(f"unpinned product: {product[1]}")
    return sorted(set(found))


def of_method(method):
    return jax.jit(ntk.make_test(method)).trace(KEY, X, X)


def of_bucket(method):
    return run_program.trace(ntk.make_test(method), KEY, in_bucket(X, X))


def of_sweep():
    tests = {name: ntk.make_test(name) for name in ("net", "ntk", "gmmd")}
    (cell,) = cells_of(tests, SAMPLER, {"rho": [0.1], "dim": [4]}, (24, 18))
    mesh = jax.sharding.Mesh(np.asarray(jax.local_devices()[:1]), ("replicas",))
    options = {"fixed": cell.fixed, "sizes": cell.sizes, "mesh": mesh, "rounds": 2, "size": 3}
    given = (list(cell.tests.values()), cell.traced, KEY, 0, 6)
    return replicas.rejections.trace(*given, sampler=SAMPLER, **options)


def of_detector(method):
    window = 8

    def started(key, reference):
        test = chart.chart_test(method, window)
        fixed = chart.make_chart(key, test, reference, window, standardize=True)
        about = {"window": window, "shortest": None, "stride": 4, "after": "rereference"}
        about |= {"used": len(X)}
        return state.start(fixed, X, len(X), threshold.given(1.0, window), key, **about)

    return detector.jitted_step.trace(jax.eval_shape(started, KEY, X), X, 24)


def of_edetector():
    begun = jax.eval_shape(edetector.init, KEY, X)
    return edetector._steps.trace(begun, X)


def of_sequential(network):
    begun = jax.eval_shape(lambda key: sequential.init(key, network, 3, warmup=4), KEY)
    return sequential._steps.trace(begun, jnp.zeros((4, 2, 3)), jnp.ones(4, bool))


def of_images():
    network, images = ntk.convnet((2,), width=4), jnp.zeros((4, 12, 12))
    params = jax.eval_shape(network.init, KEY, images)
    both = ntk.signed_measure(images, images)
    witness = jit(lambda params, both: ntk.exact_witness(network, params, both)(images))
    return witness.trace(params, both)


PADDED = [name for name in ntk.methods() if ntk.make_test(name).pads_up_to]
PROGRAMS = {name: (of_method, name) for name in ntk.methods()} | {
    **{f"{name}, in a bucket": (of_bucket, name) for name in PADDED},
    "power_sweep": (of_sweep,),
    "detector, by rows": (of_detector, "ntk"),
    "detector, trained": (of_detector, "net"),
    "e-detector": (of_edetector,),
    "sequential, ridges": (of_sequential, None),
    "sequential, exact": (of_sequential, ntk.mlp(4)),
    "images": (of_images,),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_ready_for_accelerators(name):
    program, *given = PROGRAMS[name]
    traced = program(*given)
    assert {platform: faults(traced, platform) for platform in LIBRARIES} == {
        platform: [] for platform in LIBRARIES
    }


def called_back(x):
    return jax.pure_callback(np.sin, x, x)


def by_lapack(x):
    return jax.ffi.ffi_call("lapack_spotrf_ffi", x)(x)


def convolved(x):
    return jax.lax.conv_general_dilated(x[None, None], x[None, None], (1, 1), "SAME")


@pytest.mark.parametrize("platform", LIBRARIES)
@pytest.mark.parametrize(
    ("fault", "program"),
    [
        ("host callback", called_back),
        ("call of another platform: lapack_spotrf_ffi", by_lapack),
        ("unpinned product: dot_general", lambda x: x @ x.T),
        ("unpinned product: convolution", convolved),
    ],
)
def test_a_fault_is_found(fault, program, platform):
    (found,) = faults(jax.jit(program).trace(X), platform)
    assert found.startswith(fault)
    pinned = jit(program)
    assert bool(faults(pinned.trace(X), platform)) == ("product" not in fault)


@pytest.mark.parametrize("platform", LIBRARIES)
def test_a_float64_is_found(platform):
    with jax.enable_x64(True):
        traced = jit(lambda x: x + x.mean()).trace(jax.ShapeDtypeStruct((4,), np.float64))
        assert faults(traced, platform) == ["float64"]
