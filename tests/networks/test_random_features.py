"""Networks of random features: their tangent kernels are the kernels of the field."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.networks import rebuild


@pytest.fixture(scope="module")
def points():
    return jax.random.normal(jax.random.key(0), (12, 3))


def kernel(law, points, scale):
    gap = (points[:, None] - points) / scale
    if law == "gaussian":
        return jnp.exp(-0.5 * jnp.sum(gap**2, axis=-1))
    return jnp.exp(-jnp.sum(jnp.abs(gap), axis=-1))


@pytest.mark.parametrize("law", ["gaussian", "cauchy"])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_its_tangent_kernel(points, law, scale):
    """To 5 standard errors of 20,000 features, each product of cosines of variance at most 1."""
    network = ntk.fourier(20_000, law=law, scale=scale)
    params = network.init(jax.random.key(1), points)
    found = ntk.empirical_ntk(network, params, points)
    np.testing.assert_allclose(found, kernel(law, points, scale), atol=5 / 20_000**0.5)


def test_only_phases_are_trained(points):
    network = ntk.fourier(7)
    params = network.init(jax.random.key(0), points)
    leaves = jax.tree.leaves(network.trainable(params)[1])
    assert [leaf.shape for leaf in leaves] == [(7,)]


def test_saved_by_its_recipe():
    network = ntk.fourier(9, law="cauchy", scale=3)
    assert rebuild(network.recipe) is network


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"law": "normal"}, "unknown law 'normal'"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"width": 0}, "width must be a whole number"),
    ],
)
def test_bad_options(options, said):
    with pytest.raises(ValueError, match=said):
        ntk.fourier(**options)
