import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ntkmmd_jax.measure import SignedMeasure, signed_measure
from ntkmmd_jax.networks import Network, mlp
from ntkmmd_jax.training import SGD, trained_witness, trajectory
from ntkmmd_jax.witness import exact_witness, inner

KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def setting():
    x = jax.random.normal(jax.random.key(1), (13, 6))
    y = jax.random.normal(jax.random.key(2), (8, 6)) + 0.3
    network = mlp(32)
    return network, network.init(KEY, x), signed_measure(x, y)


def plain_sgd(network, params, measure, *, rate, batch_size, epochs, momentum, order):
    """The paper's loop, one step at a time in float64 numpy."""
    theta = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params["params"])
    w, b, a = theta["layer_1"]["kernel"], theta["layer_1"]["bias"], theta["readout"]["kernel"]
    w0, b0 = w.copy(), b.copy()
    points, weights = (np.asarray(leaf, np.float64) for leaf in (measure.points, measure.weights))
    m_w, m_b = np.zeros_like(w), np.zeros_like(b)
    for _ in range(epochs):
        for start in range(0, len(weights), batch_size):
            batch = order[start : start + batch_size]
            slope = a / (1 + np.exp(-(points[batch] @ w + b)))
            g_w = -points[batch].T @ (weights[batch, None] * slope)
            g_b = -(weights[batch] @ slope)
            m_w, m_b = momentum * m_w + g_w, momentum * m_b + g_b
            w, b = w - rate * m_w, b - rate * m_b
    return w - w0, b - b0


@pytest.mark.parametrize("batch_size", [1, 4, 21, None])
@pytest.mark.parametrize(("epochs", "momentum"), [(1, 0.0), (3, 0.9)])
def test_training_is_the_papers_loop(setting, batch_size, epochs, momentum):
    network, params, measure = setting
    sgd = SGD(0.5, batch_size=batch_size, epochs=epochs, momentum=momentum, shuffle=False)
    witness = trained_witness(KEY, network, params, measure, sgd)
    moved_w, moved_b = plain_sgd(
        network,
        params,
        measure,
        rate=0.5,
        batch_size=batch_size or 21,
        epochs=epochs,
        momentum=momentum,
        order=np.arange(21),
    )
    v = witness.velocity["params"]["layer_1"]
    np.testing.assert_allclose(witness.time * v["kernel"], moved_w, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(witness.time * v["bias"], moved_b, rtol=2e-4, atol=1e-6)


def test_time_of_one_epoch_is_the_learning_rate(setting):
    _, _, measure = setting
    for batch_size in (1, 4, None):
        sgd = SGD(0.3, batch_size=batch_size, epochs=2)
        steps = 2 * sgd.steps_per_epoch(len(measure.weights))
        np.testing.assert_allclose(sgd.elapsed(steps, len(measure.weights)), 0.6, rtol=1e-6)


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"batch_size": None, "epochs": 7}])
def test_time_makes_the_witness_exact_to_first_order(setting, options):
    """With the right t the trained velocity has the length of the exact one, not 10 times it."""
    network, params, measure = setting
    exact = exact_witness(network, params, measure)
    order = np.tile(np.arange(21), 40)  # a long pass, so that momentum weighs all samples alike
    long = SignedMeasure(measure.points[order], measure.weights[order] / 40)
    witness = trained_witness(KEY, network, params, long, SGD(1e-3, **options))
    ratio = inner(witness.velocity, exact.velocity) / inner(exact.velocity, exact.velocity)
    assert abs(ratio - 1) < 0.02


def test_any_optax_optimizer(setting):
    network, params, measure = setting
    exact = exact_witness(network, params, measure)
    plain = trained_witness(KEY, network, params, measure, SGD(1e-3))
    same = trained_witness(KEY, network, params, measure, SGD(optimizer=optax.sgd(1e-3)))
    np.testing.assert_allclose(same.time, 1e-3, rtol=1e-3)  # measured, not told
    np.testing.assert_allclose(same(measure.points), plain(measure.points), rtol=2e-3, atol=1e-4)
    adam = trained_witness(KEY, network, params, measure, SGD(optimizer=optax.adam(1e-4)))
    along = inner(adam.velocity, exact.velocity) / inner(exact.velocity, exact.velocity)
    np.testing.assert_allclose(along, 1.0, rtol=1e-4)  # by the definition of its time


def test_shuffling_visits_every_point_once_an_epoch(setting):
    _, _, measure = setting
    batches = SGD(batch_size=4, epochs=3).batches(KEY, measure.weights)
    orders = np.asarray(batches.indices)[np.asarray(batches.weights) != 0].reshape(3, 21)
    for order in orders:
        assert sorted(order) == list(range(21))
    assert not (orders[0] == orders[1]).all()
    np.testing.assert_allclose(np.sum(batches.weights), 0, atol=1e-6)


