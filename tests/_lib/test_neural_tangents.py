"""neural-tangents on current JAX: the same kernels by every route, and a jax left as it was."""

import functools
import os
import pathlib
import subprocess
import sys
import textwrap
import types
import warnings

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.flatten_util import ravel_pytree

from ntkmmd_jax._lib import neural_tangents as _neural_tangents

ROOT = pathlib.Path(__file__).parents[2]
# Float32 sums of some hundred terms: 1e-5 is about a hundred times epsilon.
RTOL = 1e-5


class LinenMLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (16, 16):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(1)(x)


class LinenCNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.max_pool(nn.relu(nn.Conv(4, (3, 3))(x)), (2, 2), (2, 2))
        return nn.Dense(1)(x.reshape(len(x), -1))


class NnxMLP(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, 16, rngs=rngs)
        self.second = nnx.Linear(16, 16, rngs=rngs)
        self.last = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.second(nnx.relu(self.first(x)))))


def two_layer(params, x):
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["v"] / 4


def sliced(params, x):
    """Layers cut from one vector: the transpose of `slice` is not in jax's public table."""
    return jnp.tanh(x @ params[:48].reshape(3, 16)) @ params[48:].reshape(16, 1)


def filled(shapes, *, seed=0):
    """Normal parameters of given shapes: numpy's, for they need no compilation."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.array(rng.normal(size=leaf.shape), "float32"), shapes)


def two_layer_shapes(*batch):
    shapes = {"w": (3, 16), "b": (16,), "v": (16, 1)}
    return {
        name: jax.ShapeDtypeStruct((*batch, *shape), "float32") for name, shape in shapes.items()
    }


@functools.cache
def case(name):
    """A network `f(params, x)`, its parameters, and two samples of unequal size."""
    point = (6, 6, 2) if name == "cnn" else (3,)
    x, y = filled([np.empty((6, *point)), np.empty((4, *point))], seed=1)
    if name == "two_layer":
        return two_layer, filled(two_layer_shapes()), x, y
    if name == "sliced":
        return sliced, filled(np.empty(64)), x, y
    if name == "nnx":
        graph, state = nnx.split(nnx.eval_shape(lambda: NnxMLP(nnx.Rngs(0))))
        return lambda state, x: nnx.merge(graph, state)(x), filled(state), x, y
    module = LinenCNN() if name == "cnn" else LinenMLP()
    return module.apply, filled(jax.eval_shape(module.init, jax.random.key(0), x)), x, y


@functools.partial(jax.jit, static_argnums=0)
def jacobian_route(f, params, x, y):
    def gradient(point):
        return ravel_pytree(jax.grad(lambda params: f(params, point[None])[0, 0])(params))[0]

    return jax.vmap(gradient)(x) @ jax.vmap(gradient)(y).T


def assert_kernels_agree(kernel, expected):
    assert kernel.dtype == jnp.float32
    kernel, expected = np.asarray(kernel), np.asarray(expected)
    assert kernel.shape == expected.shape
    assert np.max(np.abs(kernel - expected)) < RTOL * np.max(np.abs(expected))


CASES = ["two_layer", "sliced", "linen", "nnx", "cnn"]


@pytest.mark.parametrize(
    ("implementation", "name"),
    [*((i, name) for i in (1, 2, 3) for name in CASES), (0, "two_layer")],  # 0 picks one of them
)
def test_empirical_kernels_agree_with_the_jacobian_route(name, implementation, capsys):
    nt = _neural_tangents.load()
    f, params, x, y = case(name)
    kernel_fn = nt.empirical_ntk_fn(f, vmap_axes=0, implementation=implementation)
    with _neural_tangents.quiet():
        kernel = jax.jit(kernel_fn)(x, y, params)
    assert_kernels_agree(kernel, jacobian_route(f, params, x, y))
    assert ("flops" in capsys.readouterr().out) == (implementation == 0)


@pytest.mark.parametrize("implementation", [1, 2, 3])
def test_empirical_kernels_work_under_jit_vmap_and_map(implementation):
    nt = _neural_tangents.load()
    _, _, x, y = case("two_layer")
    replicas = filled(two_layer_shapes(3))
    expected = jax.vmap(lambda params: jacobian_route(two_layer, params, x, y))(replicas)

    def kernel_fn(params):
        return nt.empirical_ntk_fn(two_layer, implementation=implementation)(x, y, params)

    @jax.jit
    def both(replicas):
        return jax.vmap(kernel_fn)(replicas), jax.lax.map(kernel_fn, replicas)

    for kernels in both(replicas):
        assert_kernels_agree(kernels, expected)


@pytest.mark.parametrize("implementation", [1, 2, 3])
def test_outputs_without_a_channel_axis_need_no_trace(implementation):
    nt = _neural_tangents.load()
    f, params, x, y = case("two_layer")
    kernel_fn = nt.empirical_ntk_fn(
        lambda params, x: f(params, x)[:, 0], trace_axes=(), implementation=implementation
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing to be quiet about, even without `jit`
        kernel = kernel_fn(x, y, params)
    assert_kernels_agree(kernel, jacobian_route(f, params, x, y))


def test_infinite_relu_kernel_is_the_arc_cosine_kernel():
    stax = _neural_tangents.load().stax
    _, _, x, y = case("two_layer")
    kernel_fn = stax.serial(stax.Dense(1), stax.Relu(), stax.Dense(1))[2]
    kernel = jax.jit(kernel_fn, static_argnums=2)(x, y, "ntk")

    x, y = np.float64(x), np.float64(y)
    linear = x @ y.T / 3
    norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1) / 3
    angle = np.arccos(linear / norms)
    order_0 = (np.pi - angle) / (2 * np.pi)
    order_1 = norms * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    np.testing.assert_allclose(kernel, order_1 + linear * order_0, rtol=1e-5, atol=1e-6)


def test_numerical_activation_agrees_with_the_analytic_one_and_is_quiet():
    stax = _neural_tangents.load().stax
    _, _, x, y = case("two_layer")

    def kernel(layer):
        kernel_fn = stax.serial(stax.Dense(1), layer, stax.Dense(1))[2]
        return jax.jit(kernel_fn, static_argnums=2)(x, y, "ntk")

    with pytest.warns(UserWarning):
        stax.ElementwiseNumerical(jax.scipy.special.erf, deg=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with _neural_tangents.quiet():
            numerical = kernel(stax.ElementwiseNumerical(jax.scipy.special.erf, deg=100))
    # At 100 nodes the quadrature is exact to float precision (at 25 it is off by 0.6 %).
    assert_kernels_agree(numerical, kernel(stax.Erf()))


def test_self_check_is_run_on_an_untested_jax_only(monkeypatch):
    nt = _neural_tangents.load()
    repaired = dict(vars(sys.modules["neural_tangents._src.empirical"]))
    checks = []

    def check(nt, original=_neural_tangents._check):
        checks.append(nt)
        original(nt)

    monkeypatch.setattr(_neural_tangents, "_check", check)
    _neural_tangents._load_once.cache_clear()
    assert _neural_tangents.load() is nt and not checks
    monkeypatch.setattr(_neural_tangents, "_NEWEST_MINOR", (0, 9))
    _neural_tangents._load_once.cache_clear()
    # Under a trace, as when the first kernel is asked for inside `jit`.
    jax.jit(lambda: _neural_tangents.load() and None)()
    assert _neural_tangents.load() is nt and checks == [nt]
    # What is repaired, by us or by the user, is left alone.
    assert vars(sys.modules["neural_tangents._src.empirical"]) == repaired


def test_self_check_refuses_wrong_kernels(monkeypatch):
    nt = _neural_tangents.load()

    def doubled(f, implementation):
        factor = 2 if implementation == 3 else 1
        kernel_fn = nt.empirical_ntk_fn(f, implementation=implementation)
        return lambda *args: factor * kernel_fn(*args)

    wrong = types.ModuleType("neural_tangents")
    wrong.__version__, wrong.empirical_ntk_fn = "0.7", doubled
    monkeypatch.setitem(sys.modules, "neural_tangents", wrong)
    _neural_tangents._load_once.cache_clear()
    with pytest.raises(ImportError, match="implementation 3 gives a wrong kernel"):
        _neural_tangents.load()


# What follows needs a fresh interpreter. `snapshot()` shows whether jax has been patched: all
# its modules that neural-tangents imports are imported first, as they become attributes of jax.
PRELUDE = """
import importlib.abc, sys, threading, types, warnings
import jax, jax.core, jax.numpy, jax.interpreters.ad, jax.example_libraries.stax
import jax.experimental.ode, jax.extend.core, jax.extend.linear_util, jax.flatten_util
from ntkmmd_jax._lib import neural_tangents as _neural_tangents

