"""Calibration by pilot data: level, power, many samples at once, save and load, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.twosample.pilot import blocks
from tests.conftest import binomial_band

NETWORK = ntk.mlp(32)
POOL = np.random.default_rng(0).normal(size=(4000, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def pilot():
    test = ntk.NTKMMD(network=NETWORK)
    return ntk.pilot_null(0, POOL, (50, 40), test=test, n_draws=999)


def test_level_and_power_of_many_samples_at_once(pilot):
    samples = np.random.default_rng(1).normal(size=(2000, 40, 3))
    report = pilot(1, samples)
    rate = np.mean(report.reject)
    # The null sample of 999 has a quantile of its own: 0.7 % more of spread.
    assert abs(rate - 0.05) < binomial_band(0.05, 2000) + 4 * np.sqrt(0.05 * 0.95 / 999)
    assert np.mean(pilot(2, 2 * samples[:100]).reject) > 0.9
    np.testing.assert_array_equal(report.statistics > report.threshold, report.reject)
    one = pilot(1, samples[0])
    assert one.pvalues.shape == () and 0 < float(one.pvalues) <= 1


def test_trained_pilot_is_near_the_exact_one():
    pilots = [
        ntk.pilot_null(0, POOL[:500], 30, test=test, n_draws=99)
        for test in (ntk.NTKMMD(network=NETWORK), ntk.NetMMD(network=NETWORK, learning_rate=1e-3))
    ]
    np.testing.assert_allclose(*(pilot.null for pilot in pilots), rtol=1e-3)


def test_as_a_calibration(pilot):
    test = ntk.NTKMMD(network=NETWORK, train_fraction=None, calibration=pilot)
    x, y = POOL[:50], np.random.default_rng(2).normal(size=(40, 3)).astype(np.float32)
    result = jax.jit(lambda key, x, y: test(key, x, y))(jax.random.key(0), x, y)
    by_hand = pilot.statistic(jax.random.key(0), jnp.asarray(x), jnp.asarray(y))
    assert float(result.statistic) == pytest.approx(float(by_hand), rel=1e-5)
    exceeding = np.sum(np.asarray(pilot.null) >= float(result.statistic))
    assert float(result.pvalue) == pytest.approx((1 + exceeding) / 1000)
    assert ntk.two_sample_test(x, 3 * y, method=test).reject
    with pytest.raises(ValueError, match=r"for samples of sizes \(50, 40\); got \(40, 50\)"):
        test(0, y, x)


def test_save_and_load(pilot, tmp_path):
    path = pilot.save(tmp_path / "pilot.npz")
    loaded = ntk.PilotNull.load(path)
    sample = np.random.default_rng(3).normal(size=(40, 3))
    assert float(loaded(5, sample).statistics) == float(pilot(5, sample).statistics)
    np.testing.assert_array_equal(loaded.null, pilot.null)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="not a whole file"):
        ntk.PilotNull.load(path)


@pytest.mark.parametrize("contiguous", [False, True])
def test_blocks_are_disjoint_and_uniform(contiguous):
    pool = jnp.arange(12)
    keys = jax.random.split(jax.random.key(0), 4000)
    first, second = jax.vmap(lambda key: blocks(key, pool, (3, 4), contiguous))(keys)
    both = np.concatenate([first, second], axis=1)
    assert all(len(set(row)) == 7 for row in both.tolist())
    if contiguous:
        assert (np.diff(first, axis=1) == 1).all() and (np.diff(second, axis=1) == 1).all()
        assert 0.4 < np.mean(np.asarray(first)[:, 0] < np.asarray(second)[:, 0]) < 0.6
        assert both.min() == 0 and both.max() == 11
    else:
        counts = np.bincount(both.ravel(), minlength=12)
        assert np.abs(counts / 4000 - 7 / 12).max() < 4 * np.sqrt(0.25 / 4000)


def test_bad_input():
    with pytest.raises(ValueError, match="do not fit into a reference of 10"):
        ntk.pilot_null(0, POOL[:10], 6)
    with pytest.raises(ValueError, match="the reference has NaN"):
        ntk.pilot_null(0, np.where(POOL > 2, np.nan, POOL), 6)
    with pytest.raises(TypeError, match="a test object, such as NTKMMD"):
        ntk.pilot_null(0, POOL, 6, test="ntk")
    with pytest.raises(ValueError, match="too few samples for the covariance of 3 features"):
        ntk.pilot_null(0, POOL, 2, test=ntk.Hotelling())
    pilot = ntk.pilot_null(0, POOL, 6, test=ntk.Hotelling(), n_draws=9)
    with pytest.raises(ValueError, match="a pilot of Hotelling is none of GaussianMMD"):
        ntk.GaussianMMD(calibration=pilot)
    for n_draws in (0, -3, 2.5, True):
        with pytest.raises(ValueError, match=f"n_draws, the pairs of blocks.* got {n_draws}"):
            ntk.pilot_null(0, POOL, 6, n_draws=n_draws)


def test_wrong_samples_are_refused(pilot):
    with pytest.raises(ValueError, match=r"takes samples of shape \(40, 3\)"):
        pilot(0, POOL[:39])
    with pytest.raises(ValueError, match="NaN"):
        pilot(0, np.full((40, 3), np.nan))
