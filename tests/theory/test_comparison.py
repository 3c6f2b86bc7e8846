import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.theory.convergence import fitted_slope
from ntkmmd_jax.witness import inner

TIMES = np.logspace(0, -5, 6)


@pytest.fixture(scope="module", params=[0, 1, 2])
def paper_setting(request):
    """The covariance shift in d = 100, two samples of 200, under several seeds."""
    return request.param, ntk.datasets.covariance_shift(
        jax.random.key(request.param), 200, 200, rho=0.12
    )


def test_softplus_has_order_one(paper_setting):
    """The paper fits 0.96; the proposition says 1. In float32, down to t = 1e-5."""
    seed, (x, y) = paper_setting
    c = ntk.compare(seed, x, y, network=ntk.mlp(512), times=TIMES)
    assert c.relative_error.dtype == np.float32
    assert 0.9 < c.order < 1.1
    assert c.relative_error[-1] < 1e-6
    np.testing.assert_allclose(c.t_net, c.t_ntk, rtol=5e-3)
    # Where the error is well above rounding, it is the difference of the two numbers.
    direct = np.abs(c.t_net - c.t_ntk) / np.abs(c.t_ntk)
    np.testing.assert_allclose(c.relative_error, direct, atol=1e-6)


def plain_errors(seed, x, y, network, times, batch_size):
    """The relative errors of plain SGD and plain differences in float64, from the same θ0."""
    k_init, k_train = jax.random.split(jax.random.key(seed))
    measure = ntk.signed_measure(x, y)
    params = network.init(k_init, measure.points[:1])
    batches = ntk.SGD(batch_size=batch_size).batches(k_train, measure.weights)

    def integral(f, theta, points, weights):
        return jnp.vdot(weights, f(theta, points))

    @jax.jit
    def errors(params, measure, weights, times):
        f, theta = network.trainable(params)
        at_start = integral(f, theta, measure.points, measure.weights)
        v = jax.grad(integral, 1)(f, theta, measure.points, measure.weights)
        t_ntk = inner(v, v)

        def step(at, batch):
            gradient = jax.grad(integral, 1)(f, at[0], measure.points[batch[0]], batch[1])
            return (jax.tree.map(lambda a, g: a + at[1] * g, at[0], gradient), at[1]), None

        def error(time):
            (end, _), _ = jax.lax.scan(step, (theta, time), (np.asarray(batches.indices), weights))
            gain = integral(f, end, measure.points, measure.weights) - at_start
            return jnp.abs(gain / time - t_ntk) / t_ntk

        return jax.lax.map(error, times)

    with jax.enable_x64(True):
        args = (params, measure, batches.weights, times)
        return errors(*jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), args))


@pytest.mark.parametrize(
    ("network", "batch_size"),
    [
        (ntk.mlp(64, activation="relu"), 1),
        (ntk.mlp((32, 32), activation="relu", initialization="he"), 7),
        (ntk.mlp(64, activation="leaky_relu"), 25),
    ],
    ids=["relu", "deep relu", "leaky relu"],
)
def test_kinks_are_seen(network, batch_size):
    """Not C²: the error is made by units that cross their kink, and 0 where none does."""
    x, y = ntk.datasets.covariance_shift(jax.random.key(1), 30, 20, rho=0.5, dim=5)
    c = ntk.compare(7, x, y, network=network, times=TIMES, batch_size=batch_size)
    expected = plain_errors(7, x, y, network, TIMES, batch_size)
    # In float64 the plain differences have 1e-16/t of rounding themselves.
    np.testing.assert_allclose(c.relative_error, expected, rtol=2e-3, atol=1e-9)
    assert (np.asarray(expected) > 1e-6).sum() >= 2


def test_the_papers_relu():
    """At t = 0.01 the error of seed 1 is 3.05e-7 in float64, and 0 below: no unit crosses."""
    x, y = ntk.datasets.covariance_shift(jax.random.key(1), 200, 200, rho=0.12)
    c = ntk.compare(1, x, y, network=ntk.mlp(512, activation="relu"), times=TIMES)
    expected = [1.168e-3, 5.272e-4, 3.05e-7, 0, 0, 0]
    np.testing.assert_allclose(c.relative_error, expected, rtol=0.03)


def test_error_against_float64():
    """The Taylor form of the difference against plain SGD in float64."""
    x, y = ntk.datasets.covariance_shift(jax.random.key(0), 30, 20, rho=0.5, dim=5)
    with jax.enable_x64(True):
        wide = ntk.compare(7, np.float64(x), np.float64(y), network=ntk.mlp(32), times=[1e-2, 1e-4])
        direct = np.abs(wide.t_net - wide.t_ntk) / np.abs(wide.t_ntk)
    np.testing.assert_allclose(wide.relative_error, direct, rtol=1e-6)


@pytest.mark.parametrize("options", [{"batch_size": None}, {"batch_size": 7}])
def test_batches(options):
    x, y = ntk.datasets.covariance_shift(jax.random.key(0), 30, 20, rho=0.5, dim=5)
    c = ntk.compare(7, x, y, network=ntk.mlp(32), **options)
    assert 0.9 < c.order < 1.1


def test_fitted_slope():
    times = np.float32([1, 0.1, 0.01])
    assert fitted_slope(times, 3 * times**0.7) == pytest.approx(0.7, abs=1e-5)
    errors = np.float32([1, 0.1, 0])
    assert fitted_slope(times, errors) == pytest.approx(1.0, abs=1e-5)


def test_repr_dict_and_plot(tmp_path):
    x, y = ntk.datasets.covariance_shift(jax.random.key(0), 30, 20, rho=0.5, dim=5)
    c = ntk.compare(7, x, y, network=ntk.mlp(32))
    assert "fitted order" in repr(c) and repr(c).count("\n") == 8
    assert set(c.to_dict()) == {"times", "t_net", "t_ntk", "relative_error", "order"}
    c.plot().figure.savefig(tmp_path / "c.png")


@pytest.mark.parametrize("times", [[0.0], [-1.0], [np.nan], []])
def test_bad_times_are_refused(times):
    with pytest.raises(ValueError, match="times must be positive and finite"):
        ntk.compare(0, np.ones((4, 2)), np.zeros((4, 2)), times=times)
