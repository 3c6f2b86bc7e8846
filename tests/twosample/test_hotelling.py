"""Hotelling's T² against the direct formula and scipy's F; its shrunk form; level and power."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ntkmmd_jax import datasets
from ntkmmd_jax.calibration import relabel
from ntkmmd_jax.pooled import Pooled, pooled
from ntkmmd_jax.twosample import TwoSampleResult, two_sample_test
from ntkmmd_jax.twosample.contract import run_program
from ntkmmd_jax.twosample.hotelling import Hotelling, shrunk_null
from ntkmmd_jax.twosample.t_squared import t_squared
from tests.conftest import LONG, binomial_band

RNG = np.random.default_rng(0)  # seeded anew for each test
X, Y = (31, 4), (19, 4)
SHRUNK = Hotelling(shrinkage=0.3, n_permutations=39)


@pytest.fixture(autouse=True)
def reseed():
    global RNG
    RNG = np.random.default_rng(1)


def samples(x_shape=X, y_shape=Y):
    """Correlated features of very different scales, some of them far from the origin."""
    d = x_shape[-1]
    scales = np.logspace(-2, 2, d)
    mix = np.linalg.cholesky(0.5 * np.eye(d) + 0.5)
    x, y = RNG.normal(size=x_shape) @ mix.T, RNG.normal(size=y_shape) @ mix.T + 0.2
    return (scales * x + 1).astype(np.float32), (scales * y + 1).astype(np.float32)


def direct(x, y):
    """T² and its p-value from the textbook, in float64."""
    x, y = x.astype(float), y.astype(float)
    n_x, n_y, d = len(x), len(y), x.shape[1]
    pooled = ((n_x - 1) * np.cov(x.T) + (n_y - 1) * np.cov(y.T)) / (n_x + n_y - 2)
    gap = x.mean(0) - y.mean(0)
    t2 = n_x * n_y / (n_x + n_y) * gap @ np.linalg.solve(pooled.reshape(d, d), gap)
    f = (n_x + n_y - d - 1) / ((n_x + n_y - 2) * d) * t2
    return t2, stats.f.sf(f, d, n_x + n_y - d - 1)


@pytest.mark.parametrize(("x_shape", "y_shape"), [(X, Y), ((9, 1), (8, 1)), ((40, 58), (20, 58))])
def test_statistic_and_pvalue(x_shape, y_shape):
    x, y = samples(x_shape, y_shape)
    t2, pvalue = direct(x, y)
    result = Hotelling()(0, x, y)
    # At n − 2 = d the covariance is all but singular: float32 keeps fewer digits.
    rtol = 1e-5 if x_shape[1] < 10 else 2e-3
    np.testing.assert_allclose(result.statistic, t2, rtol=rtol)
    np.testing.assert_allclose(result.pvalue, pvalue, rtol=10 * rtol)
    assert bool(result.statistic > result.threshold) == bool(result.reject)
    assert len(result.null) == 0
    if x_shape[1] == 1:
        np.testing.assert_allclose(
            pvalue, stats.ttest_ind(x.astype(float), y.astype(float)).pvalue[0], rtol=1e-5
        )


@pytest.mark.parametrize("d", [4, 80])
def test_shrunk_statistic(d):
    """From the definition, on both routes: d ≤ n, and d > n by the matrix of inner products."""
    x, y = RNG.normal(size=(31, d)).astype(np.float32), RNG.normal(size=(19, d)).astype(np.float32)
    z = np.concatenate([x, y]).astype(float)
    covariance = np.cov(z.T)
    covariance = 0.7 * covariance + 0.3 * np.trace(covariance) / d * np.eye(d)
    gap = z[:31].mean(0) - z[31:].mean(0)
    direction = np.linalg.solve(covariance, gap)
    result = SHRUNK(0, x, y)
    np.testing.assert_allclose(result.statistic, 31 * 19 / 50 * gap @ direction, rtol=1e-4)
    np.testing.assert_allclose(result.witness.direction, direction, atol=1e-5)
    # E[w wᵀ] over labellings is (1/n_X + 1/n_Y)(I − 11ᵀ/n)/(n − 1): the mean of T² is a trace.
    mean = np.trace(np.linalg.solve(covariance, np.cov(z.T)))
    null = np.asarray(result.null)
    assert abs(null.mean() - mean) < 4 * null.std() / np.sqrt(len(null))


def test_witness(tmp_path):
    x, y = samples((31, 2, 2), (19, 2, 2))
    result = Hotelling()(0, x, y)
    flat_x, flat_y = x.reshape(31, 4).astype(float), y.reshape(19, 4).astype(float)
    gap = np.mean(result.witness(x)) - np.mean(result.witness(y))
    np.testing.assert_allclose(31 * 19 / 50 * gap, direct(flat_x, flat_y)[0], rtol=1e-3)
    middle = (x.mean(0) + y.mean(0))[None] / 2
    np.testing.assert_allclose(result.witness(middle), 0, atol=1e-3)
    loaded = TwoSampleResult.load(result.concrete().save(tmp_path / "result.npz"))
    np.testing.assert_array_equal(loaded.witness(x), result.witness(x))
    with pytest.raises(ValueError, match=r"takes points of shape \(n, 2, 2\); got \(\d+, 4\)"):
        result.witness(flat_x)


@jax.jit(compiler_options=LONG)
def pvalues(test, keys, x, y):
    return jax.lax.map(lambda run: test(*run).pvalue, (keys, x, y), batch_size=100)


LAWS = {
    "normal": lambda size: RNG.normal(size=size),
    "heavy": lambda size: RNG.standard_t(2, size=size),
    "tied": lambda size: RNG.integers(0, 3, size=size),
}


@pytest.mark.parametrize("test", [Hotelling(), SHRUNK], ids=["F", "shrunk"])
@pytest.mark.parametrize("sizes", [(25, 25), (31, 19)])
def test_level(test, sizes):
    n_runs, level = 2000, 0.05
    band = binomial_band(level, n_runs)
    keys = jax.random.split(jax.random.key(sizes[0]), n_runs)
    for law, draw in LAWS.items():
        x, y = (draw((n_runs, n, 4)).astype(np.float32) for n in sizes)
        p = pvalues(test, keys, x, y)
        rate = np.mean(p <= np.float32(level))
        assert rate < level + band, law
        # Exact: F for the normal law, permutations for any; heavy tails make F conservative.
        assert rate > level - band or law == "tied" or test is not SHRUNK, law
        assert rate > level - band or law != "normal", law
    if sizes == (31, 19):  # jitted and vmapped or called, it is the same test
        called = [test(keys[i], x[i], y[i]).pvalue for i in range(3)]
        np.testing.assert_allclose(called, p[:3], atol=1e-5)


def test_power_on_the_papers_settings():
    k_data, k_test = jax.random.split(jax.random.key(0), (2, 200))
    shifts = (datasets.mean_shift, {"delta": 0.8}), (datasets.covariance_shift, {"rho": 0.12})
    # On the mean shift T² has the noncentral F law; to the covariance shift it is blind.
    noncentral = stats.ncf.sf(stats.f.isf(0.05, 100, 299), 100, 299, 100 * 0.8**2)
    for (sampler, size), power in zip(shifts, (noncentral, 0.05), strict=True):
        x, y = jax.vmap(lambda key: sampler(key, 200, 200, **size))(k_data)  # noqa: B023
        rate = np.mean(pvalues(Hotelling(), k_test, x, y) <= 0.05)
        assert abs(rate - power) < binomial_band(power, 200)


def test_one_compile_for_all_keys_levels_and_shrinkages():
    x, y = samples()
    SHRUNK(0, x, y), Hotelling()(0, x, y)
    size = run_program._cache_size()
    Hotelling(level=0.01)(1, x, y)
    Hotelling(shrinkage=0.7, level=0.1, n_permutations=39)(1, x, y)
    assert run_program._cache_size() == size


@jax.jit
def traced(x, y):
    return Hotelling()(0, x, y)


FAULTS = {
    "constant": lambda z: np.full_like(z[..., 0], 0.1),
    "duplicate": lambda z: z[..., 1],
    "dependent": lambda z: z.sum(-1),
}


def with_fault(fault, sample, place):
    return np.insert(sample, place, FAULTS[fault](sample), axis=-1)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_feature_that_depends_on_others_adds_nothing(fault):
    """T², p and g are those of the regular features, wherever the dependent one stands."""
    x, y = samples((31, 3), (19, 3))
    t2, pvalue = direct(x, y)
    regular = Hotelling()(0, x, y).witness
    for place in (3, 0):
        faulty = with_fault(fault, x, place), with_fault(fault, y, place)
        for result in (Hotelling()(0, *faulty), traced(*faulty)):
            # The sum has lost digits of the smallest feature, which it may stand for.
            rtol = 1e-3 if (fault, place) == ("dependent", 0) else 1e-5
            np.testing.assert_allclose(result.statistic, t2, rtol=rtol)
            np.testing.assert_allclose(result.pvalue, pvalue, rtol=10 * rtol)
            np.testing.assert_allclose(
                result.witness(faulty[0]), regular(x), atol=10 * rtol * np.abs(regular(x)).max()
            )
            assert np.count_nonzero(result.witness.direction) == 3
        assert np.isfinite(SHRUNK(0, *faulty).pvalue)


def test_many_dependent_features():
    """Half of the features are mixtures of the others, in any order, far from the origin."""
    mix, order = RNG.normal(size=(20, 20)), RNG.permutation(40)
    x, y = RNG.normal(size=(60, 20)), RNG.normal(size=(40, 20)) + 0.3
    both = [np.concatenate([z, z @ mix], axis=1).astype(np.float32)[:, order] + 8 for z in (x, y)]
    statistic, _, rank = jax.jit(lambda *both: t_squared(pooled(both)))(*both)
    assert rank == 20
    np.testing.assert_allclose(statistic, direct(x, y)[0], rtol=1e-3)


@pytest.mark.parametrize("apart", ["constant", "relation"])
def test_separated_where_there_is_no_spread(apart):
    """T² is infinite: an error that says why, and under a trace NaN, no verdict."""
    x, y = samples()
    x[:, 3], y[:, 3] = (0, 1) if apart == "constant" else (x[:, 0], y[:, 0] + 0.01)
    with pytest.raises(ValueError, match=r"T² is infinite.*no spread within.*shrinkage"):
        Hotelling()(0, x, y)
    result = traced(x, y)
    assert np.isnan(result.pvalue) and not result.reject
    assert np.isfinite(SHRUNK(0, x, y).pvalue)


def test_all_points_equal():
    for test in (Hotelling(), SHRUNK):
        result = test(0, np.full(X, 0.1), np.full(Y, 0.1))
        assert result.pvalue == 1 and not result.reject
        np.testing.assert_array_equal(result.witness.direction, 0)


@pytest.mark.parametrize("fault", ["constant", "dependent", "none"])
@pytest.mark.parametrize(("scale", "offset"), [(1e-7, 0), (1e6, 0), (1, 1e4)])
def test_level_of_the_rank_at_every_scale(fault, scale, offset):
    """The exact law of the rank, for Gaussian data; an offset in float32 makes none dependent."""
    n_runs, level = 2000, 0.05
    z = (scale * RNG.normal(size=(n_runs, 25, 3)) + offset).astype(np.float32)
    z = z if fault == "none" else with_fault(fault, z, 3)
    p = pvalues(Hotelling(), jax.random.split(jax.random.key(0), n_runs), z[:, :14], z[:, 14:])
    assert abs(np.mean(p <= np.float32(level)) - level) < binomial_band(level, n_runs)  # no NaN
    assert stats.kstest(p, "uniform").pvalue > 1e-4
    if fault == "none":
        assert np.all(jax.jit(jax.vmap(lambda z: t_squared(Pooled(z, 14, 11))))(z)[2] == 3)


@pytest.mark.parametrize("d", [3, 40])
def test_shrunk_values_are_one_function_of_the_arrangement(d):
    """Whoever is x, the same points in the same places give the same B + 1 values, to the bit."""
    points = (1 + 1e-6 * RNG.normal(size=(25, d))).astype(np.float32)
    drawn = relabel(jax.random.key(0), 14, 11, 39)
    moved = RNG.permutation(25)
    other = dataclasses.replace(drawn, order=jnp.argsort(moved)[drawn.order])
    null = jax.jit(lambda at, z: shrunk_null(at, z, 0.1)[0].values)
    np.testing.assert_array_equal(null(drawn, points), null(other, points[moved]))


def test_tiny_and_huge_data():
    """Squares of 1e-25 and 1e25 are beyond single precision; T² does not change with the unit."""
    x, y = RNG.normal(size=X), RNG.normal(size=Y) + 0.5
    for test in (Hotelling(), SHRUNK):
        expected = test(0, x, y)
        for unit in (1e-25, 1e25):
            result = test(0, unit * x, unit * y)
            np.testing.assert_allclose(result.statistic, expected.statistic, rtol=1e-4)
            assert abs(result.pvalue - expected.pvalue) < 0.03


def test_errors_say_what_is_wrong():
    x, y = np.ones((6, 10)), np.ones((5, 10))
    with pytest.raises(ValueError, match=r"10 features: n_x \+ n_y − 2 = 9.*shrinkage"):
        Hotelling()(0, x, y)
    assert SHRUNK(0, np.ones(X), np.ones(Y)).pvalue == 1
    for bad in (0, 1.5):
        with pytest.raises(ValueError, match=r"shrinkage must lie in \(0, 1\]"):
            Hotelling(shrinkage=bad)
    with pytest.raises(ValueError, match="use at least 19 permutations"):
        Hotelling(shrinkage=0.5, n_permutations=9)
    x, y = samples()
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"x has NaN or infinite values.*sample 3"):
        Hotelling()(0, x, y)
    assert two_sample_test(*samples(), method=Hotelling()).method == "hotelling"
