"""MMD-FUSE and MMDAgg against brute force in float64, their level, and published powers."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import ntkmmd_jax as ntk
from ntkmmd_jax import datasets
from ntkmmd_jax.calibration import relabel
from ntkmmd_jax.twosample import collected
from ntkmmd_jax.twosample.contract import run_program
from tests.conftest import binomial_band, rejection_rate

RNG = np.random.default_rng(3)
X = RNG.normal(size=(23, 2)).astype(np.float32)
Y = (1.3 * RNG.normal(size=(16, 2)) + 0.4).astype(np.float32)
TESTS = {
    "mmd-fuse": ntk.MMDFuse(n_permutations=99),
    "mmd-fuse, soft": ntk.MMDFuse(n_permutations=99, sharpness=1.0),
    "mmd-agg": ntk.MMDAgg(n_permutations=99),
}


def kernels64(z1, z2, bandwidths):
    """The kernel matrices of a collection, pair by pair."""
    z1, z2 = (np.asarray(z, float) for z in (z1, z2))
    found = []
    for family, sigmas in enumerate(np.asarray(bandwidths, float)):
        for sigma in sigmas:
            kernel = np.empty((len(z1), len(z2)))
            for i, a in enumerate(z1):
                for j, b in enumerate(z2):
                    far = [np.sum((a - b) ** 2) / (2 * sigma**2),
                           np.sqrt(2) * np.sum(np.abs(a - b)) / sigma]  # fmt: skip
                    kernel[i, j] = np.exp(-far[family])
            found.append(kernel)
    return np.array(found)


def mmd2_64(kernel, labels):
    """The unbiased MMD² from its definition."""
    x, y = np.flatnonzero(labels), np.flatnonzero(~labels)

    def within(of):
        pairs = [kernel[i, j] for i in of for j in of if i != j]
        return np.mean(pairs)

    return within(x) + within(y) - 2 * np.mean([kernel[i, j] for i in x for j in y])


def scale64(kernel, n):
    return np.sqrt((np.sum(kernel**2) - np.trace(kernel**2)) / (n * (n - 1)))


@pytest.mark.parametrize("tile", [100, 11])
def test_every_kernel_and_labelling_by_brute_force(monkeypatch, tile):
    monkeypatch.setattr(collected, "TILE", tile)
    pool = relabel(jax.random.key(1), 23, 16, 6)
    z = jnp.concatenate([X, Y])
    bandwidths = ntk.MMDFuse(n_bandwidths=3).bandwidths(z)
    found = jax.jit(collected.collected)(pool, z, bandwidths)
    kernels = kernels64(z, z, bandwidths)
    expected = [[mmd2_64(k, row) for row in np.asarray(pool.labels)] for k in kernels]
    np.testing.assert_allclose(found.mmd2, expected, atol=3e-7)  # K rounds at 6e-8
    np.testing.assert_allclose(found.scale, [scale64(k, 16) for k in kernels], rtol=1e-5)


def test_many_points_and_several_tiles():
    """2,300 points are two tiles; jaxlib's wrong sums begin at 900 (see `_lib.xla`)."""
    z = np.random.default_rng(8).normal(size=(2300, 2)).astype(np.float32)
    pool = jax.jit(lambda key: relabel(key, 1300, 1000, 20))(jax.random.key(1))
    bandwidths = jnp.asarray([[0.5], [2.0]])
    found = jax.jit(collected.collected)(pool, z, bandwidths)
    labels = np.asarray(pool.labels, float)
    for k, (metric, factor) in enumerate([("sqeuclidean", 2.0), ("cityblock", np.sqrt(2) / 2)]):
        kernel = np.exp(-factor * cdist(z, z, metric))
        np.fill_diagonal(kernel, 0)
        others = 1 - labels
        pairs = (labels, labels), (labels, others), (others, others)
        xx, xy, yy = (np.sum((a @ kernel) * b, axis=1) for a, b in pairs)
        expected = xx / (1300 * 1299) + yy / (1000 * 999) - 2 * xy / (1300 * 1000)
        np.testing.assert_allclose(found.mmd2[k], expected, atol=3e-7)
        norm = np.sqrt(np.sum(kernel**2) / (1000 * 999))
        np.testing.assert_allclose(found.scale[k], norm, rtol=1e-5)


