"""Calibrations by formula: their level, their agreement with permutations, and what applies."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ntkmmd_jax as ntk
from tests.conftest import binomial_band, rejection_rate

NETWORK = ntk.mlp(32)
READOUT = ntk.mlp(8, activation="relu", initialization="he", train_readout=True)
CLASSIFIER = {"network": READOUT, "epochs": 1, "batch_size": 16, "calibration": "normal"}
N_RUNS = 2000


def normal(key, n_x, n_y):
    z = jax.random.normal(key, (n_x + n_y, 2))
    return z[:n_x], z[n_x:]


TESTS = {
    "normal, exact": ntk.NTKMMD(network=NETWORK, calibration="normal"),
    "normal, trained": ntk.NetMMD(network=NETWORK, calibration="normal"),
    "normal, logit": ntk.C2ST(**CLASSIFIER),
    "normal, accuracy": ntk.C2ST(score="accuracy", **CLASSIFIER),
    "asymptotic": ntk.NTKMMD(network=NETWORK, train_fraction=None, calibration="asymptotic"),
    "asymptotic, gaussian": ntk.GaussianMMD(calibration="asymptotic"),
    "asymptotic, unbiased": ntk.GaussianMMD(calibration="asymptotic", unbiased=True),
}


@pytest.mark.parametrize("name", TESTS)
def test_level(name):
    """At 60 + 40 points the limits hold within the band and 1 % of the level."""
    rate = rejection_rate(TESTS[name], normal, 60, 40, n_runs=N_RUNS, batch=100)
    assert abs(rate - 0.05) < binomial_band(0.05, N_RUNS) + 0.01


def test_normal_is_welchs():
    x, y = ntk.datasets.covariance_shift(jax.random.key(0), 60, 40, rho=1.0, dim=3)
    result = TESTS["normal, exact"](0, x, y)
    k_split = jax.random.split(jax.random.key(0), 4)[0]
    _, (x_test, y_test) = ntk.measure.split(k_split, x, y, 0.5)
    g_x, g_y = (np.asarray(result.witness(z), np.float64) for z in (x_test, y_test))
    welch = scipy.stats.ttest_ind(g_x, g_y, equal_var=False)
    assert float(result.pvalue) == pytest.approx(scipy.stats.norm.sf(welch.statistic), rel=1e-3)
    assert bool(result.statistic > result.threshold) == bool(result.reject)


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_thresholds_are_near_those_of_permutations_at_n_2000(name):
    x, y = ntk.datasets.covariance_shift(jax.random.key(5), 2000, 2000, rho=0.0, dim=10)
    test = TESTS[name]
    permuted = dataclasses.replace(
        test, calibration="full" if "asymptotic" in name else "test", n_permutations=2000
    )
    analytic, by_permutation = test(1, x, y), permuted(1, x, y)
    assert float(analytic.statistic) == pytest.approx(float(by_permutation.statistic), rel=1e-2)
    assert float(analytic.threshold) == pytest.approx(float(by_permutation.threshold), rel=0.1)
    assert float(analytic.pvalue) == pytest.approx(float(by_permutation.pvalue), abs=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ntk.NTKMMD(calibration="asymptotic"), "with a split; use one of .*'normal'"),
        (lambda: ntk.NTKMMD(train_fraction=None, calibration="normal"), "without a split"),
        (lambda: ntk.NetMMD(calibration="theory"), r"use one of \('test', 'full', 'normal'\)"),
        (lambda: ntk.NTKMMD(train_fraction=None, calibration="pilot"), "takes a PilotNull"),
        (lambda: ntk.GaussianMMD(calibration="normal"), r"use one of \('full', 'asymptotic'\)"),
    ],
)
def test_what_does_not_apply_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_degenerate_data_do_not_reject():
    x = jnp.ones((20, 2))
    for name in ("normal, exact", "normal, accuracy", "asymptotic", "asymptotic, gaussian"):
        result = TESTS[name](0, x, x)
        assert not result.reject and float(result.pvalue) > 0.05, name


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({"method": "hotelling"}, "F(3, 66) law of T²"),
        ({"method": "gmmd-lin", "calibration": "normal"}, "normal law"),
        ({"method": "ntk-symmetric", "calibration": "asymptotic"}, "weighted χ² law"),
        ({"method": "ntk-symmetric", "calibration": "theory"}, "bound of the theorem"),
        ({"method": "me", "calibration": "asymptotic", "steps": 1}, "χ²(5) law"),
    ],
)
@pytest.mark.filterwarnings("ignore:.* rejects too often")
def test_formula_tests_keep_their_law_and_draw_it(options, label, tmp_path):
    """The tail at the statistic is the p-value, at the threshold the level; the area is 1."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(30, 3)) + 0.5
    network = {"network": ntk.mlp(16)} if options["method"] == "ntk-symmetric" else {}
    found = ntk.two_sample_test(x, y, **options, **network)
    assert found.law.label == label and label in repr(found)
    assert float(found.law(found.statistic)) == pytest.approx(found.pvalue, rel=1e-4)
    loaded = ntk.TwoSampleResult.load(found.save(tmp_path / "r"))
    assert loaded.law.to_dict() == found.law.to_dict()
    ax = found.plot()
    assert label in ax.get_legend_handles_labels()[1]
    if found.law.bounds:
        assert ax.get_ylabel() == "P[T ≥ t] under H0, at most"
        return
    assert ax.get_ylabel() == "density under H0"
    assert float(found.law(found.threshold)) == pytest.approx(0.05, rel=1e-3)
    t, density = ax.collections[0].get_paths()[0].vertices[1:400].T
    assert np.trapezoid(density, t) == pytest.approx(1, abs=0.02)
