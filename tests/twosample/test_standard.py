"""Standardised coordinates: what they are, that no label is in them, and what they are good for."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax._lib.standard import Standard, standard_of
from tests.conftest import LONG, binomial_band
from tests.twosample.test_defaults import LAWS, SMALLER

SMALL = ntk.mlp(16)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)), 0.7 + RNG.normal(size=(30, 3))
FACTORS, OFFSETS = np.array([1000.0, 1.0, 1e-3]), np.array([5.0, 5000.0, -0.1])
NETWORKS = ("net", "ntk", "ntk-full", "ntk-symmetric", "ntk-fuse", "bet", "c2st-s", "c2st-l")
FEW = {name: {"n_permutations": 99, **SMALLER.get(name, {})} for name in ntk.methods()}


def test_mean_and_scale_are_those_of_the_pool():
    """Against float64, with the offsets that float32 makes hard."""
    points = RNG.normal(size=(500, 4)) * [1, 1e-7, 1e6, 1e25] + [1e4, 0, 1e7, 0]
    points = points.astype(np.float32)
    found = standard_of(jax.random.key(0), jnp.asarray(points))
    exact = points.astype(np.float64)
    np.testing.assert_allclose(found.scale, exact.std(0), rtol=1e-5)
    error = np.abs(found.mean - exact.mean(0))
    assert (error < 1e-6 * (exact.std(0) + np.abs(exact.mean(0)))).all()
    np.testing.assert_allclose(found(points).std(0), 1, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 2.5, 1e4 / 3, -1e30])
def test_a_constant_becomes_0(value):
    points = jnp.asarray(RNG.normal(size=(70, 2)), jnp.float32).at[:, 1].set(value)
    found = standard_of(jax.random.key(0), points)(points)
    np.testing.assert_array_equal(found[:, 1], 0)
    assert np.isfinite(found).all()
    nearly = points.at[3, 1].set(np.nextafter(np.float32(value), np.float32(np.inf)))
    if value:  # of the last digit alone; next to 0 a number is a number
        np.testing.assert_array_equal(standard_of(jax.random.key(0), nearly)(nearly)[:, 1], 0)


@pytest.mark.parametrize(
    ("shape", "found"),
    [((9, 4), (4,)), ((9, 5, 6), ()), ((9, 5, 6, 3), (3,)), ((9, 2, 2, 2, 1), (1,))],
)
def test_images_have_one_scale_per_channel(shape, found):
    points = jnp.asarray(RNG.normal(size=shape), jnp.float32)
    standard = standard_of(jax.random.key(0), points)
    assert standard.mean.shape == standard.scale.shape == found
    flat = np.asarray(standard(points)).reshape(-1, *found)
    np.testing.assert_allclose(flat.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(flat.std(0), 1, rtol=1e-5)


@pytest.mark.parametrize("method", ntk.methods())
def test_units_do_not_matter(method):
    """x·1000 + 5 in a column: the same statistic and p-value, to the rounding of the data."""
    test = ntk.make_test(method, standardize=True, **FEW[method])
    plain = test(3, X, Y)
    scaled = test(3, X * FACTORS + OFFSETS, Y * FACTORS + OFFSETS)
    assert float(scaled.statistic) == pytest.approx(float(plain.statistic), rel=2e-2, abs=1e-4)
    assert abs(float(scaled.pvalue) - float(plain.pvalue)) <= 2.01 / 100
    assert plain.standardized and scaled.standardized


def test_it_is_the_test_of_standardised_samples():
    """By hand, in numpy; and the witness takes points in the user's units."""
    x, y = X * FACTORS + OFFSETS, Y * FACTORS + OFFSETS
    pooled = np.concatenate([x, y])
    mean, scale = pooled.mean(0), pooled.std(0)
    for method in ("net", "gmmd", "c2st-l", "hotelling", "me"):
        by_hand = ntk.make_test(method, **FEW[method])(1, (x - mean) / scale, (y - mean) / scale)
        found = ntk.make_test(method, standardize=True, **FEW[method])(1, x, y)
        assert float(found.statistic) == pytest.approx(float(by_hand.statistic), rel=2e-2)
        new = by_hand.witness((x[:9] - mean) / scale)
        np.testing.assert_allclose(found.witness(x[:9]), new, rtol=0.05, atol=1e-2)
        assert not by_hand.standardized


