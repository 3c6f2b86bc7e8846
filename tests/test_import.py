"""Importing the package is light and changes nothing."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ntkmmd_jax

CODE = """
import sys
import jax
before = {name: getattr(jax.config, name) for name in ("jax_enable_x64", "jax_default_prng_impl")}
import ntkmmd_jax
loaded = set(sys.modules)
heavy = {"tensorflow", "tf2jax", "matplotlib", "neural_tangents", "typer", "flax", "optax", "rich"}
assert not heavy & loaded, heavy & loaded
assert before == {name: getattr(jax.config, name) for name in before}
from jax._src import xla_bridge
assert not xla_bridge._backends, "importing has started a JAX backend"
rooms = {"changepoint", "datasets", "experiments", "kernels", "power", "theory", "twosample"}
assert not {f"ntkmmd_jax.{room}" for room in rooms} & loaded
for method in ntkmmd_jax.methods():
    if method not in ("c2st-s", "c2st-l", "me", "scf"):  # which are trained by optax
        ntkmmd_jax.make_test(method)
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert not xla_bridge._backends
"""
ROOT = Path(ntkmmd_jax.__file__).parent
LAZY = [
    ".".join(path.parent.relative_to(ROOT.parent).parts)
    for path in sorted(ROOT.rglob("__init__.py"))
    if "lazily(" in path.read_text(encoding="utf-8")
]


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_import_is_light():
    """No TensorFlow, matplotlib, neural-tangents or flax, no JAX backend, no changed setting.

    Nor does a test need flax, however it is made, before it runs.
    """
    run(CODE)


def test_using_it_never_imports_tensorflow():
    run(
        "import sys, ntkmmd_jax as ntk, numpy as np\n"
        "x = np.random.default_rng(0).normal(size=(12, 3))\n"
        "network = ntk.mlp((4, 4))  # the two-layer network has a closed form\n"
        "ntk.two_sample_test(x, x + 1, method='ntk-full', network=network, n_permutations=19)\n"
        "assert 'neural_tangents' in sys.modules\n"
        "assert not {'tensorflow', 'tf2jax', 'matplotlib'} & set(sys.modules)\n"
    )


@pytest.mark.parametrize("name", LAZY)
def test_a_package_gives_what_it_shows_to_readers(name):
    """Names below `if TYPE_CHECKING` and those that Python finds: the same, of the same objects."""
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    blocks = (node for node in tree.body if isinstance(node, ast.If))
    shown = {
        alias.name: importlib.import_module(one.module)
        for block in blocks
        for one in block.body
        for alias in one.names
    }
    assert set(shown) <= set(package.__all__) <= set(dir(package))
    for one, home in shown.items():
        assert getattr(package, one) is getattr(home, one), one
    for one in package.__all__:
        getattr(package, one)
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_this_name'"):
        _ = package.nothing_of_this_name


def test_modules_are_names_of_their_packages():
    """As they were when all were imported at once; and `import *` gives the public names."""
    run(
        "import ntkmmd_jax as ntk\n"
        "ntk.binned, ntk.kernels.gaussian.median_bandwidth, ntk.witness.inner\n"
        "from ntkmmd_jax import *\n"
        "mlp, two_sample_test, changepoint.segment, theory.quantile\n"
    )
