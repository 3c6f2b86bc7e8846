import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from ntkmmd_jax.networks import (
    Network,
    as_network,
    check_network,
    convnet,
    freeze,
    from_flax,
    mlp,
    rebuild,
)
from ntkmmd_jax.networks.layers import convolved, max_pooled
from ntkmmd_jax.networks.shipped import INITIALIZATIONS

KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (7, 5))


def test_the_papers_network_is_its_formula():
    network = mlp(64)
    theta = network.init(KEY, X)["params"]
    w, b, a = theta["layer_1"]["kernel"], theta["layer_1"]["bias"], theta["readout"]["kernel"]
    expected = np.log1p(np.exp(np.asarray(X @ w + b, np.float64))) @ np.asarray(a, np.float64)
    np.testing.assert_allclose(network({"params": theta}, X), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("initialization", INITIALIZATIONS)
def test_initialisation_has_the_stated_variances(initialization):
    network = mlp((400, 300), initialization=initialization)
    theta = network.init(KEY, jnp.zeros((1, 200)))["params"]
    stds = {
        "paper": (1.0, 400**-0.5, 300**-0.5),
        "lecun": (200**-0.5, 400**-0.5, 300**-0.5),
        "he": ((2 / 200) ** 0.5, (2 / 400) ** 0.5, 300**-0.5),
        "ntk": (1.0, 1.0, 1.0),
    }[initialization]
    for name, std in zip(("layer_1", "layer_2", "readout"), stds, strict=True):
        kernel = np.asarray(theta[name]["kernel"])
        # The standard error of a standard deviation from n normals is std / √(2n).
        assert abs(kernel.std() - std) < 5 * std / np.sqrt(2 * kernel.size)
        np.testing.assert_array_equal(theta[name].get("bias", 0), 0)


def test_ntk_scaling_keeps_the_output_of_order_one():
    x = jnp.ones((1, 300))
    keys = jax.random.split(KEY, 200)
    for width in (64, 256):
        network = mlp((width, width), activation="relu", initialization="ntk")
        one = lambda key: network(network.init(key, x), x)[0]  # noqa: B023, E731
        outputs = jax.jit(jax.vmap(one))(keys)
        assert 0.3 < np.std(outputs) < 0.8  # 1/√2 per relu layer: 1/2 in the limit


def test_only_trained_leaves_are_trained():
    network = mlp(8)
    params = network.init(KEY, X)
    f, theta = network.trainable(params)
    names = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_leaves_with_path(theta)]
    assert names == ["['params']['layer_1']['bias']", "['params']['layer_1']['kernel']"]
    np.testing.assert_array_equal(f(theta, X), network(params, X))
    _, everything = mlp(8, train_readout=True).trainable(params)
    assert len(jax.tree.leaves(everything)) == 3


def test_freezing_by_name():
    network = freeze(mlp((8, 6), train_readout=True), "layer_1", "bias")
    _, theta = network.trainable(network.init(KEY, X))
    shapes = sorted(leaf.shape for leaf in jax.tree.leaves(theta))
    assert shapes == [(6,), (8, 6)]
    with pytest.raises(ValueError, match=r"cannot freeze \['layer_9'\]: the parameters are"):
        bad = freeze(mlp(8), "layer_9")
        bad.trainable(bad.init(KEY, X))
    with pytest.raises(ValueError, match="every parameter is frozen"):
        bad = freeze(mlp(8), "layer_1")
        bad.trainable(bad.init(KEY, X))


def test_the_papers_convnet_has_its_shapes():
    network = convnet()
    theta = jax.jit(network.init)(KEY, jnp.zeros((1, 28, 28)))["params"]
    assert theta["conv_1"]["kernel"].shape == (5, 5, 1, 16)
    assert theta["conv_2"]["kernel"].shape == (5, 5, 16, 32)
    assert theta["layer_1"]["kernel"].shape == (4 * 4 * 32, 128)
    assert theta["readout"]["kernel"].shape == (128,)
    images = jax.random.normal(KEY, (3, 28, 28))
    np.testing.assert_array_equal(
        network({"params": theta}, images), network({"params": theta}, images[..., None])
    )