def test_the_witness_refuses_other_points_and_sees_no_constant():
    x, y = (np.column_stack([z, np.full(len(z), 7.0)]) for z in (X, Y))
    found = ntk.two_sample_test(x, y, network=SMALL)
    moved = x + np.array([0, 0, 0, 5.0])
    np.testing.assert_allclose(found.witness(moved), found.witness(x))
    with pytest.raises(ValueError, match=r"takes points of shape \(n, 4\); got \(40, 3\)"):
        found.witness(X)


@pytest.mark.parametrize("method", ntk.methods())
def test_saved_and_loaded(method, tmp_path):
    result = ntk.make_test(method, standardize=True, **FEW[method])(1, X, Y).concrete()
    again = ntk.TwoSampleResult.load(result.save(tmp_path / "r"))
    assert again.standardized and again.to_dict() == result.to_dict()
    assert json.loads(json.dumps(result.to_dict()))["standardized"] is True
    assert "standardized=True" in repr(again)
    if result.witness is not None:
        np.testing.assert_array_equal(again.witness(X), result.witness(X))


def test_a_network_of_ones_own_is_asked_for(tmp_path):
    mine = (lambda key, x: jnp.ones(x.shape[1:]), lambda w, x: jnp.tanh(x @ w))
    result = ntk.two_sample_test(X, Y, network=mine)
    path = result.save(tmp_path / "r")
    with pytest.raises(ValueError, match="load it with network="):
        ntk.TwoSampleResult.load(path).witness(X)
    again = ntk.TwoSampleResult.load(path, network=mine)
    np.testing.assert_array_equal(again.witness(X), result.witness(X))


@pytest.mark.parametrize("method", ntk.methods())
def test_the_rule_of_the_call_by_name(method):
    found = ntk.two_sample_test(X, Y + 1, method=method, **FEW[method])
    assert found.standardized == (method in NETWORKS)
    assert ntk.make_test(method).standardize == (method == "ntk-fuse")


def test_a_test_object_keeps_its_own():
    assert not ntk.two_sample_test(X, Y, method=ntk.NTKMMD(network=SMALL)).standardized
    own = ntk.NTKMMD(network=SMALL, standardize=True)
    assert ntk.two_sample_test(X, Y, method=own).standardized
    assert ntk.two_sample_test(X, Y, method="gmmd", standardize=True).standardized
    assert not ntk.two_sample_test(X, Y, network=SMALL, standardize=False).standardized
    with pytest.raises(TypeError, match="carries its own level, n_permutations and standardize"):
        ntk.two_sample_test(X, Y, method=own, standardize=False)
    with pytest.raises(TypeError, match="standardize must be True or False; got 'yes'"):
        ntk.NTKMMD(standardize="yes")


def test_a_pilot_fixes_the_coordinates(tmp_path):
    """Those of its reference: the statistics are those of a reference standardised by hand."""
    reference = RNG.normal(size=(100, 3)).astype(np.float32)
    units = reference * np.float32([1000, 1, 1]) + np.float32([0, 50, 0])
    test = ntk.NTKMMD(network=SMALL, standardize=True, train_fraction=None)
    pilot = ntk.pilot_null(0, units, (20, 15), test=test, n_draws=19)
    mean, scale = units.mean(0), units.std(0)
    plain = dataclasses.replace(test, standardize=False)
    by_hand = ntk.pilot_null(0, (units - mean) / scale, (20, 15), test=plain, n_draws=19)
    np.testing.assert_allclose(pilot.null, by_hand.null, rtol=1e-3)
    incoming = units[:15] * 2
    report, expected = pilot(1, incoming), by_hand(1, (incoming - mean) / scale)
    assert float(report.statistics) == pytest.approx(float(expected.statistics), rel=1e-3)
    loaded = ntk.PilotNull.load(pilot.save(tmp_path / "pilot.npz"))
    assert float(loaded(1, incoming).statistics) == float(report.statistics)
    calibrated = dataclasses.replace(test, calibration=pilot)(1, units[:20], incoming)
    assert calibrated.standardized
    assert isinstance(calibrated.witness.standard, Standard)
    np.testing.assert_array_equal(calibrated.witness.standard.mean, pilot.coordinates.mean)
    with pytest.raises(ValueError, match="with standardize=False: its coordinates are fixed"):
        dataclasses.replace(plain, calibration=pilot)


