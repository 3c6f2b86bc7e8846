"""The Gram matrix of bins, by every route, against sums over the kernel matrix in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import calibration
from ntkmmd_jax.bins import Bins, cut_into_bins
from ntkmmd_jax.kernels import bin_gram, bins
from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.witness import exact_witness

NETWORKS = {
    "two layers": ntk.mlp(16),
    "trained readout": ntk.mlp(16, train_readout=True),
    "three layers": ntk.mlp((8, 8)),
    "fourier": ntk.fourier(32),
}
ROUTES = {"kernel": (True, 2**27), "gradients": (False, 2**27), "tiles": (False, 400)}


@pytest.fixture(scope="module")
def points():
    """Off the origin, where centring counts."""
    return 3 + jax.random.normal(jax.random.key(0), (57, 3))


def summed(kernel, cut):
    """Σ over bins and the weighted rest, row by row."""
    sums = np.zeros((len(cut) + 1, len(kernel)))
    for k in range(len(cut)):
        sums[k, k * cut.size : (k + 1) * cut.size] = 1
    sums[-1, len(cut) * cut.size :] = cut.rest
    return sums @ np.asarray(kernel, np.float64) @ sums.T


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("route", ROUTES)
def test_every_labelling(points, monkeypatch, name, route):
    """wᵀ G w of a bin-wise labelling, to float32 rounding of centred sums."""
    if route == "kernel" and name != "two layers":
        pytest.skip("the closed form is for two layers")
    cheaper, floats = ROUTES[route]
    monkeypatch.setattr(bins, "_kernel_is_cheaper", lambda *_: cheaper)
    monkeypatch.setattr(bins, "_FLOATS", floats)
    network, cut = NETWORKS[name], cut_into_bins(30, 27, 12)
    assert len(cut.rest) == 5
    params = network.init(jax.random.key(1), points)
    expected = summed(ntk.empirical_ntk(network, params, points), cut)
    found = np.asarray(bin_gram(network, params, points, cut), np.float64)
    relabelling = calibration.relabel(jax.random.key(2), 30, 27, 50, bins=cut)
    weights = np.asarray(relabelling.weights, np.float64)
    theirs, ours = (np.einsum("bk,kl,bl->b", weights, g, weights) for g in (expected, found))
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5 * theirs.max())


def test_the_observed_statistic_is_that_of_all_data(points):
    """|v|² of the exact witness, remainder included, and unbiased the mean over pairs of bins."""
    network, x, y = ntk.mlp(16), points[:30], points[30:] + 0.5
    found = ntk.NTKMMD(network, train_fraction=None, bins=12)(5, x, y)
    v = found.witness.velocity
    norm = jax.tree.reduce(jnp.add, jax.tree.map(lambda leaf: jnp.sum(leaf**2), v))
    np.testing.assert_allclose(found.statistic, norm, rtol=1e-4)
    same = exact_witness(network, found.witness.params, signed_measure(x, y))
    np.testing.assert_allclose(found.witness(points), same(points), rtol=1e-5)


def test_unbiased_bins(points):
    """Against a double loop over bins; its mean over all labellings of bins is near 0."""
    network, cut = ntk.mlp(16), Bins(28, 28, 7, 4, 4)
    params = network.init(jax.random.key(1), points)
    relabelling = calibration.relabel(jax.random.key(2), 28, 28, 200, bins=cut)
    gram = bin_gram(network, params, points[:56], cut)
    found = calibration.gram_null(relabelling, gram, unbiased=True).values
    blocks = summed(ntk.empirical_ntk(network, params, points[:56]), cut)[:-1, :-1] / 49
    for labels, value in zip(relabelling.labels[:20], found[:20], strict=True):
        x, y = np.flatnonzero(labels), np.flatnonzero(~labels)
        within = sum(blocks[i, j] for s in (x, y) for i in s for j in s if i != j) / 12
        across = sum(blocks[i, j] for i in x for j in y) / 8
        np.testing.assert_allclose(value, within - across, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(
    ("n_x", "n_y", "wanted"),
    [
        *[(200, 200, 64), (7, 9, 8), (20, 100, 64), (20, 100_000, 256), (50, 30, 64), (1, 1, 4)],
        *[(123, 457, 100), (2, 1000, 64), (3000, 2999, 500)],
    ],
)
def test_bins_of_any_sizes(n_x, n_y, wanted):
    """No more points in bins than there are, the rest with its weights, and not too many bins."""
    cut = cut_into_bins(n_x, n_y, wanted)
    assert 1 <= cut.x * cut.size <= n_x and 1 <= cut.y * cut.size <= n_y
    assert len(cut) <= 2 * wanted and len(cut) * cut.size + len(cut.rest) == n_x + n_y
    mass = cut.size * (cut.x / n_x - cut.y / n_y) + cut.rest.sum()
    np.testing.assert_allclose(mass, 0, atol=1e-12)
    assert min(cut.x, cut.y) >= min(n_x, n_y, wanted // 8)


def test_one_bin_a_point_is_the_test_without_bins(points):
    x, y = points[:30], points[30:]
    without = ntk.NTKMMD(ntk.mlp(16), train_fraction=None)(3, x, y)
    with_bins = ntk.NTKMMD(ntk.mlp(16), train_fraction=None, bins=1000)(3, x, y)
    np.testing.assert_array_equal(without.null, with_bins.null)


def test_bad_numbers_of_bins():
    with pytest.raises(ValueError, match="bins must be a whole number of at least 4; got 2"):
        ntk.NTKMMD(train_fraction=None, bins=2)
    with pytest.raises(ValueError, match="bins are for a test without a split"):
        ntk.NTKMMD(bins=64)
    with pytest.raises(ValueError, match="2 \\+ 2 bins of 5"):
        ntk.NTKMMD(train_fraction=None, bins=4)(0, np.ones((10, 2)), np.ones((10, 2)))