def test_convolution_of_one_image_and_of_many():
    """One image goes by patches, many by XLA's convolution: the same, and so are the gradients."""
    images = jax.random.normal(KEY, (3, 9, 11, 2))
    kernel = jax.random.normal(jax.random.key(1), (5, 4, 2, 6))
    windows = np.lib.stride_tricks.sliding_window_view(images, (5, 4), axis=(1, 2))
    expected = np.einsum("nhwcab,abcd->nhwd", np.float64(windows), np.float64(kernel))
    np.testing.assert_allclose(convolved(images, kernel), expected, atol=1e-4)
    one_by_one = [convolved(image[None], kernel)[0] for image in images]
    np.testing.assert_allclose(one_by_one, expected, atol=1e-4)

    def total(kernel, images):
        return jnp.sum(jnp.sin(convolved(images, kernel)))

    many = jax.grad(total)(kernel, images)
    added = sum(jax.grad(total)(kernel, image[None]) for image in images)
    np.testing.assert_allclose(added, many, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(8, 6), (7, 9)])
def test_max_pooling(shape):
    """Flax's, and its gradient, where no two pixels are equal."""
    images = jax.random.normal(KEY, (2, *shape, 3))

    def windows(images):
        return linen.max_pool(images, (2, 2), (2, 2))

    np.testing.assert_array_equal(max_pooled(images), windows(images))
    gradients = [jax.grad(lambda z, f=f: jnp.sum(f(z) ** 2))(images) for f in (max_pooled, windows)]
    np.testing.assert_array_equal(*gradients)


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        h = linen.BatchNorm(use_running_average=True)(linen.Dense(6)(x))
        return linen.Dense(1)(linen.relu(h))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(5, 6, rngs=rngs)
        self.norm = nnx.BatchNorm(6, use_running_average=True, rngs=rngs)
        self.out = nnx.Linear(6, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(nnx.relu(self.norm(self.hidden(x))))


@pytest.mark.parametrize("module", [Linen(), Nnx, Nnx(nnx.Rngs(3))], ids=["linen", "fn", "nnx"])
def test_flax_modules(module):
    network = from_flax(module)
    params = network.init(KEY, X)
    direct = {"fn": lambda: Nnx(nnx.Rngs(KEY))(X), "nnx": lambda: module(X)}
    if isinstance(module, linen.Module):
        expected = module.apply(params, X)
    else:
        expected = direct["nnx" if isinstance(module, nnx.Module) else "fn"]()
    np.testing.assert_allclose(network(params, X), expected[:, 0], rtol=1e-6)
    _, theta = network.trainable(params)
    # Two layers and the scale and bias of the norm, but not its running mean and variance.
    assert len(jax.tree.leaves(theta)) == 6
    assert jax.jit(jax.vmap(lambda k: network(network.init(k, X), X)))(
        jax.random.split(KEY, 3)
    ).shape == (3, 7)


def test_equal_networks_are_one_object():
    assert mlp(16) is mlp((16,))
    assert mlp(16) is not mlp(16, activation="relu")


def test_recipes_rebuild():
    for network in (mlp((8, 4), activation="relu"), convnet(), freeze(mlp(9), "bias")):
        again = rebuild(network.recipe)
        assert (again.frozen, again.recipe) == (network.frozen, network.recipe)
    assert mlp(8, activation=jnp.tanh).recipe is None


def test_what_is_a_network():
    pair = (lambda key, x: jnp.ones(x.shape[1]), lambda w, x: x @ w)
    assert as_network(pair) == as_network(pair)
    assert isinstance(as_network(Linen()), Network)
    with pytest.raises(TypeError, match="must be one of ours"):
        as_network("mlp")


@pytest.mark.parametrize(
    "apply", [lambda w, x: x @ jnp.ones((5, 10)), lambda w, x: jnp.sum(x), lambda w, x: x[:3, 0]]
)
def test_output_must_be_one_number_per_sample(apply):
    network = as_network((lambda key, x: jnp.zeros(1), apply))
    with pytest.raises(ValueError, match=r"one number per sample.*it returned shape"):
        network(jnp.zeros(1), X)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: mlp(0), "widths must be positive.*got 0"),
        (lambda: mlp(()), "widths must be positive"),
        (lambda: mlp("64"), "widths must be positive whole numbers.*got '64'"),  # not (6, 4)
        (lambda: mlp(64.0), "whole numbers.*got 64.0"),
        (lambda: mlp((8, 4.5)), r"whole numbers.*got \(8, 4.5\)"),
        (lambda: mlp(True), "whole numbers.*got True"),
        (lambda: mlp((True, 3)), "whole numbers"),
        (lambda: convnet("16"), "channels must be positive whole numbers.*got '16'"),
        (lambda: convnet(width=0), "width must be positive.*got 0"),
        (lambda: mlp(8, activation="sofplus"), "unknown activation 'sofplus'"),
        (lambda: mlp(8, initialization="xavier"), "unknown initialization 'xavier'"),
        (lambda: convnet().init(KEY, jnp.zeros((2, 5))), "takes images"),
        (lambda: convnet().init(KEY, jnp.zeros((2, 8, 8))), "too small"),
    ],
)
def test_bad_networks_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_sizes_of_numpy():
    assert mlp(np.int64(16)) is mlp(16) and mlp(np.array([8, 4])) is mlp((8, 4))


