"""MMD² with its error: against loops over pairs, against its variance, and at p = q."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.kernels import estimated
from tests.conftest import LONG

KEY = jax.random.key(5)


def by_hand(k, n_x):
    """θ̂ from all pairs of different points."""
    xx, yy, xy = k[:n_x, :n_x], k[n_x:, n_x:], k[:n_x, n_x:]
    means = [(b.sum() - np.trace(b)) / (len(b) * (len(b) - 1)) for b in (xx, yy)]
    return sum(means) - 2 * xy.mean()


def jackknife(k, n_x):
    """The standard error, leaving out one point after the other."""
    total = 0.0
    for points, shift in ((range(n_x), 1), (range(n_x, len(k)), 0)):
        left = np.asarray(
            [by_hand(np.delete(np.delete(k, i, 0), i, 1), n_x - shift) for i in points]
        )
        total += (len(left) - 1) / len(left) * np.sum((left - left.mean()) ** 2)
    return np.sqrt(total)


def trace(k, i, j):
    """tr Σ_i Σ_j of two samples: the mean of ⟨φ_a − φ_b, φ_c − φ_d⟩² / 4 over different points."""
    first, second = itertools.permutations(i, 2), list(itertools.permutations(j, 2))
    found = [
        (k[a, c] - k[a, d] - k[b, c] + k[b, d]) ** 2 / 4
        for a, b in first
        for c, d in second
        if not {a, b} & {c, d}
    ]
    return np.mean(found)


def test_estimate_is_that_of_loops(monkeypatch):
    monkeypatch.setattr(estimated, "_TILE", 5)  # several tiles, the last one filled up
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(7, 2)) + 1.0
    found = ntk.estimate_mmd(ntk.GaussianKernel(1.3), jnp.asarray(x), jnp.asarray(y))
    z = np.concatenate([x, y])
    k = np.exp(-((z[:, None] - z) ** 2).sum(-1) / (2 * 1.3**2))
    np.testing.assert_allclose(found.mmd2, by_hand(k, 9), rtol=1e-5)
    np.testing.assert_allclose(found.error, jackknife(k, 9), rtol=1e-5)
    of_x, of_y = range(9), range(9, 16)
    square = trace(k, of_x, of_x) / 72 + trace(k, of_y, of_y) / 42
    square += 2 * trace(k, of_x, of_y) / 63
    np.testing.assert_allclose(found.spread, np.sqrt(square), rtol=1e-4)


def estimates(kernel, shift, n_x, n_y, runs):
    def replica(key):
        z = jax.random.normal(key, (n_x + n_y, 2))
        return ntk.estimate_mmd(kernel, z[:n_x], z[n_x:] + shift)

    run = jax.jit(lambda keys: jax.lax.map(replica, keys, batch_size=50), compiler_options=LONG)
    return run(jax.random.split(KEY, runs))


def test_errors_are_the_spread_of_the_estimate():
    """No bias; at p = q the law's √2 s, and the jackknife too large; apart, the jackknife."""
    kernel, runs = ntk.GaussianKernel(1.5), 2000
    same = estimates(kernel, 0.0, 40, 60, runs)
    assert abs(same.mmd2.mean()) < 4 * same.mmd2.std() / np.sqrt(runs)
    spread = float(same.mmd2.std())
    assert abs(np.sqrt(2) * np.mean(same.spread) / spread - 1) < 0.1
    assert 1.2 < np.sqrt(np.mean(same.error**2)) / spread < 1.6  # √2, by the docstring
    apart = estimates(kernel, 1.0, 40, 60, runs)
    # exp(−|z − z'|²/2σ²) of normal z and z' has the mean (σ²/(σ² + 2)) exp(−|Δ|²/2(σ² + 2)).
    exact = 2 * (2.25 / 4.25) * (1 - np.exp(-2 / (2 * 4.25)))
    assert abs(apart.mmd2.mean() - exact) < 4 * apart.mmd2.std() / np.sqrt(runs)
    assert abs(np.sqrt(np.mean(apart.error**2)) / apart.mmd2.std() - 1) < 0.1


def test_bounds_and_pvalues_say_the_same():
    for shift in (0.0, 0.5, 2.0):
        found = jax.tree.map(
            lambda leaf: leaf[0], estimates(ntk.GaussianKernel(1.5), shift, 40, 60, 1)
        )
        low, high = found.lower(0.05), found.upper(0.05)
        assert low < found.mmd2 < high
        np.testing.assert_allclose(found.above(low), 0.05, rtol=1e-3)
        np.testing.assert_allclose(found.below(high), 0.05, rtol=1e-3)
        ends = found.interval(0.1)
        np.testing.assert_allclose(ends, [max(float(low), 0), high], rtol=1e-5)


def test_few_points_are_refused():
    x = np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match="need 4 points of each; got 3 and 3"):
        ntk.estimate_mmd(ntk.GaussianKernel(1.0), x, x)


def test_tangent_kernel_is_that_of_the_network():
    x = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    kernel = ntk.TangentKernel.of(0, x, ntk.mlp(8))
    np.testing.assert_allclose(kernel(x, x), ntk.empirical_ntk(kernel.network, kernel.params, x))


@pytest.mark.parametrize("value", [0.0, 1.0, 100.0])
def test_rounding_is_no_distance(value):
    """Of points that are all equal, nothing is said of MMD² but that it may be 0."""
    points = jnp.full((60, 3), value)
    found = ntk.estimate_mmd(ntk.GaussianKernel(1.0), points, points[:-3])
    assert found.lower(0.05) <= 0 <= found.upper(0.05) < 1e-4
