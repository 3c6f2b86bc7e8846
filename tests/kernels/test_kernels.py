import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from ntkmmd_jax.kernels import empirical_ntk, infinite_ntk, ntk, two_layer_ntk
from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.networks import convnet, mlp
from ntkmmd_jax.training import SGD, trained_witness

KEY = jax.random.key(0)


def relative(a, b):
    return float(np.max(np.abs(a - b)) / np.max(np.abs(b)))


@pytest.mark.parametrize(
    ("activation", "train_readout", "initialization"),
    [
        ("softplus", False, "paper"),
        ("softplus", True, "paper"),
        ("relu", False, "ntk"),
        ("relu", True, "ntk"),
        ("tanh", False, "paper"),
        (jnp.sin, True, "ntk"),
    ],
)
def test_closed_form_is_the_empirical_kernel(shifted, activation, train_readout, initialization):
    x, y = shifted
    network = mlp(
        64, activation=activation, train_readout=train_readout, initialization=initialization
    )
    params = network.init(KEY, x)
    structured = empirical_ntk(network, params, x, y, implementation="structured")
    assert relative(two_layer_ntk(network, params, x, y), structured) < 1e-5
    if activation == "relu" and train_readout:
        assert relative(empirical_ntk(network, params, x, y), structured) < 1e-5


@pytest.mark.parametrize("scale", [1e-7, 1e-3, 1e3, 1e6])
def test_closed_form_at_every_scale(scale):
    """To float32 rounding of double precision, and so of structured derivatives."""
    x = scale * jax.random.normal(KEY, (12, 5))
    network = mlp(64, train_readout=True)
    params = network.init(KEY, x)
    kernel = empirical_ntk(network, params, x)
    layer, a, z = *params["params"].values(), np.float64(x)
    u = z @ np.float64(layer["kernel"]) + np.float64(layer["bias"])
    slope, value = np.float64(a["kernel"]) * expit(u), np.logaddexp(u, 0)
    expected = (1 + z @ z.T) * (slope @ slope.T) + value @ value.T
    assert relative(kernel, expected) < 2e-6
    assert relative(kernel, empirical_ntk(network, params, x, implementation=3)) < 2e-6
    np.testing.assert_array_equal(kernel, kernel.T)


def test_what_the_closed_form_is_taken_for(shifted, monkeypatch):
    """An mlp with one hidden layer; its activation acts on each unit alone, or is refused."""
    x = shifted[0][:3]
    taken = []
    monkeypatch.setattr(ntk, "_empirical_ntk", lambda *args: taken.append(args[4]))
    own = mlp(8, activation=jnp.cos)
    for network in (mlp(8), mlp(8, train_readout=True), own, mlp((8, 8))):
        empirical_ntk(network, network.init(KEY, x), x)
    assert taken == [ntk.CLOSED_FORM] * 3 + [ntk.STRUCTURED]


@pytest.mark.parametrize("kind", ["closed-form", "structured", "jacobian"])
def test_a_second_call_neither_traces_nor_compiles(kind, caplog):
    x = jax.random.normal(KEY, (6, 4))
    traces = []

    def apply(w, x):
        traces.append(kind)
        gate, value = jnp.split(x @ w, 2, axis=1) if kind == "jacobian" else (x @ w, x @ w)
        return jnp.sum(jax.nn.sigmoid(gate) * value, axis=1)

    network, params = (lambda key, x: None, apply), jnp.ones((4, 8))
    if kind == "closed-form":
        network = mlp(7)
        params = network.init(KEY, x)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with jax.log_compiles():
            empirical_ntk(network, params, x)
            seen = len(traces)
            assert caplog.records
            caplog.clear()
            empirical_ntk(network, params, x)
    assert len(traces) == seen and not caplog.records
    assert len(warned) == (2 if kind == "jacobian" else 0)  # the slow one says so each time


@pytest.mark.parametrize(
    ("network", "batch_sizes"),
    [(mlp(64), (1, 40, 100, 1000)), (mlp((32, 32), activation="relu"), (40,))],
    ids=["2", "3"],
)
def test_implementations_and_blocks_agree(shifted, network, batch_sizes):
    x, y = shifted
    params = network.init(KEY, x)
    kernel = empirical_ntk(network, params, x, y)
    assert kernel.shape == (130, 90)
    names = ["jacobian", "vector-products", "structured", 1, 2, 3]
    for implementation in names + ["closed-form", 4] * (network == mlp(64)):
        other = empirical_ntk(network, params, x, y, implementation=implementation)
        assert relative(other, kernel) < 1e-5
    for batch_size in batch_sizes:
        blocked = empirical_ntk(network, params, x, y, batch_size=batch_size)
        assert relative(blocked, kernel) < 1e-5
    symmetric = empirical_ntk(network, params, x)
    assert relative(symmetric, symmetric.T) < 1e-6


def test_images(images):
    x, y = images
    network = convnet((3, 4), width=16)
    params = network.init(KEY, x)
    structured = empirical_ntk(network, params, x, y)
    assert relative(empirical_ntk(network, params, x, y, implementation=1), structured) < 1e-5


def test_kernel_under_jit_and_over_replicas(shifted):
    x, y = shifted
    network = mlp(16)
    keys = jax.random.split(KEY, 3)
    many = jax.jit(jax.vmap(lambda k: empirical_ntk(network, network.init(k, x), x, y)))(keys)
    one = empirical_ntk(network, network.init(keys[1], x), x, y)
    assert relative(many[1], one) < 1e-5


