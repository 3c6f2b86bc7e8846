"""The classifier tests: the loss, the accuracy by counting, level, and the contract."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

from ntkmmd_jax import datasets
from ntkmmd_jax._lib.optimizer import updates
from ntkmmd_jax.calibration import relabel
from ntkmmd_jax.measure import signed_measure, split
from ntkmmd_jax.networks import Network, mlp
from ntkmmd_jax.twosample.c2st import C2ST, LogitWitness
from ntkmmd_jax.twosample.contract import run_program
from ntkmmd_jax.twosample.evidence import Permuted
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.twosample.verdicts import permuted_result
from tests.conftest import binomial_band, null_samples, rejection_rate, replicas

SMALL = mlp((8,), activation="relu", initialization="he", train_readout=True)
SCORES = ("accuracy", "logit")
OPTIONS = {"batch_size": 8, "epochs": 2, "learning_rate": 0.1, "n_permutations": 99}
# Nearly all time goes into compiling: one program for each score, at the shapes of `shifted`.
TESTS = {score: C2ST(score=score, network=SMALL, **OPTIONS) for score in SCORES}


def shifted(n_x=40, n_y=21, shift=1.5):
    z = np.random.default_rng(3).normal(size=(n_x + n_y, 2)).astype(np.float32)
    return jnp.asarray(z[:n_x]), jnp.asarray(z[n_x:]) + shift


def halves(key, x, y):
    """The split that `run` makes of the same key."""
    return split(jax.random.split(key, 4)[0], x, y, 0.5)


def test_the_accuracy_is_what_counting_gives():
    x, y = shifted()
    rejections = 0
    for key in jax.random.split(jax.random.key(1), 5):
        result = TESTS["accuracy"](key, x, y)
        _, (x_test, y_test) = halves(key, x, y)
        right_x = np.mean(np.asarray(result.witness(x_test)) > 0)
        right_y = np.mean(np.asarray(result.witness(y_test)) <= 0)
        assert float(result.statistic) == pytest.approx((right_x + right_y) / 2, abs=3e-7)
        rejections += bool(result.reject)
    assert rejections >= 3


@pytest.mark.parametrize(("n_x", "n_y"), [(30, 21), (25, 25)])
def test_the_accuracy_null_is_hypergeometric(n_x, n_y):
    """Given the scores, the number of x with g > 0 is hypergeometric: Fisher's exact test."""
    b = 9999
    logits = np.random.default_rng(1).normal(size=n_x + n_y).astype(np.float32)

    @jax.jit
    def calibrated(key):
        relabelling = relabel(key, n_x, n_y, b)
        null = TESTS["accuracy"].null(relabelling, relabelling.placed(jnp.asarray(logits)))
        return permuted_result(Permuted(null, relabelling.observed), 0.05)

    result = calibrated(jax.random.key(0))
    x_right, y_right = np.sum(logits[:n_x] > 0), np.sum(logits[n_x:] <= 0)
    plain = (x_right + y_right) / (n_x + n_y)
    assert n_x != n_y or float(result.statistic) == pytest.approx(plain, abs=3e-7)
    exact = scipy.stats.hypergeom.sf(x_right - 1, n_x + n_y, x_right + n_y - y_right, n_x)
    assert 0.02 < exact < 0.98
    assert abs(float(result.pvalue) - exact) < binomial_band(exact, b)


def test_the_logit_statistic_is_the_mean_gap_of_the_witness():
    key = jax.random.key(2)
    x, y = shifted()
    result = TESTS["logit"](key, x, y)
    _, (x_test, y_test) = halves(key, x, y)
    gap = float(np.mean(result.witness(x_test)) - np.mean(result.witness(y_test)))
    assert float(result.statistic) == pytest.approx(gap, rel=1e-5)
    assert result.reject