def test_a_single_string_is_one_name():
    for network in (
        from_flax(Linen(), frozen="kernel"),
        freeze(Linen(), "kernel"),
        Network(*PAIR, frozen="kernel"),
    ):
        assert network.frozen == ("kernel",)
    network = from_flax(Linen(), frozen="kernel")
    _, theta = network.trainable(network.init(KEY, X))
    assert len(jax.tree.leaves(theta)) == 4  # two biases, scale and bias of the norm
    with pytest.raises(TypeError, match="each a string"):
        freeze(mlp(8), ["layer_1", "bias"])


PAIR = (lambda key, x: {"w": jax.random.normal(key, x.shape[1:])}, lambda p, x: x @ p["w"])


class Batch(linen.Module):
    """With layers that are right in training only."""

    norm: bool = True
    dropout: bool = False

    @linen.compact
    def __call__(self, x):
        if self.norm:
            x = linen.BatchNorm(use_running_average=False)(x)
        if self.dropout:
            x = linen.Dropout(0.5, deterministic=False)(x)
        return linen.Dense(1)(x)


class NnxBatch(nnx.Module):
    def __init__(self, rngs, dropout=False):
        self.layer = nnx.Dropout(0.5, rngs=rngs) if dropout else nnx.BatchNorm(5, rngs=rngs)
        self.out = nnx.Linear(5, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(self.layer(x))


ZERO = (lambda key, x: jnp.zeros(x.shape[1:]), lambda w, x: (x - x.mean(0)) @ w)
MIXING = {
    "mean": (PAIR[0], lambda p, x: (x - x.mean(0)) @ p["w"]),
    "a little": (PAIR[0], lambda p, x: (x - 0.001 * x.mean(0)) @ p["w"]),
    "softmax": (PAIR[0], lambda p, x: jax.nn.softmax(x @ p["w"])),
    "order": (PAIR[0], lambda p, x: x @ p["w"] + jnp.flip(x @ p["w"])),
    "size": (PAIR[0], lambda p, x: x @ p["w"] / len(x)),
    "from zero": ZERO,
    "activation": mlp(8, activation=lambda h: jnp.tanh(h - h.mean(0))),
    "nnx norm": from_flax(NnxBatch(nnx.Rngs(0))),
    "nnx dropout": from_flax(lambda rngs: NnxBatch(rngs, dropout=True)),
}


@pytest.mark.parametrize("name", MIXING)
def test_networks_that_mix_samples_are_refused(name):
    with pytest.raises(ValueError, match="mixes the samples of a batch"):
        check_network(as_network(MIXING[name]), (5,))


@pytest.mark.parametrize(
    "network",
    [PAIR, Linen(), Nnx, mlp(8, activation=jnp.tanh), (PAIR[0], lambda p, x: jnp.log(x @ p["w"]))],
    ids=["pair", "linen", "nnx", "activation", "partly undefined"],
)
def test_separate_networks_pass(network):
    network = from_flax(network) if network is Nnx else as_network(network)
    check_network(network, (5,))

    @jax.jit
    @jax.vmap
    def traced(x):
        check_network(network, (5,))  # cached, or evaluated at once
        return x

    traced(jnp.ones((3, 2)))


def test_the_check_works_while_tracing():
    network = as_network(PAIR), as_network((PAIR[0], lambda p, x: (x - x.mean(0)) @ p["w"]))
    jax.jit(lambda x: check_network(network[0], (4,)) or x)(1.0)
    with pytest.raises(ValueError, match="mixes"):
        jax.jit(lambda x: check_network(network[1], (4,)) or x)(1.0)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Batch(), "updates statistics of the batch: set use_running_average=True"),
        (Batch(norm=False, dropout=True), "draws random numbers: set deterministic=True"),
    ],
)
def test_flax_errors_say_what_to_set(module, message):
    network = from_flax(module)
    params = network.init(KEY, X)
    with pytest.raises(ValueError, match=message):
        network(params, X)
    for other in (network, as_network((module.init, module.apply))):
        with pytest.raises(ValueError, match=message):
            check_network(other, (5,))
    assert as_network(module) == as_network(module)  # one compiled program for one module


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ((PAIR[0], lambda p, x: x), r"one number per sample.*returned shape \(4, 5\)"),
        ((PAIR[0], lambda p, x: (x @ p["w"],)), "one number per sample.*shape None and type tuple"),
        ((PAIR[0], lambda p, x: x[:, 0] > 0), "one number per sample.*type bool"),
        ((PAIR[0], lambda p, x: x @ jnp.ones(7)), r"does not take samples of shape \(5,\)"),
        (from_flax(Nnx, frozen="nosuch"), "cannot freeze"),
    ],
)
def test_check_network_on_other_networks(network, message):
    with pytest.raises(ValueError, match=message):
        check_network(as_network(network), (5,))


def test_dtype_of_low_precision_networks():
    """Rounding in bfloat16, which depends on the size of a batch, is no mixing."""

    def low(p, x):
        h = jnp.tanh(x.astype(jnp.bfloat16) @ p["w"].astype(jnp.bfloat16))
        return h.astype(jnp.float32).sum(1)

    init = lambda key, x: {"w": jax.random.normal(key, (x.shape[1], 64))}  # noqa: E731
    check_network(as_network((init, low)), (50,))


@pytest.mark.parametrize(
    "activation", ["softmax", "log_softmax", "standardize", lambda u: u - u.mean()]
)
def test_activations_that_mix_units_are_refused(activation):
    """The two-layer route takes units one by one: softmax would be trained wrongly, in silence."""
    with pytest.raises(ValueError, match="mixes the units of a layer"):
        mlp(8, activation=activation)


def test_activations_that_fail_are_refused():
    with pytest.raises(ValueError, match="fails on an array"):
        mlp(8, activation="logsumexp")
    jax.jit(lambda x: mlp(8, activation=jnp.cos).init(jax.random.key(0), x))(jnp.ones((2, 3)))
