"""The streamed test without a split, against the test in memory and float64 kernel matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import binned, calibration, datasets
from ntkmmd_jax.twosample.binned import bins_of
from tests.conftest import binomial_band

NETWORK = ntk.mlp(16)


def batches(x, y, size_x=30, size_y=20):
    for i in range(max(-(-len(x) // size_x), -(-len(y) // size_y))):
        parts = x[i * size_x : (i + 1) * size_x], y[i * size_y : (i + 1) * size_y]
        yield tuple(part if len(part) else None for part in parts)


def samples(n_x, n_y, shift=0.0, seed=0, dim=3):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n_x, dim)), rng.normal(size=(n_y, dim)) + shift
    return x.astype(np.float32), y.astype(np.float32)


def stream_of(x, y, *, network=NETWORK, **options):
    params = network.init(jax.random.key(5), x[:1])
    start = binned.init(network, params, x.shape[1:], **options)
    return binned.accumulate(start, batches(x, y))


def assert_same(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("sizes", [(20, 20), (37, 95), (900, 700)])
def test_a_short_stream_is_the_test_in_memory(sizes):
    """The same points, θ0 and labellings, in another program: equal to float rounding."""
    x, y = samples(*sizes, shift=0.3)
    found = ntk.streamed_test(3, NETWORK, batches(x, y))
    whole = ntk.NTKMMD(network=NETWORK, train_fraction=None)(3, x, y).concrete()
    assert (found.statistic, found.pvalue, found.threshold) == pytest.approx(
        (whole.statistic, whole.pvalue, whole.threshold), rel=1e-5
    )
    np.testing.assert_allclose(found.null, whole.null, rtol=1e-4)
    np.testing.assert_allclose(found.witness(x), whole.witness(x), rtol=1e-4, atol=1e-5)
    assert (found.method, found.n_x, found.n_y) == ("ntk-symmetric", *sizes)


@pytest.mark.parametrize("sizes", [(37, 95), (300, 64), (128, 128)])
def test_the_statistic_is_that_of_all_points(sizes):
    """|v|² of the exact witness, and w K w in float64, rest and all; the null law likewise."""
    x, y = samples(*sizes, shift=0.5)
    stream = stream_of(x, y, bins=16, chunk=2)
    found = ntk.streamed_test(1, stream)
    velocity = jax.flatten_util.ravel_pytree(found.witness.velocity)[0]
    assert found.statistic == pytest.approx(float(velocity @ velocity), rel=1e-4)

    points = np.concatenate([x, y])
    kernel = np.asarray(ntk.empirical_ntk(NETWORK, stream.params, points), np.float64)
    weights = np.repeat([1 / len(x), -1 / len(y)], sizes)
    assert found.statistic == pytest.approx(weights @ kernel @ weights, rel=1e-4)

    bins, _, _ = stream.in_bins()
    key = ntk.NTKMMD(train_fraction=None).keys(jax.random.key(1)).null
    relabelling = calibration.relabel_bins(key, bins, 400)
    blocks = [np.arange(bins.size) + k * bins.size for k in range(bins.x)]
    blocks += [len(x) + np.arange(bins.size) + k * bins.size for k in range(bins.y)]
    null = []
    for labels in np.asarray(relabelling.labels):
        w = weights.copy()
        for label, k in zip(labels, np.asarray(relabelling.order), strict=True):
            w[blocks[k]] = 1 / len(x) if label else -1 / len(y)
        null.append(w @ kernel @ w)
    null = np.delete(null, int(relabelling.observed))
    np.testing.assert_allclose(found.null, null, rtol=1e-3, atol=1e-4 * null.max())


def test_it_agrees_with_the_test_in_memory_by_bins():
    x, y = samples(400, 300, shift=0.15)
    stream = stream_of(x, y, bins=32, chunk=4)
    found = ntk.streamed_test(1, stream)
    test = ntk.NTKMMD(network=NETWORK, train_fraction=None, bins=32)
    at_same = test.statistic(jax.random.key(0), stream.params, jnp.asarray(x), jnp.asarray(y))
    assert found.statistic == pytest.approx(float(at_same), rel=1e-4)


def test_streams_that_differ_are_told_apart_and_resumed_to_the_bit(tmp_path):
    x, y = map(np.asarray, datasets.covariance_shift(jax.random.key(2), 700, 500, rho=0.12))
    stream = stream_of(x, y, bins=32, chunk=4)
    found = ntk.streamed_test(1, stream)
    assert found.reject
    parts = list(batches(x, y))
    begun = binned.init(NETWORK, stream.params, 100, bins=32, chunk=4)
    begun = binned.accumulate(begun, parts[:11])
    resumed = binned.load(begun.save(tmp_path / "stream.npz"))
    assert_same(ntk.streamed_test(1, resumed, parts[11:]), found)


@pytest.mark.parametrize("sizes", [(37, 95), (64, 64)])
def test_level(sizes):
    """Under H0, fresh data and θ0 each time; bins that no size divides."""
    n_runs, (n_x, n_y) = 2000, sizes
    network = ntk.mlp(4)
    init = jax.jit(lambda key: network.init(key, jnp.zeros((1, 2))))
    z = np.random.default_rng(3).normal(size=(n_runs, n_x + n_y, 2)).astype(np.float32)
    rejected = 0
    for i in range(n_runs):
        start = binned.init(network, init(jax.random.key(i)), 2, bins=16, chunk=2)
        stream = binned.step(start, z[i, :n_x], z[i, n_x:])
        found = ntk.streamed_test(n_runs + i, stream, n_permutations=99)
        rejected += found.reject
    assert abs(rejected / n_runs - 0.05) < binomial_band(0.05, n_runs)


def test_labels_do_not_show_in_rounding():
    """At a scale of 1e-7 kernels are constant but for rounding: still the level is kept."""
    n_runs, network = 600, ntk.mlp(4)
    params = network.init(jax.random.key(0), jnp.zeros((1, 2)))
    start = binned.init(network, params, 2, bins=16, chunk=2)
    z = 1e-7 * np.random.default_rng(4).normal(size=(n_runs, 132, 2)).astype(np.float32)
    tested = []
    for i in range(n_runs):
        stream = binned.step(start, z[i, :37], z[i, 37:])
        tested.append(ntk.streamed_test(i, stream, n_permutations=99).reject)
    assert np.mean(tested) < 0.05 + binomial_band(0.05, n_runs)


def test_too_few_bins_say_how_many_points_would_do():
    x, y = samples(20, 2000)
    with pytest.raises(ValueError, match=r"20 \+ 2000 points, 0 \+ \d+ bins of 128.* take 256 poi"):
        ntk.streamed_test(0, stream_of(x, y, bins=16, chunk=2))
    x, y = samples(256, 2000)
    assert 0 < ntk.streamed_test(0, stream_of(x, y, bins=16, chunk=2)).pvalue <= 1
    with pytest.raises(ValueError, match="begin the stream with more than 4 bins"):
        ntk.streamed_test(0, stream_of(x, y, bins=4, chunk=2))
    with pytest.raises(ValueError, match="3 \\+ 3 points can be relabelled"):
        ntk.streamed_test(0, NETWORK, [samples(3, 3)])


def test_what_is_missing_is_said():
    x, y = samples(30, 30)
    with pytest.raises(ValueError, match="no sample of y has been seen"):
        ntk.streamed_test(0, NETWORK, [(x, None)])
    with pytest.raises(ValueError, match="neither x nor y"):
        ntk.streamed_test(0, NETWORK, [])
    witness = stream_of(x, y).witness()
    with pytest.raises(ValueError, match="batches that it was not trained on"):
        ntk.streamed_test(0, witness)
    with pytest.warns(UserWarning, match="rejects no labelling"):
        ntk.streamed_test(0, NETWORK, [(np.ones((30, 2)), np.ones((30, 2)))])


def test_held_out_scores_of_many_points_are_labelled_by_bins():
    """T is the mean gap, the null law that of the mean gap of as many points; no pool of n."""
    x, y = samples(2100, 1501, shift=0.05)
    witness = stream_of(*samples(100, 100, shift=0.3, seed=1)).witness()
    found = ntk.streamed_test(1, witness, [(x, y)])
    gx, gy = np.asarray(witness(x), np.float64), np.asarray(witness(y), np.float64)
    assert found.statistic == pytest.approx(gx.mean() - gy.mean(), rel=1e-4)
    error = np.concatenate([gx, gy]).std() * np.sqrt(1 / 2100 + 1 / 1501)
    assert found.null.std() == pytest.approx(error, rel=4 / np.sqrt(2 * 400))  # 4 standard errors
    assert abs(found.null.mean()) < 4 * error / np.sqrt(400)


def test_scores_by_bins_have_their_level():
    bins = bins_of(70, 61, 16)
    assert bins is not None

    def rejects(key):
        k_scores, k_null = jax.random.split(key)
        relabelling = calibration.relabel(k_null, 70, 61, 99, bins=bins)
        scores = relabelling.placed(jax.random.normal(k_scores, (131,)))
        null = calibration.score_null(relabelling, scores)
        values = null.values[relabelling.observed], relabelling.null(null.values)
        return calibration.pvalue(*values, null.tolerance) <= 0.05

    rate = float(jax.vmap(rejects)(jax.random.split(jax.random.key(0), 4000)).mean())
    assert abs(rate - 0.05) < binomial_band(0.05, 4000)
