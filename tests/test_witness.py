import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax import witness as witness_module
from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.networks import convnet, mlp
from ntkmmd_jax.training import SGD, trained_witness
from ntkmmd_jax.witness import Witness, exact_witness, inner, velocity

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def setting(shifted):
    network = mlp(64)
    measure = signed_measure(*shifted)
    return network, network.init(KEY, measure.points), measure


def test_exact_witness_is_the_kernel_witness(setting):
    network, params, measure = setting
    f, theta = network.trainable(params)
    jacobian = jax.vmap(lambda z: jax.grad(lambda t: f(t, z[None])[0])(theta))(measure.points)
    rows = np.concatenate(
        [np.asarray(leaf).reshape(len(measure.weights), -1) for leaf in jax.tree.leaves(jacobian)],
        axis=1,
    ).astype(np.float64)
    expected = rows @ rows.T @ np.asarray(measure.weights, np.float64)
    scores = exact_witness(network, params, measure)(measure.points)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def forget():
    """Drop the two programs that know `TILE`, and no other test's."""
    for program in (witness_module.velocity, witness_module._scores):
        program.clear_cache()


def test_blocks_change_nothing(setting, monkeypatch):
    network, params, measure = setting
    whole = exact_witness(network, params, measure)
    scores = whole(measure.points)
    monkeypatch.setattr(witness_module, "TILE", 33)
    forget()
    blocked = exact_witness(network, params, measure)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(blocked), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(blocked(measure.points), scores, rtol=1e-4, atol=1e-5)
    forget()


@pytest.mark.parametrize("time", [1.0, 0.1])
def test_quadrature_is_the_difference_quotient(setting, time):
    """Against the plain quotient in float64, where it does not cancel."""
    network, params, measure = setting
    witness = trained_witness(KEY, network, params, measure, SGD(learning_rate=time))
    theta = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), witness.params)["params"]
    v = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), witness.velocity)["params"]
    z = np.asarray(measure.points, np.float64)

    def f(t):
        w = theta["layer_1"]["kernel"] + t * v["layer_1"]["kernel"]
        b = theta["layer_1"]["bias"] + t * v["layer_1"]["bias"]
        return np.logaddexp(0, z @ w + b) @ theta["readout"]["kernel"]

    quotient = (f(time) - f(0.0)) / time
    scores = np.asarray(witness(measure.points))
    np.testing.assert_allclose(scores, quotient, atol=3e-6 * np.abs(quotient).max())


@pytest.mark.parametrize("time", [1e-3, 1e-5, 1e-8])
def test_small_times_do_not_cancel(setting, time):
    """The plain float32 quotient is off by half at 1e-5; ours stays within O(t) + rounding."""
    network, params, measure = setting
    exact = exact_witness(network, params, measure)(measure.points)
    trained = trained_witness(KEY, network, params, measure, SGD(learning_rate=time))
    error = jnp.max(jnp.abs(trained(measure.points) - exact)) / jnp.max(jnp.abs(exact))
    assert error < 0.05 * time + 3e-6


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (mlp(64, activation="relu"), (8,)),
        (mlp((32, 32, 32), activation="relu", initialization="he"), (8,)),
        (mlp(64, activation="leaky_relu"), (8,)),
        (convnet((3, 4), width=16), (17, 16)),
    ],
    ids=["relu", "deep relu", "leaky relu", "convnet"],
)
def test_kinks_are_crossed(network, shape):
    """Against the plain quotient in float64 at the same θ0 and v, from t = 1 to 1e-5.

    What is left is rounding: of a unit that crosses its kink, of its place on the way. Three
    Gauss–Legendre nodes are off by some percent.
    """
    rng = np.random.default_rng(1)
    points = 0.5 * np.maximum(rng.normal(size=(36, *shape)), 0).astype(np.float32)
    measure = signed_measure(points[:20], 1.4 * points[20:])
    params = network.init(KEY, measure.points)

    @jax.jit
    def plain(params, velocity, time, points):
        f, theta = network.trainable(params)
        moved = jax.tree.map(lambda leaf, v: leaf + time * v, theta, velocity)
        return (f(moved, points) - f(theta, points)) / time

    for time in (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        sgd = SGD(learning_rate=time, batch_size=6)
        witness = trained_witness(KEY, network, params, measure, sgd)
        scores = np.asarray(witness(measure.points), np.float64)
        with jax.enable_x64(True):
            args = (witness.params, witness.velocity, witness.time, measure.points)
            quotient = plain(*jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), args))
        np.testing.assert_allclose(scores, quotient, atol=1e-5 * np.abs(quotient).max())


def test_params_at_is_a_straight_line(setting):
    network, params, measure = setting
    witness = trained_witness(KEY, network, params, measure, SGD())
    half = witness.params_at(0.05)
    for name, leaf in half["params"]["layer_1"].items():
        start = params["params"]["layer_1"][name]
        v = witness.velocity["params"]["layer_1"][name]
        np.testing.assert_allclose(leaf, start + 0.05 * v, rtol=1e-6)
    np.testing.assert_array_equal(
        half["params"]["readout"]["kernel"], params["params"]["readout"]["kernel"]
    )


def test_velocity_is_linear_in_the_measure(setting):
    network, params, measure = setting
    v = velocity(network, params, measure)
    doubled = velocity(
        network,
        params,
        jax.tree.map(lambda a: a, measure).__class__(measure.points, 2 * measure.weights),
    )
    np.testing.assert_allclose(inner(v, doubled), 2 * inner(v, v), rtol=1e-5)


def test_wrong_points_are_refused(setting):
    network, params, measure = setting
    witness = exact_witness(network, params, measure)
    with pytest.raises(ValueError, match=r"takes points of shape \(n, 100\); got \(4, 7\)"):
        witness(np.ones((4, 7)))
    with pytest.raises(ValueError, match="real numbers"):
        witness(["a", "b"])


def test_blank_has_the_shapes(setting):
    network, params, measure = setting
    witness = exact_witness(network, params, measure)
    blank = Witness.blank(witness.describe())
    assert jax.tree.structure(blank) == jax.tree.structure(witness)
    assert [b.shape for b in jax.tree.leaves(blank)] == [a.shape for a in jax.tree.leaves(witness)]
