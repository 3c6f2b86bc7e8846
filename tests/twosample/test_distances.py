"""Distances of two samples: against sums over pairs and closed forms, blocks, and bad input."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.kernels import GaussianKernel, PolynomialKernel, polynomial_kernel
from ntkmmd_jax.twosample import distances
from tests.conftest import LONG, binomial_band

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)), RNG.normal(size=(30, 3)) * 1.5 + 0.5
NET = ntk.mlp(16)


def pairs(kernel, x, y):
    """The unbiased MMD² as its three sums."""
    xx, yy, xy = (np.asarray(kernel(a, b), np.float64) for a, b in ((x, x), (y, y), (x, y)))
    within = [(k.sum() - np.trace(k)) / (len(k) * (len(k) - 1)) for k in (xx, yy)]
    return sum(within) - 2 * xy.mean()


def linear(x1, x2):
    return x1 @ x2.T


@pytest.mark.parametrize("kernel", ["gaussian", "polynomial", linear, None])
def test_value_is_the_sum_over_pairs(kernel):
    found = ntk.distance(X, Y, kernel=kernel, network=NET if kernel is None else None, key=3)
    x, y = X, Y
    if kernel is None:
        x, y = (X - X.mean(0)) / X.std(0), (Y - X.mean(0)) / X.std(0)  # by x alone
        params = NET.init(jax.random.split(jax.random.key(3), 3)[0], jnp.ones((1, 3)))
        kernel = lambda x1, x2: ntk.empirical_ntk(NET, params, x1, x2)  # noqa: E731
    elif kernel == "gaussian":
        gaps = np.linalg.norm(X[:, None] - X, axis=-1)[np.triu_indices(40, 1)]
        kernel = GaussianKernel(np.median(gaps))
    elif kernel == "polynomial":
        kernel = lambda x1, x2: (1 + x1 @ x2.T / 3) ** 3  # noqa: E731
    np.testing.assert_allclose(found.value, pairs(kernel, x, y), rtol=2e-4)
    low, high = found.interval
    assert 0 <= low < found.value < high and found.error > 0
    assert found.mmd == pytest.approx(found.value**0.5)
    assert json.loads(json.dumps(found.to_dict()))["interval"] == [low, high]
    assert repr(found).startswith("MMD² = ") and "n = 40 + 30" in repr(found)


def test_several_models_are_in_the_units_of_the_reference():
    one, other = (ntk.distance(X, y, kernel="gaussian") for y in (Y, Y[:20] * 100))
    assert one.kernel == other.kernel  # the width is that of X
    assert ntk.distance(Y, X, kernel="gaussian").kernel != one.kernel
    same = [ntk.distance(X, Y, network=NET, key=key).value for key in (0, 0, 1)]
    assert same[0] == same[1] != same[2]


def truth(shift, width, dim):
    """MMD² of N(0, I) and N(shift, I), |shift| given, with a Gaussian kernel."""
    wide = width**2 + 2
    return 2 * (width**2 / wide) ** (dim / 2) * (1 - np.exp(-(shift**2) / (2 * wide)))


@pytest.mark.parametrize("blocks", [1, 4])
def test_error_and_interval(blocks):
    """At p = q the interval is safe; away from it, right: and no bias at either, to 4 errors."""
    runs, kernel = 400, GaussianKernel(2.0)

    def replica(key, shift):
        k_data, k_blocks = jax.random.split(key)
        z = jax.random.normal(k_data, (160, 2))
        found = distances._estimate(k_blocks, kernel, z[:80], z[80:] + shift, blocks)
        return found.mmd2, found.error, *found.interval(0.1)

    def run(keys, shift):
        return jax.lax.map(lambda key: replica(key, shift), keys, batch_size=20)

    keys = jax.random.split(jax.random.key(1), runs)
    for shift, least in ((0.0, 0.9), (0.7, 0.9)):
        found = jax.jit(run, compiler_options=LONG)(keys, shift)
        value, error, low, high = map(np.asarray, found)
        true = truth(shift * np.sqrt(2), 2.0, 2)
        assert abs(value.mean() - true) < 4 * value.std() / np.sqrt(runs)
        covered = np.mean((low <= true) & (true <= high))
        assert covered > least - binomial_band(0.1, runs)
        if shift:
            assert 0.85 < np.sqrt(np.mean(error**2)) / value.std() < 1.3


def test_blocks_are_drawn_at_random():
    """Of samples that are sorted, blocks in order would be of other laws, and far apart."""
    x, y = (
        np.sort(RNG.normal(size=(400, 1)), axis=0),
        np.sort(RNG.normal(size=(300, 1)), axis=0)[::-1],
    )
    found = ntk.distance(x, y, kernel="gaussian", block=50)
    assert found.blocks == 8 and abs(found.value) < 4 * found.error < 0.1
    assert ntk.distance(x, y, kernel="gaussian", block=1000).blocks == 1


def test_polynomial_kernel():
    x1, x2 = X.astype(np.float32), Y.reshape(30, 3, 1).astype(np.float32)
    expected = (1 + x1 @ x2[..., 0].T / 3) ** 2
    np.testing.assert_allclose(polynomial_kernel(x1, x2, 2), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(PolynomialKernel(2)(x1, x2), polynomial_kernel(x1, x2, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ntk.distance(X, Y[:3]), "needs 4 samples of each; got 40 and 3"),
        (lambda: ntk.distance(X, Y[:, :2]), "different features"),
        (lambda: ntk.distance(X, np.full((5, 3), np.nan)), "y has NaN"),
        (lambda: ntk.distance(X, Y, level=1.0), r"level must lie in \(0, 1\); got 1.0"),
        (lambda: ntk.distance(X, Y, kernel="rbf"), "one of .*'gaussian'.*; got 'rbf'"),
        (lambda: ntk.distance(X, Y, kernel="gaussian", network=NET), "a kernel or a network"),
        (lambda: ntk.distance(X, Y[:9], block=5), "8 blocks of 5 leave fewer than 4"),
        (lambda: ntk.distance(X, Y, block=2), "block must be a whole number of at least 4; got 2"),
        (lambda: PolynomialKernel(0), "degree must be a whole number"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
