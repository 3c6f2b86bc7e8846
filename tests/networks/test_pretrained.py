"""Pretrained flax networks: as an embedding, as the network itself, and below a trained head."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx

import ntkmmd_jax as ntk
from ntkmmd_jax.datasets import mnist
from ntkmmd_jax.networks import check_network

KEY = jax.random.key(0)


class Classifier(linen.Module):
    """Digits, 8 × 8, with features below its ten outputs."""

    outputs: int = 10

    def setup(self):
        self.hidden = linen.Dense(24)
        self.norm = linen.BatchNorm(use_running_average=True)
        self.readout = linen.Dense(self.outputs)

    def features(self, x):
        return linen.relu(self.norm(self.hidden(x.reshape(len(x), -1))))

    def __call__(self, x):
        return self.readout(self.features(x))


def trained(module, images, labels, steps=150):
    """The weights after full-batch Adam on the cross-entropy."""
    variables = module.init(KEY, images[:1])
    rest = {"batch_stats": variables["batch_stats"]}
    adam = optax.adam(0.03)

    def loss(params):
        logits = module.apply({"params": params, **rest}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(state, _):
        params, moments = state
        moved, moments = adam.update(jax.grad(loss)(params), moments)
        return (optax.apply_updates(params, moved), moments), None

    params = variables["params"]
    (params, _), _ = jax.lax.scan(step, (params, adam.init(params)), length=steps)
    return {"params": params, **rest}


@pytest.fixture(scope="module")
def digits():
    """Images of digits in random order, and what they are."""
    source = mnist.images("digits")
    labels = np.zeros(len(source.words), np.int32)
    labels[source.by_digit] = np.repeat(np.arange(10), source.counts)
    order = np.random.default_rng(0).permutation(len(labels))
    return source.pixels(jnp.asarray(order)), jnp.asarray(labels[order])


@pytest.fixture(scope="module")
def weights(digits):
    images, labels = digits
    with jax.numpy_dtype_promotion("standard"):  # optax counts steps in int32
        weights = jax.jit(lambda *data: trained(Classifier(), *data))(images[:1000], labels[:1000])
    right = Classifier().apply(weights, images[1000:]).argmax(1) == labels[1000:]
    assert right.mean() > 0.9  # it is one that has learned
    return weights


def test_embedding_is_the_method_batch_by_batch(digits, weights):
    images = np.asarray(digits[0][:70])
    network = ntk.from_flax(Classifier(), params=weights, method="features")
    expected = Classifier().apply(weights, images, method="features")
    shapes = []

    def function(batch):
        shapes.append(batch.shape)
        return np.asarray(Classifier().apply(weights, batch, method="features"))

    for embedding in (network, function):
        found = ntk.embed(embedding, images, batch_size=32)
        # Sums of numbers up to 10, in another order in every batch size.
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert set(shapes) == {(32, 8, 8, 1)}  # 70 = 32 + 32 + 6, filled up: one program
    assert ntk.embed(function, images[:5]).shape == (5, 24)


def test_the_network_itself_starts_from_its_weights(digits, weights):
    """θ0 for every key, in all tests; K is the Gram matrix of its Jacobian there."""
    module, images = Classifier(outputs=1), digits[0][:6]
    narrow = {
        **weights["params"],
        "readout": jax.tree.map(lambda w: w[..., :1], weights["params"]["readout"]),
    }
    given = {**weights, "params": narrow}
    network = ntk.from_flax(module, params=given)
    for key in jax.random.split(KEY, 2):
        jax.tree.map(np.testing.assert_array_equal, network.init(key, images), given)

    def outputs(params):
        return module.apply({**given, "params": params}, images)[:, 0]

    rows = [leaf.reshape(6, -1) for leaf in jax.tree.leaves(jax.jacrev(outputs)(narrow))]
    jacobian = np.concatenate(rows, axis=1, dtype=np.float64)
    kernel = ntk.empirical_ntk(network, given, images)
    np.testing.assert_allclose(kernel, jacobian @ jacobian.T, rtol=1e-4)


def test_a_head_on_a_frozen_backbone_is_the_head_on_features(digits, weights):
    images, head = digits[0][:12], ntk.mlp(16)
    backbone = ntk.from_flax(Classifier(), params=weights, method="features")
    network = ntk.freeze(ntk.with_head(backbone, head), "backbone")
    params = network.init(KEY, images)
    _, theta = network.trainable(params)
    assert sorted(leaf.shape for leaf in jax.tree.leaves(theta)) == [(16,), (24, 16)]
    features = jnp.asarray(ntk.embed(backbone, images))
    of_head = {"params": params["params"]["head"]}
    np.testing.assert_allclose(network(params, images), head(of_head, features), rtol=1e-5)
    expected = ntk.empirical_ntk(head, of_head, features)
    found = ntk.empirical_ntk(network, params, images)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_test_leaves_points_as_the_weights_know_them(digits, weights):
    """Zeros and ones against the rest, by a linear head: T = |mean φ(x) − mean φ(y)|²."""
    images, labels = digits[0][:80], digits[1][:80]
    x, y = images[labels < 2], images[labels > 1]
    backbone = ntk.from_flax(Classifier(), params=weights, method="features")
    network = ntk.freeze(ntk.with_head(backbone, linen.Dense(1)), "backbone")
    found = ntk.two_sample_test(x, y, method="ntk-symmetric", network=network, n_permutations=39)
    assert not found.standardized and found.pvalue == 1 / 40
    gap = ntk.embed(backbone, x).mean(0) - ntk.embed(backbone, y).mean(0)
    np.testing.assert_allclose(found.statistic, gap @ gap, rtol=1e-3)
    drawn = ntk.with_head(linen.Dense(3), linen.Dense(1))
    flat = {"method": "ntk", "network": drawn, "n_permutations": 19}
    assert ntk.two_sample_test(x.reshape(-1, 64), y.reshape(-1, 64), **flat).standardized


class Small(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(5, 6, rngs=rngs)
        self.norm = nnx.BatchNorm(6, rngs=rngs)
        self.out = nnx.Linear(6, 3, rngs=rngs)

    def features(self, x):
        return nnx.relu(self.norm(self.hidden(x)))

    def __call__(self, x):
        return self.out(self.features(x))


def test_nnx_modules_bring_their_weights():
    module, x = Small(nnx.Rngs(1)), np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    module.eval()
    backbone = ntk.from_flax(module, method="features")
    np.testing.assert_allclose(ntk.embed(backbone, x), module.features(x), rtol=1e-6)
    np.testing.assert_allclose(ntk.embed(module, x, batch_size=3), module(x), rtol=1e-5, atol=1e-6)
    network = ntk.with_head(backbone, linen.Dense(1))
    assert network.pretrained and not ntk.from_flax(Small, method="features").pretrained
    check_network(network, (5,))
    params = network.init(KEY, x[:1])
    _, theta = network.trainable(params)
    frozen = ntk.freeze(network, "backbone/bias", "head")
    _, fewer = frozen.trainable(params)
    # Hidden layer, norm, the output that is not used, head; and their kernels and scale.
    assert len(jax.tree.leaves(theta)) == 8 and len(jax.tree.leaves(fewer)) == 3


def test_what_two_parts_freeze_stays_frozen():
    network = ntk.with_head(ntk.freeze(linen.Dense(4), "bias"), ntk.mlp(8))
    assert network.frozen == ("backbone/bias", "head/readout")
    _, theta = network.trainable(network.init(KEY, jnp.ones((1, 5))))
    shapes = sorted(leaf.shape for leaf in jax.tree.leaves(theta))
    assert shapes == [(4, 8), (5, 4), (8,)]  # the bias of the backbone only
    pair = (lambda key, x: jnp.ones(x.shape[1:]), lambda w, x: x * w)
    assert ntk.with_head(pair, ntk.mlp(8)) == ntk.with_head(pair, ntk.mlp(8))  # one program


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda w: ntk.from_flax(Classifier(), params=w), r"put a head on it, as with_head"),
        (lambda w: ntk.from_flax(linen.Dense(1), params=w), "weights that it was given are not"),
    ],
)
def test_networks_that_do_not_fit_are_refused(weights, build, message):
    with pytest.raises(ValueError, match=message):
        check_network(build(weights), (8, 8, 1))


def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match=r"got \['hidden', 'norm', 'readout'\]: wrap"):
        ntk.from_flax(Classifier(), params=weights["params"])
    with pytest.raises(ValueError, match="params= is for linen modules"):
        ntk.from_flax(Small(nnx.Rngs(0)), params=weights)
    for drawn in (Classifier(), ntk.mlp(8)):
        with pytest.raises(ValueError, match="must have weights: give them"):
            ntk.embed(drawn, np.ones((3, 8)))


@pytest.mark.parametrize(
    ("embedding", "samples", "error", "message"),
    [
        (3, np.ones((3, 2)), TypeError, "a network or a function; got 3"),
        (lambda x: x.sum(0), np.ones((3, 2)), ValueError, r"gave shape \(2,\) for \(3, 2\)"),
        (lambda x: x, np.ones((0, 2)), ValueError, "no sample"),
    ],
)
def test_bad_embeddings_are_refused(embedding, samples, error, message):
    with pytest.raises(error, match=message):
        ntk.embed(embedding, samples)
