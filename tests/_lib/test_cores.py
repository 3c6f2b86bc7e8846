import subprocess
import sys

import jax
import pytest

from ntkmmd_jax import use_cores


def test_every_core_becomes_a_device():
    code = "import ntkmmd_jax as n, jax; print(n.use_cores(3), jax.local_device_count('cpu'))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["3", "3"]


def test_it_comes_before_the_first_use_of_jax():
    jax.devices()
    with pytest.raises(RuntimeError, match="before the first use of JAX"):
        use_cores(2)
