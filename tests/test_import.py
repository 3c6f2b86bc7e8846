"""Importing the package is light and changes nothing."""

import subprocess
import sys

CODE = """
import sys
import jax, flax.linen, flax.nnx, optax
before = {name: getattr(jax.config, name) for name in ("jax_enable_x64", "jax_default_prng_impl")}
import ntkmmd_jax
heavy = {"tensorflow", "tf2jax", "matplotlib", "neural_tangents", "typer"} & set(sys.modules)
assert not heavy, heavy
assert before == {name: getattr(jax.config, name) for name in before}
from jax._src import xla_bridge
assert not xla_bridge._backends, "importing has started a JAX backend"
"""


def test_import_is_light():
    """No TensorFlow, no matplotlib, no neural-tangents, no JAX backend, no changed setting."""
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr


def test_using_it_never_imports_tensorflow():
    code = (
        "import sys, ntkmmd_jax as ntk, numpy as np\n"
        "x = np.random.default_rng(0).normal(size=(12, 3))\n"
        "network = ntk.mlp((4, 4))  # the two-layer network has a closed form\n"
        "ntk.two_sample_test(x, x + 1, method='ntk-full', network=network, n_permutations=19)\n"
        "assert 'neural_tangents' in sys.modules\n"
        "assert not {'tensorflow', 'tf2jax', 'matplotlib'} & set(sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
