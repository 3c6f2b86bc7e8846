"""The same numbers on one device and on four."""

import os
import subprocess
import sys

CODE = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import ntkmmd_jax as ntk

assert jax.device_count() == 4
test = ntk.NTKMMD(network=ntk.mlp(16), n_permutations=99)

def replica(key):
    k_data, k_test = jax.random.split(key)
    x, y = ntk.datasets.covariance_shift(k_data, 20, 16, rho=0.5, dim=4)
    r = test(k_test, x, y)
    return r.statistic, r.pvalue

keys = jax.random.split(jax.random.key(0), 64)
one = jax.jit(jax.vmap(replica))(keys)
replicas = NamedSharding(Mesh(jax.devices(), "replicas"), PartitionSpec("replicas"))
four = jax.jit(jax.vmap(replica), in_shardings=replicas, out_shardings=replicas)(keys)
assert len(four[0].sharding.device_set) == 4
np.testing.assert_allclose(one[0], four[0], rtol=1e-4, atol=1e-6)
np.testing.assert_array_equal(one[1], four[1])
"""


def test_replicas_sharded_over_devices():
    flags = os.environ.get("XLA_FLAGS", "")
    run = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count=4"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
