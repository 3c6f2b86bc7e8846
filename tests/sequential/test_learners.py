"""Witnesses that learn online, against those that see all blocks at once."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import ntkmmd_jax as ntk
from ntkmmd_jax.sequential import Exact, Ridge, Trained
from ntkmmd_jax.sequential.bettor import as_learners
from ntkmmd_jax.sequential.payoff import Block

N, D = 70, 3
RNG = np.random.default_rng(1)
X, Y = (jnp.asarray(RNG.normal(size=(N, D)) + shift, jnp.float32) for shift in (0.0, 0.4))
Z = jnp.asarray(RNG.normal(size=(9, D)), jnp.float32)
PAIRS = Block(
    jnp.stack([X, Y], axis=1),
    jnp.zeros(N, jnp.int32),
    jnp.ones(N),
    jnp.ones(N, jnp.int32),
)


def learned(learner):
    def learn(state, block):
        return learner.learn(state, block), None

    begun = learner.init(jax.random.key(0), (D,))
    return jax.jit(lambda begun: jax.lax.scan(learn, begun, PAIRS))(begun)[0]


def test_exact_is_the_exact_witness_of_all_pairs():
    learner = Exact(ntk.mlp(16), scale=0.8)
    state = learned(learner)
    unit = 0.8 * np.sqrt(2 * D)
    measure = ntk.signed_measure(X / unit, Y / unit)
    expected = ntk.exact_witness(learner.network, state.params, measure)(Z / unit)
    np.testing.assert_allclose(learner.scores(state, Z)[0], expected, rtol=1e-4, atol=1e-6)


def test_ridge_is_the_least_squares_fit_of_one():
    learner = Ridge(ntk.fourier(32), scale=0.5, ridges=(0.3, 3.0))
    state = learned(learner)
    features = np.asarray(learner._features(state, jnp.concatenate([X, Y])), np.float64)
    u = features[:N] - features[N:]
    solved_at = max(n for n in range(1, N + 1) if n % max(n // 16, 1) == 0)
    u = u[:solved_at]
    for ridge, found in zip(learner.ridges, state.solutions, strict=True):
        matrix = u.T @ u + ridge * np.eye(32)
        exact = np.linalg.solve(matrix, u.sum(0))
        off = np.asarray(found) - exact
        assert off @ matrix @ off < 0.01 * exact @ matrix @ exact  # after 8 conjugate gradients


def test_features_of_a_ridge_have_size_one():
    for network in (ntk.fourier(64), ntk.mlp(8), ntk.fourier(64, additive=True)):
        learner = Ridge(network)
        state = learner.init(jax.random.key(1), (D,))
        size = jnp.mean(jnp.sum(learner._features(state, X) ** 2, axis=1))
        assert 0.5 < size < 2


def test_what_is_forgotten_has_weight():
    """With memory M the sums are those with weights (1 − 1/M)^age, also of blocks that wait."""
    learner = Ridge(ntk.fourier(8), ridges=(1.0,), memory=20)
    state = learned(learner)
    features = np.asarray(learner._features(state, jnp.concatenate([X, Y])), np.float64)
    u = (features[:N] - features[N:]) * np.sqrt(0.95 ** np.arange(N)[::-1])[:, None]
    total = state.faded * state.products + state.recent.T @ state.recent
    np.testing.assert_allclose(total, u.T @ u, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", ["linear", "l2", "logistic"])
def test_trained_is_plain_training(loss):
    learner = Trained(ntk.mlp(8), loss=loss, optimizer=optax.sgd(0.1))
    state, network = learned(learner), learner.network
    f, theta0 = network.trainable(state.params)
    start, unravel = ravel_pytree(theta0)
    unit = np.sqrt(2 * D)

    def one(theta, x, y):
        h = [f(unravel(theta), z[None] / unit)[0] - f(theta0, z[None] / unit)[0] for z in (x, y)]
        if loss == "linear":
            return h[1] - h[0]
        if loss == "l2":
            return 0.5 * ((h[0] - 1) ** 2 + (h[1] + 1) ** 2)
        return jnp.log1p(jnp.exp(-h[0])) + jnp.log1p(jnp.exp(h[1]))

    descend = jax.jit(jax.grad(one))
    theta = start
    for x, y in zip(X, Y, strict=True):
        theta = theta - 0.1 * descend(theta, x, y)
    expected = f(unravel(theta), Z / unit) - f(theta0, Z / unit)
    np.testing.assert_allclose(learner.scores(state, Z)[0], expected, rtol=1e-3, atol=1e-5)


def test_what_stands_for_learners():
    network = ntk.mlp(4)
    assert as_learners(network) == (Exact(network),)
    assert as_learners([Ridge(), Exact()]) == (Ridge(), Exact())
    pair = (lambda key, x: jnp.zeros(()), lambda params, x: x[:, 0] + params)
    assert as_learners(pair)[0].network.apply is pair[1]
    for wrong in ((), [1, 2], "mlp"):
        with pytest.raises((TypeError, ValueError)):
            as_learners(wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ridge(ridges=()), "no ridges"),
        (lambda: Ridge(ridges=(0.0,)), "must be positive"),
        (lambda: Exact(scale=-1.0), "must be positive"),
        (lambda: Exact(memory=1), "must exceed 1"),
        (lambda: Trained(loss="hinge"), "unknown loss 'hinge'"),
        (lambda: Ridge(ntk.mlp(4096)).init(jax.random.key(0), (4,)), "at most 2,048 features"),
    ],
)
def test_options_that_are_none_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
