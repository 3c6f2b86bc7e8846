"""Samples in buckets: the test of the points that there are, whatever stands behind them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import pooled
from ntkmmd_jax._lib import padding
from ntkmmd_jax.bins import cut_in_bucket, cut_into_bins
from ntkmmd_jax.twosample import shipped_test
from ntkmmd_jax.twosample.binned import bins_pad
from tests.conftest import compiled_tests

KEY = jax.random.key(1)
SIZES = ((40, 61), (66, 59), (31, 77), (5, 9))  # the first three in one bucket of 128
NET = ntk.networks.mlp((32,))
FUSED = shipped_test("ntk-fuse")
TESTS = {
    "net": shipped_test("net", network=NET),
    "net, batches": shipped_test("net", network=NET, batch_size=7, epochs=2),
    "net, full": shipped_test("net", network=NET, calibration="full", n_permutations=39),
    "ntk": shipped_test("ntk", network=NET),
    "ntk, a third": shipped_test("ntk", network=NET, train_fraction=(1 / 3, 0.7)),
    "ntk-full": shipped_test("ntk-full", network=NET),
    "ntk-symmetric": shipped_test("ntk-symmetric", network=NET),
    "ntk-symmetric, unbiased": shipped_test("ntk-symmetric", network=NET, unbiased=True),
    "mmd-fuse": shipped_test("mmd-fuse"),
    "mmd-agg": shipped_test("mmd-agg", n_permutations=99),
    "c2st-l": shipped_test("c2st-l", network=NET, epochs=2, batch_size=16),
    "c2st-s": shipped_test("c2st-s", network=NET, epochs=2),
    "gmmd": shipped_test("gmmd"),
    "gmmd, asymptotic": shipped_test("gmmd", calibration="asymptotic"),
    "gmmd-lin": shipped_test("gmmd-lin"),
    "gmmd-lin, normal": shipped_test("gmmd-lin", calibration="normal"),
    "bet": shipped_test("bet", network=NET),
    "hotelling": shipped_test("hotelling"),
    "hotelling, shrunk": shipped_test("hotelling", shrinkage=0.1, n_permutations=99),
    "me": shipped_test("me", steps=5, n_permutations=99),
    "me, asymptotic": shipped_test("me", steps=5, calibration="asymptotic", n_locations=2),
    "scf": shipped_test("scf", steps=5, n_permutations=99),
    "ntk, normal": shipped_test("ntk", network=NET, calibration="normal"),
    "ntk, asymptotic": shipped_test("ntk-symmetric", network=NET, calibration="asymptotic"),
    "c2st-l, normal": shipped_test("c2st-l", network=NET, epochs=2, calibration="normal"),
    "gmmd, unbiased": shipped_test("gmmd", unbiased=True, bandwidth=(0.5, 2.0)),
}


def drawn(n_x, n_y):
    rng = np.random.default_rng(n_x)
    return rng.normal(size=(n_x, 3)), 0.3 + 1.2 * rng.normal(size=(n_y, 3))


@pytest.mark.filterwarnings("ignore:.*is a limit law")
@pytest.mark.parametrize("name", TESTS)
def test_the_same_answer_as_without_padding(name):
    for sizes in SIZES if name in ("net", "ntk", "gmmd") else SIZES[:1]:
        assert_same(TESTS[name], *drawn(*sizes), tolerance=2e-5)


def test_the_same_answer_with_bins():
    """Beyond 1,024 points, unless one sample is so small that bins are."""
    test = TESTS["ntk-symmetric"]
    assert test.pads(600, 679) and test.pads(900, 130) and not test.pads(950, 100)
    assert_same(test, *drawn(600, 679), tolerance=2e-5)


@pytest.mark.parametrize("n", [1025, 1279, 1280, 1792, 1793, 5000, 16_384])
def test_bins_in_a_bucket_are_those_of_the_points(n):
    places = padding.bucket(n)
    assert (
        padding.bucket(padding.least(places)) == places > padding.bucket(padding.least(places) - 1)
    )
    for n_x in (n // 2, n // 4 + 1, n - n // 7):
        exact = cut_into_bins(n_x, n - n_x, 256)
        sizes = (jnp.asarray(n_x), jnp.asarray(n - n_x))
        found = cut_in_bucket(*sizes, 256, padding.least(places), places)
        assert bins_pad(n_x, n - n_x)
        assert (int(found.size), int(found.x), int(found.y)) == (exact.size, exact.x, exact.y)
        assert len(exact) <= found.room and exact.size <= found.most
        assert (len(exact) + 1) * exact.size > n - exact.size
        rest = np.asarray(found.rest)
        np.testing.assert_allclose(rest[: len(exact.rest)], exact.rest, rtol=1e-6)
        assert not rest[len(exact.rest) :].any()
        row = np.arange(found.room) < exact.x
        labels = np.asarray(found.spread(jnp.asarray(row), places))
        expected = exact.spread(jnp.asarray(row[: len(exact)]), n)
        np.testing.assert_array_equal(labels[:n], expected)
        assert labels.sum() == n_x


def test_the_same_answer_of_the_default_but_for_rounding():
    """Its long training times see rounding in float32 (see `kernels.filtered`), and none in 64."""
    test = FUSED
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        for sizes in (SIZES[0], SIZES[-1]):
            assert_same(test, *drawn(*sizes), tolerance=1e-6)
    x, y = drawn(*SIZES[0])
    plain, padded = test(KEY, x, y), test.in_bucket(KEY, x, y)
    np.testing.assert_allclose(padded.null, plain.null, atol=0.05)  # of standard deviations
    assert abs(padded.pvalue - plain.pvalue) <= 0.01


def assert_same(test, x, y, *, tolerance):
    plain, padded = test(KEY, x, y), test.in_bucket(KEY, x, y)
    assert (padded.n_x, padded.n_y) == (len(x), len(y))
    if plain.wealth is not None:
        logs = np.asarray(plain.wealth.logs)
        np.testing.assert_allclose(padded.wealth.logs, logs, rtol=0, atol=50 * tolerance)
        assert padded.wealth.stop == plain.wealth.stop
    scale = tolerance * np.max(np.abs(plain.null), initial=abs(plain.statistic))
    np.testing.assert_allclose(padded.null, plain.null, rtol=0, atol=scale)
    np.testing.assert_allclose(padded.statistic, plain.statistic, rtol=0, atol=scale)
    if len(plain.null):
        assert padded.pvalue == plain.pvalue
    else:  # of a law, which sees the rounding of the statistic
        np.testing.assert_allclose(padded.pvalue, plain.pvalue, rtol=20 * tolerance)
        np.testing.assert_allclose(padded.threshold, plain.threshold, rtol=5 * tolerance)
    if plain.witness is None:
        return
    points = np.concatenate([x, y])
    expected = plain.witness(points)
    scale = 5 * tolerance * np.max(np.abs(expected))
    np.testing.assert_allclose(padded.witness(points), expected, rtol=0, atol=scale)


@pytest.mark.filterwarnings("ignore:.*is a limit law")
@pytest.mark.parametrize("name", [*TESTS, "ntk-fuse"])
def test_twenty_sizes_of_a_bucket_share_a_program(name):
    test = TESTS.get(name, FUSED)
    test.in_bucket(KEY, *drawn(40, 61))
    before = compiled_tests()
    for n in range(44, 64):
        test.in_bucket(KEY, *drawn(n, 128 - n - n % 3))
    assert compiled_tests() == before


def test_two_sample_test_is_in_buckets_where_that_pays():
    x, y = drawn(40, 61)
    ntk.two_sample_test(x, y, method="gmmd", n_permutations=98)
    before = compiled_tests()
    ntk.two_sample_test(x[:37], y[:52], method="gmmd", n_permutations=98)
    assert compiled_tests() == before
    momentum = shipped_test("net", network=NET, momentum=0.5)
    assert momentum.pads_up_to == 0  # padding would be steps
    np.testing.assert_array_equal(momentum.in_bucket(KEY, x, y).null, momentum(KEY, x, y).null)
    assert shipped_test("ntk", network=NET, calibration="normal").in_bucket(KEY, x, y).n_x == 40


def test_buckets_are_few_and_not_much_larger():
    sizes = np.arange(2, 70_000)
    buckets = np.asarray([padding.bucket(int(n)) for n in sizes])
    assert (buckets >= sizes).all() and (np.diff(buckets) >= 0).all()
    assert len(np.unique(buckets)) < 32
    large = sizes > 1024
    assert (buckets[large] <= 1.25 * sizes[large] + 1).all()
    assert (buckets[~large] <= np.maximum(64, 2 * sizes[~large])).all()


# Whole programs, as a test runs them: by itself, every operation would be one.
split = jax.jit(ntk.measure.split, static_argnums=3)
split_pooled = jax.jit(pooled.split_pooled, static_argnums=2)


@jax.jit(static_argnames=("n_x", "n_y"))
def relabelled(n_x, n_y):
    return ntk.calibration.relabel(KEY, n_x, n_y, 30)


@jax.jit(static_argnames="places")
def relabelled_in_bucket(n_x, n_y, places):
    return ntk.calibration.relabel(KEY, n_x, n_y, 30, places=places)


@pytest.mark.parametrize("n_x,n_y", [(3, 4), (40, 61), (300, 301), (512, 700)])
def test_splits_and_labellings_are_those_of_the_points(n_x, n_y):
    x, y = np.arange(n_x, dtype=np.float32)[:, None], -1 - np.arange(n_y, dtype=np.float32)[:, None]
    bucket = pooled.in_bucket(x, y)
    for fraction in (0.5, 0.3, (0.2, 0.9)):
        found = split_pooled(KEY, bucket, fraction)
        for half, exact in zip(found, split(KEY, x, y, fraction), strict=True):
            assert (half.n_x, half.n_y) == tuple(map(len, exact))
            np.testing.assert_array_equal(half.points[: half.n], np.concatenate(exact))
    places, in_turn = len(bucket.points), ntk.measure.interleaved(n_x, n_y)
    np.testing.assert_array_equal(bucket.in_turn[: n_x + n_y], in_turn)
    exact = relabelled(n_x, n_y)
    padded = relabelled_in_bucket(bucket.n_x, bucket.n_y, places)
    n = n_x + n_y
    np.testing.assert_array_equal(padded.labels[:, :n], exact.labels)
    assert not padded.labels[:, n:].any() and int(padded.observed) == int(exact.observed)
    np.testing.assert_array_equal(padded.order[:n], exact.order)
    np.testing.assert_array_equal(padded.order[n:], exact.order[-1])  # no labelled point of its own
    assert not padded.weights[:, n:].any()


def test_a_witness_in_a_bucket_can_be_saved(tmp_path):
    x, y = drawn(40, 61)
    for method in ("ntk-fuse", "gmmd"):
        result = ntk.two_sample_test(x, y, method=method)
        loaded = ntk.TwoSampleResult.load(result.save(tmp_path / f"{method}.npz"))
        np.testing.assert_array_equal(loaded.witness(x), result.witness(x))


def test_compare_is_in_buckets():
    programs = ntk.theory.comparison._compare
    before, found = programs._cache_size(), []
    for sizes in ((40, 61), (66, 59)):
        x, y = (sample.astype(np.float32) for sample in drawn(*sizes))
        found.append(ntk.compare(KEY, x, y, network=NET, times=(0.1, 0.01)))
        exact = programs(KEY, (x, y), np.asarray([0.1, 0.01], np.float32), NET, 1)
        np.testing.assert_allclose(found[-1].t_net, exact.t_net, rtol=1e-5)
        np.testing.assert_allclose(found[-1].relative_error, exact.relative_error, rtol=1e-3)
    assert programs._cache_size() == before + 3  # one for both, and two exact ones
