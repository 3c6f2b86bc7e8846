"""The weighted χ² law against scipy's χ², and against Imhof's integral in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

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