def test_one_full_batch_step_goes_down_the_balanced_logistic_loss():
    """θ1 = θ0 − α ∇L and b1 = −α ∂L/∂b, L by class means in the usual form, unequal sizes."""
    x, y = shifted(30, 13)
    params = jax.jit(SMALL.init)(jax.random.key(0), x)

    def loss(params, bias):
        on_x, on_y = (jax.nn.sigmoid(SMALL(params, z) + bias) for z in (x, y))
        return -(jnp.mean(jnp.log(on_x)) + jnp.mean(jnp.log(1 - on_y))) / 2

    slope, bias_slope = jax.jit(jax.grad(loss, (0, 1)))(params, 0.0)
    test = C2ST(network=SMALL, optimizer="sgd", learning_rate=0.3, batch_size=None, epochs=1)
    witness = jax.jit(test.classify)(jax.random.key(5), params, signed_measure(x, y))
    assert float(witness.bias) == pytest.approx(-0.3 * float(bias_slope), rel=1e-5)
    expected = jax.tree.map(lambda leaf, g: leaf - 0.3 * g, params, slope)
    for leaf, new in zip(jax.tree.leaves(witness.params), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(leaf, new, rtol=1e-5, atol=1e-6)


def test_an_epoch_of_batches_sees_every_point_once():
    """An epoch of small steps moves b by −α (n/batch) ∂L/∂b, whatever the batches."""
    x, y = shifted(30, 13)
    measure = signed_measure(x, y)
    network = (lambda key, x: {"a": jnp.ones(())}, lambda params, x: x[:, 0] * params["a"])
    scores = measure.points[:, 0]
    slope = -0.5 * jnp.vdot(measure.weights, jax.nn.sigmoid(-jnp.sign(measure.weights) * scores))
    rate = 1e-4
    sgd = C2ST(network=network, optimizer="sgd", learning_rate=rate, epochs=1)
    for batch_size in (1, 10):
        test = dataclasses.replace(sgd, batch_size=batch_size)
        witness = jax.jit(test.classify)(jax.random.key(0), {"a": jnp.ones(())}, measure)
        # On the way θ moves by up to 43 steps, and with it the slope: a relative error that small.
        expected = -rate * 43 / batch_size * float(slope)
        assert float(witness.bias) == pytest.approx(expected, rel=10 * 43 * rate)


@pytest.mark.parametrize(("score", "n_x", "n_y"), [("accuracy", 30, 30), ("logit", 40, 21)])
def test_level(score, n_x, n_y):
    """At most the level; and the level itself where the statistic has no ties."""
    n_runs, level = 2000, 0.05
    keys = jax.random.split(jax.random.key(0), n_runs)
    band = binomial_band(level, n_runs)
    for law in ("normal", "heavy", "discrete"):
        z = null_samples(law, n_runs, n_x + n_y)
        rate = np.mean(replicas(TESTS[score], keys, z[:, :n_x], z[:, n_x:]).reject)
        assert rate < level + band, law
        assert rate > level - band or score == "accuracy" or law == "discrete", law


def test_vmap_gives_what_single_calls_give():
    x, y = shifted()
    keys = jax.random.split(jax.random.key(0), 2000)  # the program of the level
    many = replicas(TESTS["logit"], keys, *(jnp.broadcast_to(z, (2000, *z.shape)) for z in (x, y)))
    one = TESTS["logit"](keys[1], x, y)
    # A batched matrix product sums in another order: some roundings, grown by the training.
    np.testing.assert_allclose(many.statistic[1], one.statistic, rtol=1e-4)
    assert float(many.pvalue[1]) == pytest.approx(float(one.pvalue), abs=0.01)


def test_one_compile_for_all_keys_levels_and_learning_rates():
    x, y = shifted()
    TESTS["logit"](0, x, y)
    size = run_program._cache_size()
    options = {"learning_rate": 0.03, "level": 0.1}
    results = [dataclasses.replace(TESTS["logit"], **{k: v})(1, x, y) for k, v in options.items()]
    assert run_program._cache_size() == size
    assert results[0].statistic != results[1].statistic


@pytest.mark.parametrize(("name", "rate"), [("adam", 1e-3), ("sgd", 3e-2)])
def test_default_learning_rates_and_optax_optimizers(name, rate):
    """One step from the same gradient, by default, by number, and by an optax object."""
    own, gradient = getattr(optax, name)(rate), jnp.array([0.3, -2.0])
    tests = C2ST(optimizer=name), C2ST(optimizer=name, learning_rate=rate), C2ST(optimizer=own)
    optimizers = [test.transformation() for test in tests]
    steps = [updates(by, gradient, by.init(gradient), gradient)[0] for by in optimizers]
    np.testing.assert_allclose(steps[:2], [steps[2]] * 2, rtol=1e-6)


def test_the_papers_network_is_the_default():
    params = jax.eval_shape(C2ST().network.init, jax.random.key(0), jnp.zeros((2, 10)))
    shapes = sorted(np.shape(leaf) for leaf in jax.tree.leaves(params))
    assert shapes == [(10, 512), (512,), (512,), (512,), (512, 512)]
    assert C2ST().network.frozen == ()
    assert (C2ST(score="accuracy").method, C2ST(score="logit").method) == ("c2st-s", "c2st-l")


@pytest.mark.parametrize("score", SCORES)
def test_a_diverged_classifier_is_no_rejection(score):
    x, y = shifted()
    result = dataclasses.replace(TESTS[score], learning_rate=1e38)(0, x, y)
    assert np.isnan(result.pvalue) and not result.reject


def test_save_and_load_the_witness(tmp_path):
    x, y = shifted()
    result = TESTS["logit"](0, x, y)
    loaded = TwoSampleResult.load(result.save(tmp_path / "result"))
    assert isinstance(loaded.witness, LogitWitness)
    np.testing.assert_array_equal(loaded.witness(x), result.witness(x))
    with pytest.raises(ValueError, match=r"shape \(n, 2\); got \(5, 3\)"):
        loaded.witness(np.zeros((5, 3)))


def test_a_network_of_ones_own_is_needed_to_load(tmp_path):
    network = Network(lambda key, x: jnp.ones(x.shape[1]), lambda params, x: x @ params)
    x, y = shifted()
    witness = LogitWitness(jnp.arange(2.0), jnp.float32(0.5), network=network, features=(2,))
    path = dataclasses.replace(TESTS["logit"](0, x, y), witness=witness).save(tmp_path / "own")
    with pytest.raises(ValueError, match="network="):
        TwoSampleResult.load(path).witness(x)
    loaded = TwoSampleResult.load(path, network=network)
    np.testing.assert_allclose(loaded.witness(x), x[:, 1] + 0.5, rtol=1e-5)


def test_frozen_leaves_stay():
    network = mlp(8, train_readout=False)
    x, y = shifted()
    params = jax.jit(network.init)(jax.random.key(0), x)
    test = C2ST(network=network)
    witness = jax.jit(test.classify)(jax.random.key(1), params, signed_measure(x, y))
    before, after = params["params"], witness.params["params"]
    np.testing.assert_array_equal(before["readout"]["kernel"], after["readout"]["kernel"])
    assert np.all(before["layer_1"]["kernel"] != after["layer_1"]["kernel"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "auc"}, "unknown score 'auc'; use one of"),
        ({"optimizer": "lbfgs"}, "unknown optimizer 'lbfgs'; use one of"),
        ({"optimizer": optax.adam(0.1), "learning_rate": 0.1}, "of its own"),
        ({"learning_rate": -1.0}, "learning_rate must be positive"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1; got 0"),
        ({"batch_size": 0.5}, "batch_size must be a whole number"),
        ({"calibration": "full"}, "'full' does not apply to C2ST; use one of"),
        ({"train_fraction": None}, "set train_fraction"),
        ({"n_permutations": 3}, "cannot reach level"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        C2ST(**options)


def power(**options):
    setting = (datasets.gaussian_mixture, 2000, 2000)
    return rejection_rate(C2ST(**options), *setting, n_runs=60, batch=1)


@pytest.mark.slow
def test_the_order_of_table_1():
    """Mixture example 1, n_tr = 2,000 in all: published 14.1, 87.8, 61.6 and 22.2 %."""
    adam_1, adam_10 = power(epochs=1), power(epochs=10)
    adam_s, sgd_10 = power(score="accuracy", epochs=10), power(optimizer="sgd", epochs=10)
    assert adam_1 < sgd_10 < adam_s < adam_10
    assert abs(adam_1 - 0.141) < binomial_band(0.141, 60)
