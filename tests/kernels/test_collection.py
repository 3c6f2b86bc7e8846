"""The collection of kernels: distances and bandwidths against numpy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from ntkmmd_jax.kernels import collection_bandwidths, exponents, rates

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1,), (3,), (4, 5)])
def test_kernels_of_both_families(shape):
    x, y = (RNG.normal(size=(n, *shape)).astype(np.float32) + 100 for n in (20, 13))
    flat = x.reshape(20, -1).astype(float), y.reshape(13, -1).astype(float)
    bandwidths = jnp.asarray([[0.7, 2.0], [1.5, 9.0]])
    found = zip(exponents(jnp.asarray(x), jnp.asarray(y)), rates(bandwidths), strict=True)
    gaussian, laplace = ([np.exp(-r * e) for r in rate] for e, rate in found)
    for kernel, sigma in zip(gaussian, (0.7, 2.0), strict=True):
        expected = np.exp(-cdist(*flat, "sqeuclidean") / (2 * sigma**2))
        np.testing.assert_allclose(kernel, expected, atol=1e-5)
    for kernel, sigma in zip(laplace, (1.5, 9.0), strict=True):
        expected = np.exp(-np.sqrt(2) * cdist(*flat, "cityblock") / sigma)
        np.testing.assert_allclose(kernel, expected, atol=1e-5)


@pytest.mark.parametrize("geometric", [False, True])
def test_bandwidths_span_the_quantiles(geometric):
    z = RNG.normal(size=(80, 3)).astype(np.float32)
    z[:20] = z[20:40]  # 20 pairs coincide, which say nothing of a scale
    found = collection_bandwidths(jnp.asarray(z), 5, geometric=geometric)
    for sigmas, metric in zip(found, ("euclidean", "cityblock"), strict=True):
        apart = np.sort([r for r in pdist(z.astype(float), metric) if r > 0])
        low, high = (apart[int(q * len(apart))] for q in (0.05, 0.95))
        spaced = np.geomspace if geometric else np.linspace
        np.testing.assert_allclose(sigmas, spaced(low / 2, 2 * high, 5), rtol=1e-5)


def test_bandwidths_of_one_point_are_positive():
    found = collection_bandwidths(jnp.full((9, 2), 3.0), 4, geometric=True)
    np.testing.assert_array_equal(found, 1)


def test_bandwidths_scale_with_the_points():
    z = jax.random.normal(jax.random.key(0), (40, 2))
    one, other = (collection_bandwidths(c * z, 6, geometric=False) for c in (1.0, 1e-6))
    np.testing.assert_allclose(1e-6 * one, other, rtol=1e-5)
