"""The fast path of the two-layer network is the general one, to rounding."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.networks import Network, freeze, mlp, two_layer
from ntkmmd_jax.training import SGD, trained_witness, trajectory

KEY = jax.random.key(3)


def general(network):
    """The same network without what the fast path looks at."""
    return dataclasses.replace(network, apply=lambda params, x: network.apply(params, x))


def close(a, b, tolerance=2e-5):
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(left, right, atol=tolerance * np.abs(right).max())


@pytest.mark.parametrize(
    ("initialization", "activation", "batch_size", "epochs", "momentum"),
    [
        *(("paper", "softplus", *steps, 0.0) for steps in [(1, 2), (5, 1), (40, 3), (None, 2)]),
        *(("paper", "softplus", *steps, 0.9) for steps in [(1, 1), (1, 2), (5, 1), (40, 3)]),
        ("paper", "relu", 1, 2, 0.0),
        ("paper", "relu", 5, 1, 0.5),
        ("ntk", jnp.tanh, 1, 2, 0.0),
        ("ntk", jnp.tanh, None, 2, 0.9),
    ],
)
def test_training_and_scores_are_those_of_the_general_path(
    initialization, activation, batch_size, epochs, momentum
):
    k_x, k_y, k_z = jax.random.split(jax.random.key(1), 3)
    x, y = jax.random.normal(k_x, (33, 2, 3)), jax.random.normal(k_y, (20, 2, 3)) + 0.3
    network = mlp(24, activation=activation, initialization=initialization)
    assert two_layer.applies(network) and not two_layer.applies(general(network))
    params, measure = network.init(KEY, x), signed_measure(x, y)
    rate = 2.0 * (1 - momentum)  # far from lazy
    sgd = SGD(rate, batch_size=batch_size, epochs=epochs, momentum=momentum)
    fast = trained_witness(KEY, network, params, measure, sgd)
    slow = trained_witness(KEY, general(network), params, measure, sgd)
    assert float(fast.time) == pytest.approx(float(slow.time), rel=1e-6)
    close(fast.velocity, slow.velocity)
    points = jax.random.normal(k_z, (11, 2, 3))
    close(fast(points), slow(points))
    path = trajectory(KEY, network, params, measure, sgd, every=batch_size or 53)
    close(fast.velocity, path[-1].velocity)


def test_it_vmaps_over_weights_of_the_points():
    x = jax.random.normal(KEY, (10, 4))
    network = mlp(8)
    params, measure = network.init(KEY, x), signed_measure(x[:5], x[5:])
    signs = jnp.stack([measure.weights, -measure.weights])

    def train(weights):
        return trained_witness(
            KEY, network, params, dataclasses.replace(measure, weights=weights), SGD()
        ).velocity

    both = jax.vmap(train)(signs)
    close(jax.tree.map(lambda leaf: leaf[1], both), train(signs[1]))


def test_it_applies_to_the_papers_network_only():
    assert not two_layer.applies(mlp((8, 8)))
    assert not two_layer.applies(mlp(8, train_readout=True))
    assert not two_layer.applies(freeze(mlp(8), "bias"))
    module = mlp(8).module
    assert not two_layer.applies(Network(module.init, module.apply))
