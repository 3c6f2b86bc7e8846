"""This jaxlib, as the library sets it up, sums right where 0.10.2 by itself does not."""

import inspect
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
import scipy.stats

import ntkmmd_jax as ntk
from ntkmmd_jax._lib import xla as _xla

LAYERS = ("layer_1", "readout")
UNSOUND = jaxlib.__version__ in _xla._UNSOUND
EARLY = """
import ntkmmd_jax, os
print(os.environ["XLA_FLAGS"])
"""
LATE = """
import warnings; warnings.simplefilter("error")
import jax, jax.numpy as jnp, numpy as np
{functions}
u, z = samples()
program = lambda: jax.jit(lambda u, z: forms(u, z))(jnp.float32(u), jnp.float32(z))
before = program()
import ntkmmd_jax
after, expected = program(), forms(u, z, np)
print(*(np.abs(found - expected).max() / np.abs(expected).max() for found in (before, after)))
"""


def samples():
    rng = np.random.default_rng(0)
    return rng.normal(size=(401, 1800)), rng.normal(size=(1800, 10))


def forms(u, z, jnp=jnp):
    """uᵀKu with a Gaussian K: product, exponential, product, sum."""
    norms = jnp.sum(z**2, axis=1)
    kernel = jnp.exp(-(norms[:, None] + norms - 2 * z @ z.T) / 40)
    return jnp.sum((u @ kernel) * u, axis=1)


def test_products_followed_by_sums():
    u, z = samples()
    expected = forms(u, z, np)
    found = jax.jit(forms)(jnp.asarray(u, jnp.float32), jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_products_followed_by_sums_of_rows():
    i = jnp.arange(32_769, dtype=jnp.float32)
    rows = jnp.stack([i, 0 * i, 0 * i], axis=1)
    found = jax.jit(jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2)))(rows)
    np.testing.assert_allclose(found, np.asarray(i, float) ** 2, rtol=1e-5)


def test_the_gaussian_null_of_large_samples_is_that_of_numpy():
    """At a size where the fused kernels went wrong: 1,000 + 1,000 points, 400 permutations."""
    x, y = ntk.datasets.covariance_shift(jax.random.key(0), 1000, 1000, rho=0.3, dim=10)
    result = ntk.GaussianMMD()(0, x, y)
    z = np.concatenate([x, y]).astype(np.float64)
    weights = np.repeat([1e-3, -1e-3], 1000)
    sigma = float(result.witness.bandwidths[0])
    squared = (z**2).sum(1)[:, None] + (z**2).sum(1) - 2 * z @ z.T
    kernel = np.exp(-squared / (2 * sigma**2))
    assert float(result.statistic) == pytest.approx(weights @ kernel @ weights, rel=1e-3)
    rng = np.random.default_rng(1)
    null = [w @ kernel @ w for w in (rng.permutation(weights) for _ in range(400))]
    assert scipy.stats.ks_2samp(result.null, null).pvalue > 1e-3


def test_the_witness_of_large_samples_is_that_of_numpy():
    """The exact witness of the two-layer network on 2,000 training and 2,500 new points."""
    x, y = ntk.datasets.covariance_shift(jax.random.key(0), 1000, 1000, rho=0.3, dim=100)
    points = ntk.datasets.covariance_shift(jax.random.key(1), 2500, 2, rho=0.0)[0]
    network = ntk.mlp(512)
    params = network.init(jax.random.key(2), x)
    found = ntk.exact_witness(network, params, ntk.signed_measure(x, y))(points)
    kernel, a = (np.asarray(params["params"][name]["kernel"], np.float64) for name in LAYERS)
    slope = lambda z: 1 / (1 + np.exp(-(z @ kernel)))  # noqa: E731
    z, new = np.concatenate([x, y]).astype(np.float64), np.asarray(points, np.float64)
    gram = (slope(new) * a**2) @ slope(z).T * (1 + new @ z.T)
    expected = gram @ np.repeat([1e-3, -1e-3], 1000)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def run(program, **environment):
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": "", **environment},
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def test_the_flag_is_set_in_time_and_left_to_who_has_set_it():
    assert ("-reduce" in run(EARLY)) == UNSOUND
    mine = "--xla_cpu_experimental_ynn_fusion_type="
    assert run(EARLY, XLA_FLAGS=mine) == mine


def test_programs_sum_right_when_jax_was_used_before_the_import():
    """A program of the user's own, in which ours may stand; before the import it is not sound."""
    functions = "\n".join(map(inspect.getsource, (samples, forms)))
    before, after = map(float, run(LATE.format(functions=functions)).split())
    assert after < 1e-5
    if UNSOUND:
        assert before > 1e-2  # or this test could not fail