@pytest.mark.parametrize("sharpness", [1.0, 7.0, math.inf])
def test_the_fused_statistic(sharpness):
    result = ntk.MMDFuse(n_permutations=39, sharpness=sharpness)(0, X, Y)
    z = np.concatenate([X, Y])
    kernels = kernels64(z, z, result.witness.bandwidths)
    ratios = np.array([mmd2_64(k, np.arange(39) < 23) / scale64(k, 16) for k in kernels])
    if sharpness == math.inf:
        expected, shares = ratios.max(), ratios == ratios.max()
    else:
        sharp = sharpness * np.sqrt(16 * 15)
        weights = np.exp(sharp * ratios)
        expected, shares = np.log(weights.mean()) / sharp, weights / weights.sum()
    np.testing.assert_allclose(result.statistic, expected, atol=1e-6)
    np.testing.assert_allclose(result.witness.shares.ravel(), shares, atol=1e-5)
    assert bool(result.statistic > result.threshold) == bool(result.reject)


def test_the_released_sharpness_is_all_but_the_maximum():
    """√(n(n−1)) times that of the theory, at n = 16: within log(20)/λ of the maximum."""
    largest = ntk.MMDFuse(n_permutations=39)(0, X, Y).statistic
    sharp = ntk.MMDFuse(n_permutations=39, sharpness=math.sqrt(240))(0, X, Y).statistic
    assert 0 <= largest - sharp <= math.log(20) / 240 + 1e-6


def test_the_smallest_pvalue_by_counting():
    rng = np.random.default_rng(5)
    mmd2 = rng.normal(size=(4, 30)).astype(np.float32)
    mmd2[1] = np.round(mmd2[1])  # ties
    found = collected.Collected(jnp.asarray(mmd2), jnp.ones(4), jnp.zeros(4), n=9)
    p = np.array([[np.mean(row >= value) for value in row] for row in mmd2])
    values = ntk.MMDAgg().joined(found).values
    np.testing.assert_allclose(values, -p.min(0) + (1 - p.mean(0)) / 30, atol=1e-6)
    # The first term decides, wherever it can.
    a, b = np.meshgrid(np.arange(30), np.arange(30))
    clear = p.min(0)[a] < p.min(0)[b]
    assert np.all(np.asarray(values)[a][clear] > np.asarray(values)[b][clear])
    shares = np.asarray(ntk.MMDAgg().shares(found, jnp.asarray(2)))
    assert shares.sum() == 1 and p[shares.argmax(), 2] == p[:, 2].min()


def normal(key, n_x, n_y):
    z = jax.random.normal(key, (n_x + n_y, 2))
    return z[:n_x], z[n_x:]


def tied(key, n_x, n_y):
    z = jax.random.randint(key, (n_x + n_y, 2), 0, 3).astype(jnp.float32)
    return z[:n_x], z[n_x:]


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("shared", [False, True])
def test_level(name, shared):
    test = dataclasses.replace(TESTS[name], shared_pool=shared)
    rate = rejection_rate(test, normal, 30, 20, n_runs=2000, batch=200)
    assert abs(rate - 0.05) < binomial_band(0.05, 2000)


@pytest.mark.parametrize("name", TESTS)
def test_ties_never_raise_the_level(name):
    rate = rejection_rate(TESTS[name], tied, 14, 14, n_runs=2000, batch=200)
    assert rate < 0.05 + binomial_band(0.05, 2000)


@pytest.mark.filterwarnings("ignore:.*rejects no labelling")
@pytest.mark.parametrize("name", TESTS)
def test_degenerate_samples(name):
    same = TESTS[name](0, np.ones((23, 2)), np.ones((16, 2)))
    assert same.pvalue == 1 and not same.reject and same.statistic <= same.threshold
    assert np.all(np.isfinite(same.witness(np.zeros((3, 2)))))
    missing = TESTS[name](0, np.full((23, 2), np.nan), np.ones((16, 2)))
    assert np.isnan(missing.pvalue) and not missing.reject


