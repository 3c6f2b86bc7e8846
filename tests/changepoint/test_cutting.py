import numpy as np
import pytest
import scipy.signal

from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.cutting import _GRID, _of_autoregression, binning, memory


def autoregression(phi, n, d, seed=0):
    noise = np.random.default_rng(seed).normal(size=(n + 200, d))
    return np.sqrt(1 - phi**2) * scipy.signal.lfilter([1], [1, -phi], noise, axis=0)[200:]


@pytest.mark.parametrize("b", [1, 2, 7])
def test_variances_of_autoregressions_in_closed_form(b):
    """Against the quadratic form of the difference of two sums."""
    signs = np.repeat([1, -1], b)
    lags = np.abs(np.subtract.outer(np.arange(2 * b), np.arange(2 * b)))
    for i in (0, 30, 80):
        direct = signs @ _GRID[i] ** lags @ signs / (2 * b)
        np.testing.assert_allclose(_of_autoregression(b)[i], direct, rtol=1e-9)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_the_memory_of_autoregressions(phi):
    """κ = φ/(1 − φ²): 0, 0.67 and 2.2, within 20 % and 0.2 of ten coordinates together."""
    kappa = memory(autoregression(phi, 2000, 10)).kappa
    true = phi / (1 - phi**2)
    assert abs(kappa - true) < 0.2 * true + 0.2


def test_bins_are_as_long_as_the_memory():
    short, long = (binning(autoregression(phi, 2000, 5), None) for phi in (0.0, 0.8))
    assert short.size == -(-2000 // 128) and 0 <= short.correlation < 0.03
    assert 20 <= long.size <= 40 and 0.05 < long.correlation < 0.18


def test_changes_are_no_memory():
    series = autoregression(0.0, 1000, 5)
    series[300:600] += 5
    series[600:] *= 3
    assert binning(series, None).size <= 12


def with_a_slow_one(seed, n=1500, d=30, phi=0.9):
    series = autoregression(0.0, n, d, seed=seed)
    series[:, 4] = autoregression(phi, n, 1, seed=1000 + seed)[:, 0]
    return series


def test_a_slow_coordinate_among_many_is_seen():
    """κ = 4.7 of one in thirty, which alone asks for bins of 47 frames; to a factor of two."""
    found = [memory(with_a_slow_one(seed)).slowest for seed in range(15)]
    assert 4.74 / 2 < np.median(found) < 4.74 * 2
    assert np.mean(np.array(found) > 4.74 / 3) > 0.9
    none = [memory(autoregression(0.0, 1500, 30, seed=seed)).slowest for seed in range(15)]
    assert np.median(none) == 0 and np.max(none) < 2


def test_a_slow_coordinate_is_no_change():
    """It was in half of the series: bins were as long as coordinates remember on average.

    Of twelve at level .05 three or more are in alarm with a probability of .02.
    """
    options = {"n_permutations": 199, "progress": False}
    series = [with_a_slow_one(seed) for seed in range(12)]
    found = [len(changepoint.segment(x, key=0, **options).changes) for x in series]
    assert sum(many > 0 for many in found) < 3, found


def test_bins_hold_whole_swings():
    """A motion of period 60 with a random phase now and then: half of it is no bin."""
    rng = np.random.default_rng(0)
    angle = 2 * np.pi * np.cumsum(np.exp(0.3 * rng.normal(size=4000))) / 63
    series = np.sin(angle[:, None] + rng.uniform(0, 6, size=8)) + 0.1 * rng.normal(size=(4000, 8))
    assert binning(series, None).size >= 60


def test_a_series_that_is_too_short_for_its_memory_is_told():
    with pytest.warns(UserWarning, match="and the series has 200: p-values may be too small"):
        found = binning(autoregression(0.95, 200, 5), None)
    assert found.size == 10 and found.bins == 20


def test_what_is_given_or_constant_is_not_estimated():
    assert binning(autoregression(0.9, 100, 2), 7).correlation == 0
    assert memory(np.zeros((50, 3))) == (0.0, 1, 0.0)
