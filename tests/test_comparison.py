import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.comparison import fitted_order

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


def test_relu_is_reported_too(paper_setting):
    """Not C²: the paper fits 0.62 and finds errors of about 1e-3 at best."""
    seed, (x, y) = paper_setting
    c = ntk.compare(seed, x, y, network=ntk.mlp(512, activation="relu"), times=TIMES)
    assert 0 < c.order < 1.5
    assert c.relative_error[0] < 0.01


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


def test_fitted_order():
    times = np.float32([1, 0.1, 0.01])
    assert fitted_order(times, 3 * times**0.7) == pytest.approx(0.7, abs=1e-5)
    errors = np.float32([1, 0.1, 0])
    assert fitted_order(times, errors) == pytest.approx(1.0, abs=1e-5)


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
