"""The authors' recipe: their quantile, their order of visits, and the readings' other starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax import NetMMD, mlp
from ntkmmd_jax.experiments.readings import READINGS, Reading, gaussian_layer, redrawn, torch_layer
from ntkmmd_jax.experiments.recipe import InOrder, Quantile
from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.training import SGD, trained_witness
from ntkmmd_jax.twosample.evidence import Scores

LEVEL = 0.05


@pytest.fixture(scope="module")
def results():
    """Verdicts on 4,000 pairs of samples of one law, 40 + 40 points, with 79 permutations."""
    calibration = Quantile(n_permutations=79, shared_pool=True)

    def one(key):
        k_data, k_null = jax.random.split(key)
        scores = jax.random.normal(k_data, (2, 40))
        return calibration.result(k_null, Scores((scores[0], scores[1])), LEVEL)

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 4000))


def test_the_rule_is_numpys_quantile(results):
    threshold = np.quantile(np.asarray(results.null[:50]), 1 - LEVEL, axis=1)
    np.testing.assert_allclose(results.threshold[:50], threshold, rtol=1e-5)
    np.testing.assert_array_equal(results.reject, results.statistic > results.threshold)


def test_its_level_is_above_five_percent(results):
    """Of B = 79, ours rejects 4 ranks of 80; theirs a fifth one, but for the interpolation.

    The quantile is at place 0.95 · 78 = 74.1 of 79: T has rank 75 or less from above, or lies in
    the upper nine tenths of the gap below, so the level is between 4/80 and 5/80.
    """
    rate, error = np.mean(results.reject), np.sqrt(LEVEL / len(results.reject))
    assert 4 / 80 - 3 * error < rate < 5 / 80 + 3 * error
    ranks = np.sum(np.asarray(results.null) >= np.asarray(results.statistic)[:, None], axis=1)
    assert np.all(results.reject[ranks <= 3]) and not np.any(results.reject[ranks >= 5])


def test_x_is_visited_first():
    """Against SGD on the measure as it stands, x before y; in turn is another path."""
    x, y = jax.random.normal(jax.random.key(0), (2, 8, 3))
    network = mlp(16)
    options = {"network": network, "learning_rate": 5.0, "n_permutations": 39}
    params, key = network.init(jax.random.key(1), x), jax.random.key(2)
    expected = trained_witness(
        key, network, params, signed_measure(x, y), SGD(learning_rate=5.0, shuffle=False)
    )(x)
    found, in_turn = (
        test(shuffle=False, **options).find_witness(key, params, (x, y))(x)
        for test in (InOrder, NetMMD)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.max(np.abs(found - in_turn)) > 1e-3 * np.max(np.abs(found))


def test_starts_have_the_laws_that_they_say():
    """Variances of 64² weights are within 5 standard errors, √(2/64²) or less of themselves."""
    network, x = mlp((64, 64), activation="relu", train_readout=True), jnp.ones((1, 64))
    theta = redrawn(network, torch_layer).init(jax.random.key(0), x)["params"]
    for name in ("layer_1", "layer_2"):
        kernel = theta[name]["kernel"]
        assert np.abs(kernel).max() <= 1 / 8 and np.abs(theta[name]["bias"]).max() <= 1 / 8
        assert np.var(kernel) == pytest.approx(1 / (3 * 64), rel=5 * np.sqrt(2) / 64)
        assert np.any(theta[name]["bias"] != 0)
    assert not np.array_equal(theta["layer_1"]["kernel"], theta["layer_2"]["kernel"])
    theta = redrawn(network, gaussian_layer).init(jax.random.key(0), x)["params"]
    for name, variance in (("layer_1", 1), ("layer_2", 1), ("readout", 1 / 64)):
        kernel = theta[name]["kernel"]
        band = 5 * np.sqrt(2 / kernel.size)
        assert np.var(kernel) == pytest.approx(variance, rel=band)


def test_readings_train_what_they_say():
    x = jnp.ones((1, 4))
    for reading in READINGS.values():
        network = reading.test(8, 20).networks[0]
        _, theta = network.trainable(network.init(jax.random.key(0), x))
        trained = {jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_leaves_with_path(theta)}
        assert not any(name in path for name in reading.frozen for path in trained)
    assert Reading(rate=0.01).test(8, 200).learning_rate == pytest.approx(1.0)
