"""Filters of training time, by doubling, against eigenvalues in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax._lib.records import record
from ntkmmd_jax.kernels import fit_filters


@record
class Columns:
    """Features that are the coordinates, scaled."""

    scales: jax.Array

    def __call__(self, points):
        return points * self.scales


def phi(x):
    return np.where(x > 1e-12, -np.expm1(-x) / np.maximum(x, 1e-12), 1)


TIMES = (0.0, 0.03, 5.0, 8.0, 1024.0, 2.0**20)


@pytest.fixture(scope="module")
def fitted():
    """Eigenvalues over five decades, in no simple basis."""
    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    points = (rng.normal(size=(400, 6)) * 10.0 ** -np.arange(0, 3, 0.5)) @ mixing
    points = jnp.asarray(points, jnp.float32)
    return points, fit_filters(Columns(jnp.ones(6)), points, TIMES)


def test_filters(fitted):
    """Eigenvalues of C are good to 5e-7 of the largest (they are raised by that), hence t λ too."""
    points, found = fitted
    z = np.asarray(points, np.float64)
    values, vectors = np.linalg.eigh(np.cov(z.T, bias=True))
    v = np.random.default_rng(1).normal(size=(3, 6))
    filters = found.filtered(jnp.asarray(v, jnp.float32))
    for time, ours in zip(TIMES, filters, strict=True):
        relative = time * (values / values[-1] + (5e-7 if time else 0))
        theirs = v @ (vectors * phi(relative)) @ vectors.T
        np.testing.assert_allclose(ours, theirs, rtol=0.02, atol=2e-3 * np.abs(theirs).max())


def test_at_time_0_nothing_is_filtered(fitted):
    v = jnp.arange(6.0)
    np.testing.assert_array_equal(fitted[1].filtered(v)[0], v)


def test_moments(fitted):
    """Σ a and Σ a², a = Φ(tλ) λ."""
    points, found = fitted
    values = np.linalg.eigvalsh(np.cov(np.asarray(points, np.float64).T, bias=True))
    total, squares = found.moments()
    for i, time in enumerate(TIMES):
        a = phi(time * (values / values[-1] + (5e-7 if time else 0))) * values
        np.testing.assert_allclose(total[i], a.sum(), rtol=0.02)
        np.testing.assert_allclose(squares[i], (a**2).sum(), rtol=0.04)


def test_times_in_any_order(fitted):
    points, found = fitted
    turned = fit_filters(Columns(jnp.ones(6)), points, TIMES[::-1])
    v = jnp.arange(6.0)
    np.testing.assert_array_equal(turned.filtered(v), found.filtered(v)[::-1])


def test_constant_features_have_finite_filters():
    found = fit_filters(Columns(jnp.zeros(3)), jnp.ones((20, 3)), (0.0, 8.0, 1024.0))
    assert np.isfinite(found.filters).all() and not found.moments()[0].any()
