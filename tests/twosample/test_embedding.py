"""ME and SCF: features and statistic by numpy, both calibrations, level, and the contract."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ntkmmd_jax import datasets
from ntkmmd_jax.calibration import relabel
from ntkmmd_jax.measure import split
from ntkmmd_jax.pooled import pooled
from ntkmmd_jax.twosample.contract import run_program
from ntkmmd_jax.twosample.embedding import (
    Embedding,
    EmbeddingWitness,
    MeanEmbedding,
    SmoothCF,
    embedding_null,
    embedding_statistic,
)
from ntkmmd_jax.twosample.result import TwoSampleResult
from tests.conftest import binomial_band, null_samples, rejection_rate, replicas

CLASSES = {"me": MeanEmbedding, "scf": SmoothCF}
# Nearly all time goes into compiling: few programs, shared by many tests.
EXACT = {name: made(n_locations=2, steps=3, n_permutations=99) for name, made in CLASSES.items()}
LAW = {
    name: made(n_locations=3, steps=3, train_fraction=0.1, calibration="asymptotic")
    for name, made in CLASSES.items()
}


def shifted(n_x=40, n_y=21, shift=1.0):
    z = np.random.default_rng(3).normal(size=(n_x + n_y, 2)).astype(np.float32)
    return jnp.asarray(z[:n_x]), jnp.asarray(z[n_x:]) + shift


def features(n_x, n_y, k=4, seed=0):
    rng = np.random.default_rng(seed)
    f_x = rng.uniform(size=(n_x, k)) @ rng.uniform(size=(k, k))
    return f_x, 0.1 + 0.7 * rng.uniform(size=(n_y, k)) @ rng.uniform(size=(k, k))


def test_the_features():
    rng = np.random.default_rng(0)
    x, u, m, sigma = rng.normal(size=(7, 3)), rng.normal(size=(2, 3)), rng.normal(size=3), 1.7
    me = Embedding(*(jnp.asarray(a, jnp.float32) for a in (u, sigma, m)), method="me")
    scf = dataclasses.replace(me, method="scf")
    squared = np.sum((x[:, None] - (m + sigma * u)) ** 2, axis=2)
    np.testing.assert_allclose(me(x), np.exp(-squared / (2 * sigma**2)), rtol=1e-5)
    window = np.exp(-np.sum((x - m) ** 2, axis=1) / (2 * sigma**2))
    wave = window[:, None] * np.exp(1j * (x - m) @ (u / sigma).T)
    np.testing.assert_allclose(scf(x), np.hstack([wave.imag, wave.real]), atol=1e-6)


@pytest.mark.parametrize(("n_x", "n_y"), [(40, 40), (60, 25)])
def test_the_statistic_is_that_of_jitkrittum(n_x, n_y):
    f_x, f_y = features(n_x, n_y)
    gamma = 1e-2
    found = pooled((jnp.float32(f_x), jnp.float32(f_y)))
    statistic, coefficients = embedding_statistic(found, gamma)
    gap, eye = f_x.mean(0) - f_y.mean(0), np.eye(4)
    s_x, s_y = np.cov(f_x.T), np.cov(f_y.T)
    c = 1 / n_x + 1 / n_y
    expected = gap @ np.linalg.solve(s_x / n_x + s_y / n_y + c * gamma * eye, gap)
    # Float32 through a matrix of condition 100: a thousand times epsilon.
    assert float(statistic) == pytest.approx(expected, rel=1e-4)
    assert float(gap @ np.asarray(coefficients)) / c == pytest.approx(expected, rel=1e-4)
    paper = n_x * gap @ np.linalg.solve(s_x + s_y + 2 * gamma * eye, gap)
    assert n_x != n_y or float(statistic) == pytest.approx(paper, rel=1e-4)


def test_the_permutation_null_against_brute_force():
    n_x, n_y, gamma = 30, 17, 1e-3
    f_x, f_y = features(n_x, n_y)
    relabelling = jax.jit(lambda key: relabel(key, n_x, n_y, 19))(jax.random.key(0))
    points = np.concatenate([f_x, f_y])
    inverse = np.linalg.inv(np.cov(points.T) + gamma * np.eye(4))
    placed, c = points[np.asarray(relabelling.order)], 1 / n_x + 1 / n_y
    null, v = jax.jit(embedding_null)(relabelling, jnp.float32(placed), gamma)
    for row, value in zip(np.asarray(relabelling.labels), np.asarray(null.values), strict=True):
        gap = placed[row].mean(0) - placed[~row].mean(0)
        assert value == pytest.approx(gap @ inverse @ gap / c, rel=1e-3)
    gap = f_x.mean(0) - f_y.mean(0)
    assert null.values[relabelling.observed] == pytest.approx(gap @ np.asarray(v) / c, rel=1e-3)
    np.testing.assert_allclose(v, inverse @ gap, rtol=1e-3)
    assert 0 < float(null.tolerance) < 1e-4 * float(null.values.max())


@pytest.mark.parametrize("name", CLASSES)
def test_gradient_ascent_raises_the_statistic(name):
    x, y = shifted(200, 150, 0.5)

    def statistic(key, steps):
        embedding = CLASSES[name](n_locations=1, steps=steps).optimise(key, pooled((x, y)))
        return embedding_statistic(pooled((embedding(x), embedding(y))), 1e-5)[0]

    start, end = jax.jit(lambda key: (statistic(key, 0), statistic(key, 60)))(jax.random.key(1))
    assert end > 1.05 * start


@pytest.mark.parametrize("name", CLASSES)
def test_the_witness_explains_the_statistic(name, tmp_path):
    """Its mean gap on the test half is c λ; it is saved and loaded; it is larger on x."""
    key = jax.random.key(5)
    x, y = shifted(shift=2.0)
    result = EXACT[name](key, x, y)
    _, (x_test, y_test) = split(jax.random.split(key, 3)[0], x, y, 0.5)
    gap = float(np.mean(result.witness(x_test)) - np.mean(result.witness(y_test)))
    c = 1 / len(x_test) + 1 / len(y_test)
    assert float(result.statistic) == pytest.approx(gap / c, rel=1e-3)
    assert result.reject
    loaded = TwoSampleResult.load(result.save(tmp_path / "result"))
    assert isinstance(loaded.witness, EmbeddingWitness)
    np.testing.assert_allclose(loaded.witness(x), result.witness(x), rtol=1e-6)
    with pytest.raises(ValueError, match=r"takes points of shape \(n, 2\); got \(\d+, 3\)"):
        loaded.witness(np.zeros((5, 3)))


@pytest.mark.parametrize(("name", "n_x", "n_y"), [("me", 40, 21), ("scf", 30, 30)])
def test_level_of_the_permutation_test(name, n_x, n_y):
    """At most the level; and the level itself where the statistic has no ties."""
    n_runs, level = 2000, 0.05
    keys = jax.random.split(jax.random.key(0), n_runs)
    band = binomial_band(level, n_runs)
    for law in ("normal", "heavy", "discrete"):
        z = null_samples(law, n_runs, n_x + n_y)
        rate = np.mean(replicas(EXACT[name], keys, z[:, :n_x], z[:, n_x:]).reject)
        assert rate < level + band, law
        assert rate > level - band or law == "discrete", law


@pytest.mark.parametrize("name", CLASSES)
def test_level_of_the_asymptotic_test(name):
    """The χ² law at test samples of 594 and 504 points: 4 standard errors about the rate of F.

    The covariance is estimated: were the features normal, T² would follow F(k, n − k − 1), whose
    tail beyond the χ² quantile is 5.1 % for k = 3 and 5.2 % for k = 6. Skewed features differ
    from that at order k/n, 0.6 %; features tied or nearly constant only lower the rate.
    """
    n_runs, level, n_x, n_y = 1000, 0.05, 660, 560
    n, k = 594 + 504, {"me": 3, "scf": 6}[name]
    quantile = scipy.stats.chi2.isf(level, k)
    expected = scipy.stats.f.sf(quantile * (n - k - 1) / (k * (n - 2)), k, n - k - 1)
    assert abs(expected - level) < 0.003
    keys = jax.random.split(jax.random.key(0), n_runs)
    band = binomial_band(expected, n_runs) + k / n
    for law in ("normal", "heavy", "discrete"):
        z = null_samples(law, n_runs, n_x + n_y)[..., None]  # as images, which are flattened
        results = replicas(LAW[name], keys, z[:, :n_x], z[:, n_x:])
        assert results.null.size == 0
        rate = np.mean(results.reject)
        assert rate < expected + band, law
        assert rate > expected - band or law == "discrete", law


def test_vmap_gives_what_single_calls_give():
    x, y = shifted()
    keys = jax.random.split(jax.random.key(0), 2000)  # the program of the level
    many = replicas(EXACT["me"], keys, *(jnp.broadcast_to(z, (2000, *z.shape)) for z in (x, y)))
    one = EXACT["me"](keys[1], x, y)
    # A batched matrix product sums in another order: some roundings, through a near singular Σ.
    np.testing.assert_allclose(many.statistic[1], one.statistic, rtol=1e-2)
    assert float(many.pvalue[1]) == pytest.approx(float(one.pvalue), abs=0.02)


def test_one_compile_for_all_keys_levels_and_rates():
    x, y = shifted()
    EXACT["me"](0, x, y)
    size = run_program._cache_size()
    options = {"learning_rate": 0.1, "regularization": 1e-3, "level": 0.1}
    results = [dataclasses.replace(EXACT["me"], **{k: v})(1, x, y) for k, v in options.items()]
    assert run_program._cache_size() == size
    assert results[0].statistic != results[1].statistic


@pytest.mark.parametrize("name", CLASSES)
def test_units_do_not_matter(name):
    x, y = shifted()
    one = EXACT[name](0, x, y)
    other = EXACT[name](0, 64 * x + 512, 64 * y + 512)
    np.testing.assert_allclose(one.null, other.null, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", CLASSES)
def test_equal_points_are_no_evidence(name):
    result = EXACT[name](0, np.ones((40, 2)), np.ones((21, 2)))
    assert float(result.pvalue) == 1
    x, y = (
        z * np.float32(np.arange(len(z)) < 5)[:, None] for z in shifted()
    )  # a median distance of 0
    assert np.isfinite(EXACT[name](0, x, y).statistic)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibration": "full"}, "'full' does not apply to MeanEmbedding; use one of"),
        ({"n_locations": 0}, "n_locations must be a whole number of at least 1; got 0"),
        ({"steps": 1.5}, "steps must be a whole number"),
        ({"learning_rate": 0}, "learning_rate must be positive"),
        ({"regularization": -1.0}, "regularization must be positive"),
        ({"train_fraction": None}, "apart from the training half"),
        ({"n_permutations": 3, "calibration": "permutation"}, "cannot reach level"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        MeanEmbedding(**options)


def test_too_few_samples():
    with pytest.raises(ValueError, match=r"covariance of 10 features.*n_x = 6, n_y = 6; use fewer"):
        SmoothCF()(0, *shifted(6, 6))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_power_on_the_mixture(name):
    """Example 1: optimised places find what the places they started from do not."""
    setting = (datasets.gaussian_mixture, 4000, 4000)
    start, end = (
        rejection_rate(CLASSES[name](steps=steps), *setting, n_runs=60, batch=1)
        for steps in (0, 200)
    )
    assert start < 0.05 + binomial_band(0.05, 60) and end > 0.35  # published: ME 30 %, SCF 6 %


def test_normalized_ascent_takes_steps_of_known_length():
    """As Jitkrittum et al. do: step k has length rate/√k, so after one the places moved by it."""
    x, y = shifted()
    key = jax.random.key(2)
    for steps, least, most in ((1, 0.3, 0.3), (4, 0.0, 0.3 * sum(k**-0.5 for k in range(1, 5)))):
        moved = [
            SmoothCF(optimizer="normalized", learning_rate=0.3, steps=n).optimise(
                key, pooled((x, y))
            )
            for n in (0, steps)
        ]
        by = np.asarray(moved[1].anchors - moved[0].anchors)
        log = np.log(moved[1].bandwidth / moved[0].bandwidth)
        assert least * 0.999 <= np.sqrt(np.sum(by**2) + log**2) <= most * 1.001
    with pytest.raises(ValueError, match="unknown optimizer 'sgd'"):
        SmoothCF(optimizer="sgd")


@pytest.mark.slow
def test_orderings_of_table_1():
    """Mixture 1, 4,000 training points: published ME ~.30, SCF ~.06 (see `EmbeddingTest`)."""
    n_runs, options = 100, {"example": 1, "stratified": True}
    rates = {
        name: rejection_rate(
            test, datasets.gaussian_mixture, 4000, 4000, n_runs=n_runs, batch=4, **options
        )
        for name, test in {
            "me": MeanEmbedding(
                optimizer="normalized", learning_rate=1.0, steps=300, calibration="asymptotic"
            ),
            "scf": SmoothCF(steps=0, calibration="asymptotic"),
            "scf, optimised": SmoothCF(),
        }.items()
    }
    assert abs(rates["me"] - 0.30) < binomial_band(0.30, n_runs)
    assert abs(rates["scf"] - 0.06) < binomial_band(0.06, n_runs)
    assert rates["scf"] < rates["me"] < rates["scf, optimised"]
