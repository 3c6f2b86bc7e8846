"""The laws against scipy's, and against Imhof's integral in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from ntkmmd_jax._lib.laws import bisected, chi2_law, f_law, normal_law
from ntkmmd_jax.theory import asymptotic_weights, quantile, tail

TAIL = jax.jit(tail)


@pytest.mark.parametrize("k", [1, 2, 3, 10, 100, 500])
def test_equal_weights_are_a_chi2(k):
    for p in (0.9, 0.5, 0.05, 1e-3, 1e-8, 1e-30):
        value = 0.3 * scipy.stats.chi2.isf(p, k)
        assert float(TAIL(jnp.full(k, 0.3), value)) == pytest.approx(p, rel=2e-5)


def imhof(weights, value):
    def integrand(u):
        angle = 0.5 * np.sum(np.arctan(weights * u)) - 0.5 * value * u
        return np.sin(angle) / (u * np.prod((1 + (weights * u) ** 2) ** 0.25))

    return 0.5 + scipy.integrate.quad(integrand, 0, 300, limit=3000)[0] / np.pi


@pytest.mark.parametrize("ratio", [0.5, 0.9])
def test_unequal_weights_are_imhofs(ratio):
    weights = ratio ** np.arange(30)
    mean, sd = weights.sum(), np.sqrt(2 * np.sum(weights**2))
    for value in (0.5 * mean, mean, mean + sd, mean + 3 * sd):
        found = float(TAIL(jnp.asarray(weights, jnp.float32), value))
        assert found == pytest.approx(imhof(weights, value), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("level", [0.5, 0.05, 1e-3])
def test_the_quantile_inverts_the_tail(level):
    weights = jnp.asarray(0.7 ** np.arange(20), jnp.float32)
    assert float(TAIL(weights, quantile(weights, level))) == pytest.approx(level, rel=1e-4)


def test_ends():
    weights = jnp.asarray([1.0, 0.5, 0.0])
    assert float(tail(weights, -1.0)) == float(tail(weights, 0.0)) == 1
    assert float(tail(weights, 1e6)) > 0  # never 0


def test_weights_are_the_eigenvalues_of_the_centred_kernel():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(12, 3)).astype(np.float32)
    kernel = z @ z.T + 5  # a constant is centred away
    h = np.eye(12) - 1 / 12
    expected = np.linalg.eigvalsh(h @ kernel.astype(float) @ h) / 12 * (1 / 8 + 1 / 4)
    np.testing.assert_allclose(asymptotic_weights(kernel, 8, 4), expected, atol=1e-6)


@pytest.mark.parametrize("k", [1, 10])
def test_the_chi2_law(k):
    law = jax.jit(jax.vmap(lambda statistic, level: chi2_law(statistic, level, k)))
    levels = np.repeat(np.float32([0.9, 0.05, 1e-3, 1e-6]), 20)
    quantiles = scipy.stats.chi2.isf(levels.astype(float), k)
    pvalues, thresholds = map(np.asarray, law(quantiles.astype(np.float32), levels))
    np.testing.assert_allclose(pvalues, levels, rtol=1e-4)
    np.testing.assert_allclose(thresholds, quantiles, rtol=1e-5)
    # Within some floats of the threshold, it still says what the p-value says.
    steps = np.tile(np.arange(-10, 10), 4) * np.finfo(np.float32).eps
    around = (thresholds * (1 + steps)).astype(np.float32)
    pvalues, thresholds = map(np.asarray, law(around, levels))
    np.testing.assert_array_equal(around > thresholds, pvalues <= levels)
    np.testing.assert_allclose(thresholds, quantiles, rtol=1e-5)
    extremes = np.tile(np.float32([0, 1e6, np.inf, np.nan]), 20)
    pvalues, _ = map(np.asarray, law(extremes, levels))
    assert pvalues[0] == 1
    assert np.all(pvalues[1:3] > 0)  # never 0
    assert np.isnan(pvalues[3])


@pytest.mark.parametrize(("d", "n"), [(1, 3), (100, 102), (100, 400), (784, 20_000), (3, 10**6)])
def test_f_law(d, n):
    """Single precision throughout: p to 3e-5 of itself and thresholds to 1e-5, for all n and d."""
    levels = np.array([0.9, 0.5, 0.1, 0.05, 0.01, 1e-4])
    t2 = scipy.stats.f.isf(levels, d, n - d - 1) * (n - 2) * d / (n - d - 1)
    law = jax.jit(jax.vmap(lambda t2, level: f_law(t2, level, d, n, features=d)))
    pvalues, thresholds = law(t2.astype(np.float32), levels.astype(np.float32))
    np.testing.assert_allclose(pvalues, levels, rtol=3e-5)
    np.testing.assert_allclose(thresholds, t2, rtol=1e-5 if n > d + 2 else 1e-4)  # heaviest tails
    ends = jnp.array([0, jnp.inf, jnp.nan])
    ends = np.asarray(law(ends, jnp.full(3, 0.05))[0])
    np.testing.assert_allclose(ends, [1, 0, np.nan], atol=1e-6)
    assert ends[1] > 0


def test_f_law_of_a_traced_rank():
    """One program for all ranks, to the digits of the law of each; rank 0 has T² = 0 and p = 1."""
    n, d = 60, 58
    ranks = np.arange(1, d + 1)
    t2 = scipy.stats.f.isf(0.05, ranks, n - ranks - 1) * (n - 2) * ranks / (n - ranks - 1)
    law = jax.jit(jax.vmap(lambda t2, rank: f_law(t2, 0.05, rank, n, features=d)))
    pvalues, thresholds = law(t2.astype(np.float32), ranks)
    np.testing.assert_allclose(pvalues, 0.05, rtol=3e-5)
    np.testing.assert_allclose(thresholds, t2, rtol=1e-5)
    assert law(jnp.zeros(1), jnp.zeros(1, int))[0] == 1


def test_f_law_of_a_traced_size():
    """One program for all n, on both sides of where the series of Stirling begins."""
    d, n = 3, np.asarray([5, 6, 7, 40, 41, 44, 45, 46, 1000, 30_000, 10**6])
    t2 = scipy.stats.f.isf(0.01, d, n - d - 1) * (n - 2) * d / (n - d - 1)
    law = jax.jit(jax.vmap(lambda t2, n: f_law(t2, 0.01, d, n, features=d)))
    pvalues, thresholds = law(t2.astype(np.float32), n)
    np.testing.assert_allclose(pvalues, 0.01, rtol=3e-5)
    assert np.all(np.abs(thresholds / t2 - 1) < np.where(n > d + 2, 1e-5, 1e-4))


@pytest.mark.parametrize("root", [0.3, 2.0])
def test_bisection_closes_in_on_the_turn(root):
    low, high = bisected(lambda v: v < root, jnp.zeros(3), jnp.full(3, 4.0), 40)
    np.testing.assert_allclose([low, high], root, rtol=1e-6)
    assert np.all(low < root) or np.all(high == root)


def test_the_normal_law():
    pvalue, threshold = normal_law(jnp.float32(1.2), jnp.float32(0.5), 0.05)
    assert float(pvalue) == pytest.approx(scipy.stats.norm.sf(2.4), rel=1e-5)
    assert float(threshold) == pytest.approx(0.5 * scipy.stats.norm.isf(0.05), rel=1e-5)
    assert float(normal_law(jnp.float32(0), jnp.float32(0), 0.05)[0]) == 1
    assert float(normal_law(jnp.float32(1), jnp.float32(0), 0.05)[0]) > 0  # never 0