@pytest.mark.parametrize("name", TESTS)
def test_witness(name, tmp_path):
    result = TESTS[name](0, X, Y)
    points = RNG.normal(size=(7, 2)).astype(np.float32)
    bandwidths, shares = result.witness.bandwidths, np.asarray(result.witness.shares).ravel()
    of_x, of_y = (kernels64(points, z, bandwidths).mean(2) for z in (X, Y))
    np.testing.assert_allclose(result.witness(points), shares @ (of_x - of_y), atol=1e-6)
    saved = result.concrete().save(tmp_path / "result")
    loaded = ntk.TwoSampleResult.load(saved).witness
    np.testing.assert_array_equal(loaded(points), result.witness(points))


def test_one_compile_for_all_sharpnesses_and_levels():
    test = TESTS["mmd-fuse"]
    first = test(0, X, Y)
    size = run_program._cache_size()
    second = dataclasses.replace(test, sharpness=2.0, level=0.1)(0, X, Y)
    assert run_program._cache_size() == size and first.statistic > second.statistic


def test_images_and_a_sweep():
    grid = {"digit": [0], "data": "digits"}
    tests = ["mmd-fuse", "mmd-agg"]
    table = ntk.power_sweep(0, tests, datasets.mnist_missing, grid, n=60, n_runs=20, progress=False)
    assert all(row.n_runs == 20 and not row.failures for row in table.rows)


@pytest.mark.parametrize(
    ("make", "sizes", "message"),
    [
        (lambda: ntk.MMDFuse(sharpness=0.0), (9, 9), r"sharpness must be positive.*got 0.0"),
        (lambda: ntk.MMDAgg(n_bandwidths=1), (9, 9), r"n_bandwidths must be a whole number of at"),
        (lambda: ntk.MMDAgg(), (3, 3), r"3 \+ 3 points can be relabelled in 10 different ways"),
        (lambda: ntk.MMDAgg(calibration="normal"), (9, 9), r"use one of \('full',\)"),
    ],
)
def test_errors_say_what_is_wrong(make, sizes, message):
    with pytest.raises(ValueError, match=message):
        make()(0, np.zeros((sizes[0], 2)), np.zeros((sizes[1], 2)))
    with pytest.raises(ValueError, match="mmd-fuse needs 2 samples of each; got 30 and 1"):
        ntk.MMDFuse().check_samples(30, 1)  # as charts and pilots ask


# Of the notebooks published with Biggs, Schrab & Gretton (2023), 200 runs each, B = 2,000:
# the power of MMD-FUSE and of MMDAgg (of equal sizes, by signs and with other bandwidths).
PUBLISHED = [
    (datasets.mixture4, {"sigma": 1.3}, 500, (0.18, 0.19)),
    (datasets.perturbed_uniform, {"amplitude": 0.3}, 500, (0.505, 0.605)),
    (datasets.perturbed_uniform, {"amplitude": 0.5}, 500, (0.975, 0.985)),
    (datasets.perturbed_uniform, {"amplitude": 0.6, "dim": 2}, 500, (0.485, 0.395)),
    (datasets.mixture4, {"sigma": 1.3}, 1000, (0.38, 0.385)),
]
SLOW_RUNS = 500


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "point", "n", "powers"), PUBLISHED)
def test_published_powers(sampler, point, n, powers):
    """Within 4 standard errors of the difference between 200 runs and ours."""
    for make, power in zip((ntk.MMDFuse, ntk.MMDAgg), powers, strict=True):
        test = make(shared_pool=True)
        rate = rejection_rate(test, sampler, n, n, n_runs=SLOW_RUNS, batch=2, **point)
        error = np.sqrt(power * (1 - power) * (1 / 200 + 1 / SLOW_RUNS))
        assert abs(rate - power) < 4 * error, (test.method, rate)