class Refuse(importlib.abc.MetaPathFinder):
    def __init__(self, names, error):
        self.names, self.error = names, error

    def find_spec(self, name, path, target=None):
        if name in self.names:
            raise self.error

def snapshot():
    modules = (jax, jax.core, jax.numpy, jax.interpreters.ad)
    found = {module.__name__: dict(vars(module)) for module in modules}
    found["dir"] = [dir(module) for module in modules]
    found["jax.util"] = sys.modules.get("jax.util")
    return found

def imported():
    return sorted(name for name in sys.modules if name.split(".")[0] == "neural_tangents")

assert not imported(), "importing the package has imported neural-tangents"
warnings.simplefilter("error")
before = snapshot()
"""


def run(body):
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    code = PRELUDE + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_load_leaves_jax_alone_and_never_asks_for_tensorflow():
    run("""
    asked = AssertionError("asked for TensorFlow")
    sys.meta_path.insert(0, Refuse({"tensorflow", "tf2jax"}, asked))
    loaded = []
    threads = [threading.Thread(target=lambda: loaded.append(_neural_tangents.load()))
               for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(loaded) == 4 and len(set(map(id, loaded))) == 1, loaded
    assert snapshot() == before
    assert "tensorflow" not in sys.modules and "tf2jax" not in sys.modules
    assert "neural_tangents.experimental" not in sys.modules
    assert not hasattr(loaded[0], "experimental")
    """)


def test_a_module_that_the_user_has_imported_is_used_and_repaired():
    run("""
    with _neural_tangents._lent_names(), _neural_tangents.quiet():
        import neural_tangents
    unrepaired = neural_tangents._src.empirical._eqn_vjp_fn
    assert _neural_tangents.load() is neural_tangents
    assert neural_tangents._src.empirical._eqn_vjp_fn is not unrepaired
    kernel_fn = neural_tangents.empirical_ntk_fn(lambda w, x: x @ w, implementation=3)
    x, w = jax.numpy.array([[3.0, 4.0]]), jax.numpy.ones((2, 1))
    assert jax.jit(kernel_fn)(x, None, w) == 25
    assert snapshot() == before
    """)


@pytest.mark.parametrize(
    ("refused", "error", "expected"),
    [
        pytest.param(
            "neural_tangents._src.empirical",
            "AttributeError('no such name')",
            f"neural-tangents 0.6.5 does not work on JAX {jax.__version__}; neural-tangents 0.6.5 "
            "is known to work on JAX 0.4.35 to 0.10.2. (AttributeError: no such name)",
            id="broken",
        ),
        pytest.param(
            "neural_tangents",
            "ModuleNotFoundError('missing', name='neural_tangents')",
            "neural_tangents is missing: `pip install neural-tangents==0.6.5`; or, without "
            "TensorFlow, which is not used here, `pip install --no-deps neural-tangents==0.6.5` "
            "and `pip install frozendict`.",
            id="missing",
        ),
    ],
)
def test_a_failing_import_is_explained_each_time_and_leaves_jax_alone(refused, error, expected):
    out = run(f"""
    refuse = Refuse({{{refused!r}}}, {error})
    sys.meta_path.insert(0, refuse)
    for attempt in range(2):
        try:
            _neural_tangents.load()
        except ImportError as error:
            print(error)
        assert snapshot() == before
        assert not imported(), imported()
    # Once the cause is gone, so is the error.
    sys.meta_path.remove(refuse)
    _neural_tangents.load()
    assert snapshot() == before
    """)
    assert out.splitlines() == [expected, expected]
