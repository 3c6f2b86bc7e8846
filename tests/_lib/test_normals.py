"""Our normal numbers: their law, the independence of what one block of bits gives, and keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ntkmmd_jax._lib.normals import normal

N = 400_001


@pytest.fixture(scope="module")
def z():
    return np.asarray(normal(jax.random.key(3), (N,)), np.float64)


def test_the_law_is_normal(z):
    assert scipy.stats.kstest(z, "norm").pvalue > 1e-3
    for moment, value, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(z**moment) - value) < 4 * np.sqrt(variance / N)


def test_the_tails_are_there(z):
    expected = 2 * N * scipy.stats.norm.sf(4)
    assert abs(np.sum(np.abs(z) > 4) - expected) < 4 * np.sqrt(expected)


def test_the_two_numbers_of_a_pair_are_independent(z):
    half = (N + 1) // 2
    a, b = z[: N - half], z[half:]
    table = np.histogram2d(*(scipy.stats.norm.cdf(v) for v in (a, b)), bins=8)[0]
    assert scipy.stats.chi2_contingency(table).pvalue > 1e-3
    # On the circle: the angle is uniform, and knows nothing of the radius.
    assert scipy.stats.kstest(np.arctan2(b, a) / (2 * np.pi) + 0.5, "uniform").pvalue > 1e-3


def test_keys_give_independent_numbers_and_batches_the_same():
    keys = jax.random.split(jax.random.key(0), 200)
    many = np.asarray(jax.vmap(lambda key: normal(key, (3, 5)))(keys))
    np.testing.assert_array_equal(many[7], normal(keys[7], (3, 5)))
    correlations = np.corrcoef(many.reshape(200, 15), rowvar=False) - np.eye(15)
    assert np.abs(correlations).max() < 5 / np.sqrt(200)


def test_other_generators_and_precisions():
    z = np.asarray(normal(jax.random.key(1, impl="rbg"), (20_000,)))
    assert scipy.stats.kstest(z, "norm").pvalue > 1e-3
    assert normal(jax.random.key(1), (3,)).dtype == jnp.float32
    with jax.enable_x64(True):
        assert normal(jax.random.key(1), (3,)).dtype == jnp.float64