@pytest.mark.parametrize(("every", "batch_size"), [(1, 1), (5, 1), (8, 4), (100, 1)])
def test_snapshots_are_shorter_trainings(setting, every, batch_size):
    """The snapshot after k samples is training on the first k at the weights of all."""
    network, params, measure = setting
    sgd = SGD(0.5, batch_size=batch_size, shuffle=False)
    path = trajectory(KEY, network, params, measure, sgd, every=every)
    assert path.counts[-1] == 21 and path.counts[0] == min(every, 21)
    for i in (0, len(path) - 1):
        k = path.counts[i]
        weights = jnp.where(jnp.arange(21) < k, measure.weights, 0)
        short = trained_witness(KEY, network, params, SignedMeasure(measure.points, weights), sgd)
        moved = path[i].time * path[i](measure.points)
        np.testing.assert_allclose(moved, short.time * short(measure.points), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        path.statistics(measure)[-1],
        measure.weights @ trained_witness(KEY, network, params, measure, sgd)(measure.points),
        rtol=1e-4,
    )
    assert path.scores(measure.points).shape == (len(path), 21)


def test_statistic_settles_along_the_pass(shifted):
    """In units of the time spent, the statistic after k samples estimates one and the same MMD²."""
    network = mlp(128)
    measure = signed_measure(*shifted)
    params = network.init(KEY, measure.points)
    path = trajectory(KEY, network, params, measure, SGD(), every=55)
    np.testing.assert_allclose(path.time, 0.1 * np.array(path.counts) / 220, rtol=1e-5)


@pytest.mark.parametrize("batch_size", [8, 3, 5, 10])
def test_time_is_the_share_of_samples_visited(batch_size):
    """Of a linear network θ moves by α Σ w_i z_i, so v after k of n samples is n/k times that sum.

    In plain SGD, short last batch or not: the time is α k/n.
    """
    points, weights = np.random.default_rng(0).normal(size=(2, 10, 3)).astype(np.float32)
    network = Network(lambda key, x: jnp.zeros(3), lambda theta, x: x @ theta)
    measure = SignedMeasure(jnp.asarray(points), jnp.asarray(weights[:, 0]))
    sgd = SGD(0.3, batch_size=batch_size, epochs=2, shuffle=False)
    path = trajectory(KEY, network, jnp.zeros(3), measure, sgd, every=batch_size)
    assert path.counts[-1] == 20
    np.testing.assert_allclose(path.time, 0.3 * np.array(path.counts) / 10, rtol=1e-6)
    pulls = np.cumsum(np.tile(weights[:, :1] * points, (2, 1)), axis=0)
    for i, count in enumerate(path.counts):
        expected = 10 / count * pulls[count - 1]
        np.testing.assert_allclose(path[i].velocity, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("n", "batch_size"), [(10, 8), (21, 4), (12, 4), (7, None)])
def test_time_with_momentum_counts_what_each_step_has_moved(n, batch_size):
    """Step j has moved θ by α (1 + μ + … + μ^(k−j)) times its share of the samples."""
    sgd = SGD(0.3, batch_size=batch_size, epochs=3, momentum=0.9)
    size, per_epoch = batch_size or n, sgd.steps_per_epoch(n)
    shares = [min(size, n - first) / n for first in range(0, n, size)] * 3
    for k in range(1, 3 * per_epoch + 1):
        moved = sum(shares[j] * sum(0.9**i for i in range(k - j)) for j in range(k))
        np.testing.assert_allclose(sgd.elapsed(k, n), 0.3 * moved, rtol=1e-6)


def test_an_optimizer_stands_alone():
    with pytest.raises(TypeError, match=r"must be an optax GradientTransformation.*got 'adam'"):
        SGD(optimizer="adam")
    for options in ({"learning_rate": 0.01}, {"learning_rate": np.float32(1)}, {"momentum": 0.9}):
        with pytest.raises(ValueError, match="an optax optimizer has a learning rate of its own"):
            SGD(optimizer=optax.adam(1e-3), **options)
    sgd = SGD(optimizer=optax.adam(1e-3), batch_size=4)
    rebuilt = jax.tree.map(np.float32, sgd), jax.jit(lambda sgd: sgd)(sgd)
    assert all(each.optimizer is sgd.optimizer for each in rebuilt)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0.5}, "batch_size must be a whole number"),
        ({"batch_size": -1}, "batch_size must be a whole number"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1; got 0"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\)"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SGD(**options)


def test_snapshots_fall_between_batches(setting):
    network, params, measure = setting
    with pytest.raises(ValueError, match="every = 3 must be a multiple of the batch size 2"):
        trajectory(KEY, network, params, measure, SGD(batch_size=2), every=3)
