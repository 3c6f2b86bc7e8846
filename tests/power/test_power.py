"""The paper's Figure 1: power on the covariance shift at the published setting."""

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from tests.conftest import LONG, binomial_band

RHO = np.array([0.0, 0.04, 0.08, 0.12, 0.16])
PUBLISHED = np.array([0.058, 0.130, 0.430, 0.824, 0.960])  # 500 replicas each
N_RUNS = 500


@pytest.fixture(scope="module")
def rejected():
    """Rejections (2, 5, 500) of net and ntk on the same data; one program for all ρ."""
    tests = [ntk.NetMMD(shared_pool=True), ntk.NTKMMD(shared_pool=True)]

    def replica(key, rho):
        k_data, k_test = jax.random.split(key)
        x, y = ntk.datasets.covariance_shift(k_data, 200, 200, rho=rho)
        return [test(k_test, x, y).reject for test in tests]

    @jax.jit(compiler_options=LONG)
    def cell(key, rho):
        keys = jax.random.split(key, N_RUNS)
        return jax.lax.map(lambda k: replica(k, rho), keys, batch_size=20)

    keys = jax.random.split(jax.random.key(2022), len(RHO))
    cells = [cell(key, rho) for key, rho in zip(keys, RHO, strict=True)]
    assert cell._cache_size() == 1  # one compile for the whole grid
    return np.stack(cells, axis=1)


@pytest.mark.parametrize("method", [0, 1], ids=["net", "ntk"])
def test_power_is_the_published_one(rejected, method):
    """Both are 500-replica estimates, so the difference has the variance of two of them."""
    power = rejected[method].mean(axis=1)
    pooled = (power + PUBLISHED) / 2
    band = binomial_band(pooled, N_RUNS, sigmas=3.5) * np.sqrt(2)
    assert (np.abs(power - PUBLISHED) < band).all(), power


def test_trained_and_exact_decide_alike(rejected):
    """Same split, θ0 and permutations: they differ in a few replicas in a thousand."""
    assert np.mean(rejected[0] != rejected[1]) < 0.01


def test_level(rejected):
    rate = rejected[:, 0].mean(axis=1)
    assert (np.abs(rate - 0.05) < binomial_band(0.05, N_RUNS)).all()
