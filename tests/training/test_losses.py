"""Losses of the trained witness: least squares and logistic beside the paper's linear one."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.measure import SignedMeasure, signed_measure
from ntkmmd_jax.networks import Network
from ntkmmd_jax.training import SGD, trained_witness

KEY = jax.random.key(3)
THETA = jnp.float32([0.5, -1.0, 2.0])
LINEAR = Network(lambda key, x: THETA, lambda theta, x: x @ theta)  # f(x; θ) = θ·x
SLOPES = {  # −∂ℓ/∂h, per point, in numpy
    "linear": lambda h, s: s,
    "l2": lambda h, s: s - h,
    "logistic": lambda h, s: s / (1 + np.exp(s * h)),
}


@pytest.fixture(scope="module")
def measure():
    rng = np.random.default_rng(0)
    return signed_measure(*(jnp.float32(rng.normal(size=(n, 3))) for n in (7, 4)))


@pytest.mark.parametrize("loss", SLOPES)
def test_training_is_the_plain_loop(measure, loss):
    """SGD from θ0 ≠ 0 in float64 numpy: h begins at 0, and not f."""
    sgd = SGD(0.7, batch_size=5, epochs=3, shuffle=False, loss=loss)
    witness = trained_witness(KEY, LINEAR, THETA, measure, sgd)
    points, weights = (np.asarray(leaf, np.float64) for leaf in (measure.points, measure.weights))
    moved = np.zeros(3)
    for _ in range(3):
        for start in range(0, 11, 5):
            z, w = points[start : start + 5], weights[start : start + 5]
            moved += 0.7 * z.T @ (np.abs(w) * SLOPES[loss](z @ moved, np.sign(w)))
    assert float(witness.time) == pytest.approx(2.1)
    np.testing.assert_allclose(witness.time * witness.velocity, moved, rtol=1e-5)
    np.testing.assert_allclose(witness(points), points @ moved / 2.1, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", ["l2", "logistic"])
def test_padding_is_no_step(measure, loss):
    """A network of the fast linear path takes the general one; 5 places at weight 0 change none."""
    network = ntk.mlp(8)
    params, sgd = network.init(KEY, measure.points), SGD(0.5, batch_size=4, loss=loss)
    padded = SignedMeasure(
        jnp.pad(measure.points, ((0, 5), (0, 0))), jnp.pad(measure.weights, (0, 5))
    )
    few = trained_witness(KEY, network, params, measure, sgd)
    same = trained_witness(KEY, network, params, padded, sgd, n=jnp.int32(11))
    np.testing.assert_allclose(same(measure.points), few(measure.points), rtol=1e-4, atol=1e-6)
    linear = trained_witness(KEY, network, params, measure, SGD(0.5, batch_size=4))
    assert np.abs(few(measure.points) - linear(measure.points)).max() > 1e-3


def test_time_of_an_optimizer_is_along_its_own_gradient(measure):
    """Logistic begins with half of the linear loss's gradient; its time is not half of the rate."""
    sgd = SGD(optimizer=optax.sgd(1e-3), batch_size=None, loss="logistic")
    witness = trained_witness(KEY, LINEAR, THETA, measure, sgd)
    assert float(witness.time) == pytest.approx(1e-3, rel=1e-5)


def test_unknown_losses_are_refused():
    for make in (SGD, ntk.NetMMD):
        with pytest.raises(ValueError, match=r"unknown loss 'hinge'; use one of \('linear', 'l2'"):
            make(loss="hinge")
