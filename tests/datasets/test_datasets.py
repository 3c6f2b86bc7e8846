"""The samplers: moments against their formulas, within Monte Carlo error."""

import jax
import numpy as np
import pytest

from ntkmmd_jax import datasets

KEY = jax.random.key(0)
N = 40_000
BAND = 4.7  # standard errors: of some hundred normal entries, one beyond it in 3,000 runs


def correlated(d, r):
    """The identity, but r between the first two coordinates."""
    covariance = np.eye(d)
    covariance[0, 1] = covariance[1, 0] = r
    return covariance


def mixture(d, first, second):
    """Mean and covariance of ½N(0, first) + ½N(½·1, second)."""
    return np.full(d, 0.25), (first + second) / 2 + np.full((d, d), 1 / 16)


def assert_moments(sample, mean, covariance):
    """Mean and covariance, each entry within BAND standard errors, estimated from the data."""
    z = np.asarray(sample, np.float64)
    n = len(z)
    assert np.all(np.abs(z.mean(0) - mean) < BAND * z.std(0) / np.sqrt(n))
    centred = z - mean
    products = np.einsum("ni,nj->nij", centred, centred)
    assert np.all(np.abs(products.mean(0) - covariance) < BAND * products.std(0) / np.sqrt(n))


def assert_uncorrelated(x, y):
    """x and y are drawn apart: no numbers serve both."""
    x, y = (np.asarray(z)[: N - 1] - np.mean(z, axis=0) for z in (x, y))
    r = x.T @ y / N / np.outer(x.std(0), y.std(0))
    assert np.all(np.abs(r) < BAND / np.sqrt(N))


def test_mean_shift():
    x, y = datasets.mean_shift(KEY, N, N - 1, delta=0.6, dim=4)
    assert (x.shape, y.shape) == ((N, 4), (N - 1, 4))
    assert_moments(x, np.zeros(4), np.eye(4))
    assert_moments(y, np.full(4, 0.3), np.eye(4))
    assert_uncorrelated(x, y)


def test_covariance_shift():
    x, y = datasets.covariance_shift(KEY, N, N - 1, rho=0.3, dim=4)
    assert (x.shape, y.shape) == ((N, 4), (N - 1, 4))
    assert_moments(x, np.zeros(4), np.eye(4))
    assert_moments(y, np.zeros(4), np.eye(4) + 0.3)
    assert_uncorrelated(x, y)


@pytest.mark.parametrize("example", [1, 2])
def test_gaussian_mixture(example):
    d = 10
    x, y = datasets.gaussian_mixture(KEY, N, N - 1, example=example)
    assert (x.shape, y.shape) == ((N, d), (N - 1, d))
    assert_moments(x, *mixture(d, np.eye(d), np.eye(d)))
    dense = np.eye(d) + 0.1 * (1 - np.eye(d))
    modes = {1: (correlated(d, 0.5), correlated(d, -0.5)), 2: (dense, dense)}[example]
    assert_moments(y, *mixture(d, *modes))
    assert_uncorrelated(x, y)


@pytest.mark.parametrize("example", [1, 2])
def test_the_modes_of_a_stratified_mixture(example):
    """Stratified points take the modes in turn, so that each mode can be checked by itself."""
    d = 5
    x, y = datasets.gaussian_mixture(KEY, N, N, example=example, dim=d, stratified=True)
    dense = np.eye(d) + 0.1 * (1 - np.eye(d))
    for mode, (mean, r) in enumerate([(0.0, 0.5), (0.5, -0.5)]):
        assert_moments(x[mode::2], np.full(d, mean), np.eye(d))
        assert_moments(y[mode::2], np.full(d, mean), correlated(d, r) if example == 1 else dense)


@pytest.mark.parametrize("stratified", [False, True])
def test_the_share_of_the_modes(stratified):
    """The mean of all d coordinates of a point is its mode's mean ± 1/√d; d = 2,500 tells them."""

    def share(key):
        x, _ = datasets.gaussian_mixture(key, 101, 2, dim=2500, stratified=stratified)
        return jax.numpy.sum(x.mean(1) > 0.25)

    shares = np.asarray(jax.jit(jax.vmap(share))(jax.random.split(KEY, 20)))
    if stratified:
        np.testing.assert_array_equal(shares, 50)
    else:
        # χ²(20) of binomial counts with variance 101/4 lies in (4.0, 55) but for 1 in 10,000.
        assert 4.0 < np.sum((shares - 50.5) ** 2) / 25.25 < 55


def test_errors_of_the_mixture():
    with pytest.raises(ValueError, match="example must be 1 or 2; got 3"):
        datasets.gaussian_mixture(KEY, 5, 5, example=3)
    with pytest.raises(ValueError, match="dim of at least 2; got 1"):
        datasets.gaussian_mixture(KEY, 5, 5, dim=1)


def test_mixture4():
    """Each of the four modes by itself: they are 40 standard deviations apart."""
    x, y = (np.asarray(z) for z in datasets.mixture4(KEY, N, N - 1, sigma=1.7))
    assert (x.shape, y.shape) == ((N, 2), (N - 1, 2))
    for sample, changed in ((x, 1.0), (y, 1.7)):
        for mode in np.ndindex(2, 2):
            sign = 2.0 * np.asarray(mode) - 1
            of_mode = sample[np.all(np.sign(sample) == sign, axis=1)]
            assert abs(len(of_mode) / N - 0.25) < BAND * np.sqrt(3 / 16 / N)
            deviation = changed if mode == (0, 0) else 1.0
            assert_moments(of_mode, 20 * sign, deviation**2 * np.eye(2))
    assert_uncorrelated(x, y)


@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_blobs(strength):
    """Each of the nine blobs by itself; the key fixes which point is in which."""
    x, y = datasets.blobs(KEY, N, N - 1, strength=strength)
    modes = np.asarray(jax.random.randint(jax.random.split(KEY, 3)[2], (2 * N - 1,), 0, 9))
    off = [-0.02, -0.022, -0.024, -0.026, 0, 0.02, 0.022, 0.024, 0.026]
    parts = (x, modes[:N], np.zeros(9)), (y, modes[N:], strength * np.asarray(off))
    for sample, mode, covariances in parts:
        for i, covariance in enumerate(covariances):
            assert abs(np.mean(mode == i) - 1 / 9) < BAND * np.sqrt(8 / 81 / N)
            wanted = np.array([[0.03, covariance], [covariance, 0.03]])
            assert_moments(sample[mode == i], [i // 3, i % 3], wanted)


@pytest.mark.parametrize(
    ("name", "point"),
    [("mixture4", {"sigma": 1.0}), ("blobs", {"strength": 0.0}),
     ("perturbed_uniform", {"amplitude": 0.0}), ("mnist_missing", {"digit": 3, "share": 0.0})],
)  # fmt: skip
def test_the_null_hypothesis_is_a_point_of_the_grid(name, point):
    """There p = q: the mean of x − y, over its standard error, is within BAND of 0."""
    options = {"data": "digits"} if name == "mnist_missing" else {}
    x, y = getattr(datasets, name)(KEY, 4000, 4000, **point, **options)
    x, y = (np.asarray(z, float).reshape(4000, -1) for z in (x, y))
    error = np.sqrt((x.var(0) + y.var(0)) / 4000)
    assert np.all(np.abs(x.mean(0) - y.mean(0)) <= BAND * error)