@pytest.mark.filterwarnings("ignore:the reference is short")
def test_a_chart_standardises_itself():
    series = RNG.normal(size=(60, 2))
    options = {"reference": 32, "window": 12, "n_draws": 99}
    test = ntk.NTKMMD(network=SMALL)
    own = dataclasses.replace(test, standardize=True)
    plain, same = (ntk.changepoint.scan(0, series, test=t, **options) for t in (test, own))
    np.testing.assert_array_equal(plain.statistics, same.statistics)
    with pytest.raises(ValueError, match="a chart standardises its frames itself"):
        ntk.changepoint.scan(0, series, test=own, standardize=False, **options)


@pytest.mark.parametrize("method", ntk.methods())
def test_level(method):
    """2,000 runs at 14 + 11 points of the laws that make float32 hard: at most the band's end."""
    n_runs, level = 2000, 0.05
    test = ntk.make_test(method, standardize=True, **FEW[method])

    def count(keys, z):
        pvalues = jax.lax.map(lambda one: test(one[0], one[1][:14], one[1][14:]).pvalue, (keys, z))
        return jnp.mean(pvalues <= level), jnp.sum(jnp.isnan(pvalues))

    count = jax.jit(count, compiler_options=LONG)
    for i, (law, draw) in enumerate(LAWS.items()):
        keys = jax.random.split(jax.random.key(20 + i), n_runs)
        z = jax.vmap(lambda key, draw=draw: draw(key, 25))(keys)
        rate, missing = count(jax.random.split(jax.random.key(200 + i), n_runs), z)
        assert rate < level + binomial_band(level, n_runs), law
        assert missing == 0, law


def shifted(key, n_x, n_y, *, factor, offset):
    """N(0, I), and a mean shift in all columns but the first: that times `factor`; all moved."""
    x, y = ntk.datasets.mean_shift(key, n_x, n_y, delta=1.0, dim=5)
    y = y.at[:, 0].add(-1 / jnp.sqrt(5.0))
    units = jnp.ones(5).at[0].set(factor)
    return x * units + offset, y * units + offset


def test_power_does_not_depend_on_units():
    """One column in thousandths, or all far from 0: the power is gone, but not standardised."""
    tests = {name: ntk.make_test(name, **FEW[name]) for name in ("net", "ntk", "gmmd")}
    sizes = {"n": 80, "n_runs": 100, "devices": 1, "progress": False}
    table = ntk.power_sweep(
        0,
        tests,
        shifted,
        {"factor": [1.0, 1000.0], "offset": [0.0, 1000.0], "standardize": [False, True]},
        **sizes,
    )
    power = {(row.test, *row.point.values()): row.power for row in table.rows}
    for name in tests:
        plain = power[name, 1.0, 0.0, False]
        assert plain > 0.7 and power[name, 1000.0, 0.0, False] < 0.2, table
        for units in ((1.0, 0.0), (1000.0, 0.0), (1.0, 1000.0), (1000.0, 1000.0)):
            # Cells have data of their own, so two rates differ by both errors.
            assert power[name, *units, True] > plain - 2**0.5 * binomial_band(0.9, 100), table
    assert power["net", 1.0, 1000.0, False] < 0.5, table
    print(table)
