"""The level under H0, in a binomial band, for equal and unequal sizes; ties only lower it."""

import jax
import jax.numpy as jnp
import pytest

import ntkmmd_jax as ntk
from tests.conftest import binomial_band, rejection_rate

N_RUNS = 2000
NETWORK = ntk.mlp(32)
TESTS = {
    "net": ntk.NetMMD(network=NETWORK, n_permutations=99),
    "net, shared pool": ntk.NetMMD(network=NETWORK, n_permutations=99, shared_pool=True),
    "ntk": ntk.NTKMMD(network=NETWORK, n_permutations=99),
    "ntk-full": ntk.NTKMMD(network=NETWORK, n_permutations=99, calibration="full"),
    "ntk-full, shared pool": ntk.NTKMMD(
        network=NETWORK, n_permutations=99, calibration="full", shared_pool=True
    ),
    "ntk-symmetric": ntk.NTKMMD(network=NETWORK, n_permutations=99, train_fraction=None),
}


def normal(key, n_x, n_y):
    z = jax.random.normal(key, (n_x + n_y, 3))
    return z[:n_x], z[n_x:]


def heavy_tailed(key, n_x, n_y):
    z = jax.random.t(key, 1.5, (n_x + n_y, 3))
    return z[:n_x], z[n_x:]


def tied(key, n_x, n_y):
    z = jax.random.randint(key, (n_x + n_y, 2), 0, 2).astype(jnp.float32)
    return z[:n_x], z[n_x:]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [*((name, (41, 16)) for name in TESTS), ("net", (30, 30)), ("ntk-symmetric", (30, 30))],
)
def test_level_is_exact(name, sizes):
    rate = rejection_rate(TESTS[name], normal, *sizes, n_runs=N_RUNS, batch=200)
    assert abs(rate - 0.05) < binomial_band(0.05, N_RUNS)


@pytest.mark.parametrize("name", ["net", "ntk-full"])
def test_level_is_exact_for_heavy_tails(name):
    rate = rejection_rate(TESTS[name], heavy_tailed, 30, 21, n_runs=N_RUNS, batch=200)
    assert abs(rate - 0.05) < binomial_band(0.05, N_RUNS)


@pytest.mark.parametrize("name", ["ntk", "ntk-full", "ntk-symmetric"])
def test_ties_never_raise_the_level(name):
    rate = rejection_rate(TESTS[name], tied, 24, 15, n_runs=N_RUNS, batch=200)
    assert rate < 0.05 + binomial_band(0.05, N_RUNS)


def test_retrained_full_bootstrap_has_its_level():
    test = ntk.NetMMD(network=ntk.mlp(8), n_permutations=19, calibration="full")
    rate = rejection_rate(test, normal, 12, 9, n_runs=1000, batch=100)
    assert abs(rate - 0.05) < binomial_band(0.05, 1000)