def test_what_structured_derivatives_cannot_do_falls_back_and_says_so():
    def init(key, x):
        return jax.random.normal(key, (x.shape[1], 8))

    def apply(w, x):
        gate, value = jnp.split(x @ w, 2, axis=1)
        return jnp.sum(jax.nn.sigmoid(gate) * value, axis=1)

    x = jax.random.normal(KEY, (6, 4))
    w = init(KEY, x)
    with pytest.warns(UserWarning, match="structured derivatives cannot handle this network"):
        kernel = empirical_ntk((init, apply), w, x)
    rows = np.asarray(jax.vmap(lambda z: jax.grad(lambda w: apply(w, z[None])[0])(w))(x))
    rows = rows.reshape(6, -1)
    assert relative(kernel, rows @ rows.T) < 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empirical_ntk((init, apply), w, x, implementation="jacobian")


def test_kernel_at_a_trained_time(shifted):
    """K_t − K_0 = O(t), the paper's lemma."""
    x, y = shifted
    network, measure = mlp(64), signed_measure(*shifted)
    params = network.init(KEY, x)
    witness = trained_witness(KEY, network, params, measure, SGD(0.1))
    start = empirical_ntk(network, params, x, y)
    drifts = [
        relative(empirical_ntk(network, witness.params_at(t), x, y), start) for t in (0.1, 0.01)
    ]
    assert drifts[0] / drifts[1] == pytest.approx(10, rel=0.3)


def arc_cosine(x1, x2):
    """The infinite-width relu kernels of Cho & Saul: E[σσ] and E[σ'σ'] for w ~ N(0, I)."""
    norms = np.linalg.norm(x1, axis=1)[:, None] * np.linalg.norm(x2, axis=1)
    angle = np.arccos(np.clip(x1 @ x2.T / norms, -1, 1))
    value = norms * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    return value, (np.pi - angle) / (2 * np.pi)


def test_infinite_width_relu_is_the_arc_cosine_kernel():
    rng = np.random.default_rng(0)
    x1, x2 = rng.normal(size=(6, 5)), rng.normal(size=(4, 5))
    value, slope = arc_cosine(x1, x2)
    paper = infinite_ntk(mlp(8, activation="relu"), x1, x2)
    assert relative(paper, slope * (1 + x1 @ x2.T)) < 1e-5
    value, slope = arc_cosine(x1 / 5**0.5, x2 / 5**0.5)
    options = {"activation": "relu", "initialization": "ntk"}
    trained = infinite_ntk(mlp(8, train_readout=True, **options), x1, x2)
    assert relative(trained, slope * (1 + x1 @ x2.T / 5) + value) < 1e-5


@pytest.mark.parametrize(
    ("widths", "options"),
    [
        (4096, {}),
        (4096, {"initialization": "ntk", "train_readout": True}),
        ((1024, 1024), {"initialization": "ntk"}),
        ((1024, 1024), {"initialization": "ntk", "activation": "erf", "train_readout": True}),
    ],
)
def test_wide_networks_approach_the_infinite_width_kernel(widths, options):
    x = jax.random.normal(jax.random.key(1), (5, 4))
    network = mlp(widths, **options)
    keys = jax.random.split(KEY, 8)
    finite = jax.vmap(lambda k: empirical_ntk(network, network.init(k, x), x))(keys)
    spread = np.std(finite, axis=0).max() / np.sqrt(8)
    limit = infinite_ntk(network, x)
    # Monte Carlo error of the mean of 8, and the bias O(1/m) and 0.7 % of the quadrature.
    np.testing.assert_allclose(finite.mean(0), limit, rtol=0.02, atol=6 * spread)


def test_infinite_width_refuses_what_has_no_limit():
    x = np.ones((3, 2))
    for network in (mlp((8, 8)), mlp(8, train_readout=True), mlp(8, initialization="he")):
        with pytest.raises(ValueError, match="grows with the width"):
            infinite_ntk(network, x)
    with pytest.raises(ValueError, match="is for mlp"):
        infinite_ntk(convnet(), np.ones((3, 28, 28)))


def test_bad_calls_are_refused():
    network = mlp(8)
    params = network.init(KEY, jnp.ones((1, 2)))
    x = np.ones((3, 2))
    with pytest.raises(ValueError, match="unknown implementation 'fast'"):
        empirical_ntk(network, params, x, implementation="fast")
    with pytest.raises(ValueError, match="different features"):
        empirical_ntk(network, params, x, np.ones((3, 4)))
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 1"):
        empirical_ntk(network, params, x, batch_size=0)
    with pytest.raises(ValueError, match="one hidden layer"):
        two_layer_ntk(mlp((8, 8)), params, x)
    with pytest.raises(ValueError, match="one hidden layer"):
        empirical_ntk(mlp((8, 8)), params, x, implementation="closed-form")


@pytest.mark.parametrize("implementation", [ntk.STRUCTURED, ntk.CLOSED_FORM])
def test_large_kernels_stay_in_blocks(implementation):
    """The compiled program for n = 10,000 needs a few blocks beside the result, no Jacobian."""
    network = mlp(512)
    x = jax.ShapeDtypeStruct((10_000, 100), jnp.float32)
    params = jax.eval_shape(network.init, KEY, x)
    run = ntk._empirical_ntk.lower(params, x, x, network, implementation, None)
    temporary = run.compile().memory_analysis().temp_size_in_bytes
    result, jacobian = 4 * 10_000**2, 4 * 10_000 * 51_712
    assert temporary < 1.2 * result < jacobian
