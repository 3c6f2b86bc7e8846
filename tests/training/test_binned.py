"""Bins that double, and the stream that fills them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax._lib.files import load_leaves, save_leaves
from ntkmmd_jax.measure import SignedMeasure, signed_measure
from ntkmmd_jax.networks import mlp
from ntkmmd_jax.training import binned, doubling
from ntkmmd_jax.witness import bin_gradients, exact_witness

NETWORK = mlp(8)
PARAMS = jax.jit(NETWORK.init)(jax.random.key(0), jnp.zeros((1, 3)))
X, Y = (np.random.default_rng(k).normal(size=(300, 3)).astype(np.float32) for k in (1, 2))
SMALL = {"bins": 8, "chunk": 2}  # keeps 8 points


def stream_of(x, y, *, size_x=30, size_y=20, **options):
    stream = binned.init(NETWORK, PARAMS, 3, **{**SMALL, **options})
    for i in range(max(-(-len(x) // size_x), -(-len(y) // size_y))):
        parts = x[i * size_x : (i + 1) * size_x], y[i * size_y : (i + 1) * size_y]
        stream = binned.step(stream, *(part if len(part) else None for part in parts))
    return stream


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("most", [4, 6, 10])
def test_bins_double(most):
    """The chunks as unit vectors: every sum is over neighbours, in order, none is lost."""
    rows, count, chunks = (), 0, np.eye(130, dtype=np.float32)
    for new in (1, 2, 5, 1, 40, 3, 17, 61):
        rows, count = doubling.pushed(rows, count, chunks[count : count + new], most)
        k = doubling.level(count, most)
        sizes = doubling.sizes(count, k)
        assert count <= most or most // 2 <= count >> k <= most
        assert len(rows) == doubling.length(count, most) == len(sizes)
        assert sum(sizes) == count
        starts = np.cumsum([0, *sizes])
        for row, start, size in zip(rows, starts, sizes, strict=False):
            np.testing.assert_array_equal(np.flatnonzero(row), np.arange(start, start + size))
    assert count == 130


def test_a_bin_is_one_tree_whenever_it_was_merged():
    """To the bit, by an order of additions written out."""
    chunks = np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32)
    tree = chunks
    while len(tree) > 2:
        tree = tree[::2] + tree[1::2]
    for news in ([16], [1] * 16, [3, 9, 4]):
        rows, count = (), 0
        for new in news:
            rows, count = doubling.pushed(rows, count, chunks[count : count + new], 4)
        merged = doubling.merged(zip(doubling.sizes(16, 2), rows, strict=True), 3)
        np.testing.assert_array_equal([row for _, row in merged], tree)


@pytest.mark.parametrize("sizes", [(1, 1), (8, 8), (9, 5), (37, 95), (300, 64), (17, 16), (1, 300)])
def test_bins_hold_the_gradients_of_their_points(sizes):
    n_x, n_y = sizes
    stream = stream_of(X[:n_x], Y[:n_y])
    assert (stream.n_x, stream.n_y) == sizes
    assert stream.is_short == (max(sizes) <= 8)
    bins, rows, rest = stream.in_bins()
    assert max(bins.x, bins.y) == max(sizes) // bins.size <= 8
    if max(sizes) > 8:
        assert max(bins.x, bins.y) >= 4
    cut = [z[: k * bins.size].reshape(k, bins.size, 3) for z, k in ((X, bins.x), (Y, bins.y))]
    expected = bin_gradients(NETWORK, PARAMS, jnp.concatenate(cut))
    np.testing.assert_allclose(np.reshape(rows, expected.shape), expected, rtol=1e-4, atol=1e-4)
    exact = exact_witness(NETWORK, PARAMS, signed_measure(X[:n_x], Y[:n_y]))
    left = jnp.concatenate([X[bins.x * bins.size : n_x], Y[bins.y * bins.size : n_y]])
    if len(left):
        measure = SignedMeasure(left, jnp.asarray(bins.rest, jnp.float32))
        v = jax.flatten_util.ravel_pytree(exact_witness(NETWORK, PARAMS, measure).velocity)[0]
        np.testing.assert_allclose(rest, v, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(stream.witness()(X), exact(X), rtol=1e-4, atol=1e-5)


def test_bins_of_the_same_points_are_the_same_numbers():
    """In a short stream and in a long one, at whatever place: rounding knows no labels."""
    points = np.concatenate([X[:64], X[:32], Y[:160]])  # the second 32 are the first again
    bins, rows, _ = stream_of(points, X[:40]).in_bins()
    assert (bins.size, bins.x, bins.y) == (32, 8, 1)
    np.testing.assert_array_equal(rows[0], rows[2])
    np.testing.assert_array_equal(rows[0], rows[8])


def test_any_batching_gives_the_same_state():
    whole = stream_of(X, Y, size_x=300, size_y=300)
    for size_x, size_y in ((1, 7), (8, 9), (64, 3)):
        assert_same(stream_of(X, Y, size_x=size_x, size_y=size_y), whole)


@pytest.mark.parametrize("seen", [0, 3, 100])
def test_resuming_gives_the_same_numbers(seen, tmp_path):
    path = stream_of(X[:seen], Y[: seen // 2]).save(tmp_path / "stream.npz")
    resumed = binned.load(path)
    assert resumed.network == NETWORK
    assert_same(resumed, stream_of(X[:seen], Y[: seen // 2]))
    assert_same(binned.step(resumed, X[seen:], Y[seen // 2 :]), stream_of(X, Y))


def test_memory_is_flat():
    """However long the stream, and whatever the batches: no view of a batch is kept."""
    stream = stream_of(X, Y, size_x=300)
    rows = 8 + 16  # full bins, and less than one for every doubling
    for side in (stream.x, stream.y):
        assert len(side.rows) <= rows
        assert len(side.points) <= stream.kept
        assert all(leaf.base is None or leaf.base.size <= 4 * leaf.size for leaf in side.rows)
        assert side.points.base is None


def test_bad_batches_leave_the_stream_alone():
    stream = stream_of(X[:20], Y[:20])
    before = dataclasses.replace(stream)
    for bad, message in [
        (np.full((3, 3), np.nan), "NaN or infinite"),
        (np.ones((3, 7)), r"samples of shape \(7,\); the stream's are \(3,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            binned.step(stream, X[:3], bad)
    assert_same(stream, before)
    with pytest.raises(ValueError, match="no sample of y has been seen"):
        stream_of(X, Y[:0]).witness()
    assert binned.step(stream).n_x == 20


def test_options_are_checked():
    for options, message in [
        ({"bins": 7}, "bins must be even"),
        ({"bins": 2}, "bins must be a whole number of at least 4"),
        ({"chunk": 0}, "chunk must be a whole number"),
    ]:
        with pytest.raises(ValueError, match=message):
            binned.init(NETWORK, PARAMS, 3, **options)


def test_a_stream_of_another_network_is_refused(tmp_path):
    path = stream_of(X, Y).save(tmp_path / "stream.npz")
    with pytest.raises(ValueError, match=r"is of a stream with network .*softplus.*relu"):
        binned.load(path, network=mlp(8, activation="relu"))


def test_files_that_lie_are_refused(tmp_path):
    path = stream_of(X, Y).save(tmp_path / "stream.npz")
    leaves, header = load_leaves(path, "BinnedStream")
    many = 10**12
    lies = [{"n_x": many}, {"n_y": 299}, {"n_x": -1}, {"n_x": "a"}, {"features": [many]}]
    lies += [{"bins": many, "n_x": many**2}, {"bins": 3}, {"chunk": 0}, {"chunk": None}]
    for lie in lies:
        bad = save_leaves(tmp_path / "bad.npz", leaves, kind="BinnedStream", **{**header, **lie})
        with pytest.raises(ValueError, match=r"bad\.npz"):
            binned.load(bad)
    for missing in header:
        known = {name: value for name, value in header.items() if name != missing}
        bad = save_leaves(tmp_path / "bad.npz", leaves, kind="BinnedStream", **known)
        with pytest.raises(ValueError, match=r"bad\.npz"):
            binned.load(bad)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="not a whole file of ours"):
        binned.load(path)
