"""The level under H0, in a binomial band, for equal and unequal sizes; ties only lower it."""

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from tests.conftest import LONG, binomial_band, rejection_rate

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


def drawn(law, n):
    """Points of all replicas, to be cut into x and y, shape (N_RUNS, n, 3)."""
    rng = np.random.default_rng(5)
    if law == "heavy":  # no variance
        return rng.standard_t(1.5, size=(N_RUNS, n, 3)).astype(np.float32)
    if law == "tied":  # four points
        return (rng.integers(0, 2, size=(N_RUNS, n, 3)) * [1, 1, 0]).astype(np.float32)
    return rng.normal(size=(N_RUNS, n, 3)).astype(np.float32)


@jax.jit(static_argnames="n_x", compiler_options=LONG)
def rejections(test, keys, points, n_x):
    """Of every replica: laws of the same sizes share a program."""

    def replica(given):
        key, z = given
        return test(key, z[:n_x], z[n_x:]).reject

    return jax.lax.map(replica, (keys, points), batch_size=200)


def rate(name, law, n_x, n_y):
    keys = jax.random.split(jax.random.key(0), N_RUNS)
    return float(np.mean(rejections(TESTS[name], keys, drawn(law, n_x + n_y), n_x)))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [*((name, (41, 16)) for name in TESTS), ("net", (30, 30)), ("ntk-symmetric", (30, 30))],
)
def test_level_is_exact(name, sizes):
    assert abs(rate(name, "normal", *sizes) - 0.05) < binomial_band(0.05, N_RUNS)


@pytest.mark.parametrize("name", ["net", "ntk-full"])
def test_level_is_exact_for_heavy_tails(name):
    assert abs(rate(name, "heavy", 41, 16) - 0.05) < binomial_band(0.05, N_RUNS)


@pytest.mark.parametrize("name", ["ntk", "ntk-full", "ntk-symmetric"])
def test_ties_never_raise_the_level(name):
    assert rate(name, "tied", 41, 16) < 0.05 + binomial_band(0.05, N_RUNS)


def test_retrained_full_bootstrap_has_its_level():
    test = ntk.NetMMD(network=ntk.mlp(8), n_permutations=19, calibration="full")
    rate = rejection_rate(test, normal, 12, 9, n_runs=1000, batch=100)
    assert abs(rate - 0.05) < binomial_band(0.05, 1000)
