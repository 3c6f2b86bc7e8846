"""Two routes to the same number: every statistic from the witness and from the kernel matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax.kernels import empirical_ntk, two_layer_ntk
from ntkmmd_jax.measure import asymmetric_mmd2, mean_gap, mmd2, signed_measure, unbiased_mmd2
from ntkmmd_jax.networks import convnet, mlp
from ntkmmd_jax.witness import exact_witness, inner, velocity

KEY = jax.random.key(0)
NETWORKS = {
    "2-layer softplus": mlp(512),
    "2-layer relu, all trained": mlp(512, activation="relu", train_readout=True),
    "3-layer relu": mlp((256, 256), activation="relu"),
}


def close(a, b, scale=0.0):
    """To 1e-5 relative in float32, as promised; or to the rounding of terms of size `scale`."""
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=np.finfo(np.float32).eps * scale)


def routes(network, train, test, implementations=(1, 2, 3)):
    """T̂_a six ways: scores, velocities, and the kernel by each implementation."""
    points = jnp.concatenate([train.points, test.points])
    params = network.init(KEY, points)
    witness = exact_witness(network, params, train)
    yield mean_gap(witness(test.points), test.weights)
    yield inner(velocity(network, params, train), velocity(network, params, test))
    for implementation in implementations:
        kernel = empirical_ntk(
            network, params, test.points, train.points, implementation=implementation
        )
        yield asymmetric_mmd2(kernel, test.weights, train.weights)
    if network.module.__class__.__name__ == "MLP" and len(network.module.widths) == 1:
        kernel = two_layer_ntk(network, params, test.points, train.points)
        yield asymmetric_mmd2(kernel, test.weights, train.weights)


@pytest.mark.parametrize("name", NETWORKS)
def test_asymmetric_statistic_by_all_routes(shifted, name):
    x, y = shifted
    train, test = signed_measure(x[:70], y[:40]), signed_measure(x[70:], y[40:])
    network = NETWORKS[name]
    first, *others = routes(network, train, test)
    # With a trained readout K has a term of size m |x|², nearly constant: it all but cancels.
    scale = 512 * 100 if not network.frozen else 0
    for other in others:
        close(other, first, scale)


def test_asymmetric_statistic_of_the_convnet(images):
    x, y = images
    train, test = signed_measure(x[:9], y[:7]), signed_measure(x[9:], y[7:])
    # That its kernels agree, entry by entry, is in test_kernels and test_neural_tangents.
    first, *others = routes(convnet((3, 4), width=16), train, test, implementations=(3,))
    for other in others:
        close(other, first)


@pytest.mark.parametrize("name", NETWORKS)
def test_symmetric_statistic_by_all_routes(shifted, name):
    network, measure = NETWORKS[name], signed_measure(*shifted)
    params = network.init(KEY, measure.points)
    witness = exact_witness(network, params, measure)
    kernel = empirical_ntk(network, params, measure.points)
    expected = mean_gap(witness(measure.points), measure.weights)
    close(inner(witness.velocity, witness.velocity), expected)
    close(mmd2(kernel, measure.weights), expected)


def test_unbiased_statistic_is_the_double_sum():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(9, 4))
    kernel = features @ features.T
    labels = np.arange(9) < 4
    xx, yy, xy = kernel[:4, :4], kernel[4:, 4:], kernel[:4, 4:]
    expected = (xx.sum() - np.trace(xx)) / 12 + (yy.sum() - np.trace(yy)) / 20 - 2 * xy.mean()
    close(unbiased_mmd2(jnp.asarray(kernel, jnp.float32), jnp.asarray(labels)), expected)


def test_unbiased_statistic_has_mean_zero_under_h0():
    def one(key):
        z = jax.random.normal(key, (12, 3))
        return unbiased_mmd2(jnp.exp(z @ z.T / 6), jnp.arange(12) < 5)

    values = jax.vmap(one)(jax.random.split(KEY, 4000))
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(4000)


def test_batches_of_weights():
    rng = np.random.default_rng(3)
    kernel, w, v = rng.normal(size=(5, 7)), rng.normal(size=(3, 5)), rng.normal(size=(3, 7))
    many = asymmetric_mmd2(jnp.asarray(kernel), jnp.asarray(w), jnp.asarray(v))
    np.testing.assert_allclose(many, np.einsum("bi,ij,bj->b", w, kernel, v), rtol=1e-4)
