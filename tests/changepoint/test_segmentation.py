import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint import segment
from ntkmmd_jax.changepoint.splits import (
    LEAST,
    best_split,
    cut_statistics,
    raised,
    random_orders,
    seeded_cuts,
)
from tests.conftest import LONG, binomial_band

N, SIZE = 240, 6  # one shape for all series: 40 bins of 6 frames
OPTIONS = {"bin": SIZE, "n_permutations": 199}


def quiet(seed=0):
    return np.random.default_rng(seed).normal(size=(N, 3))


@pytest.fixture(scope="module")
def series():
    """The mean of one coordinate moves at 80, its spread at 170."""
    series = quiet()
    series[80:, 1] += 2.5
    series[170:, 1] = 2.5 + 5 * (series[170:, 1] - 2.5)
    return series


@pytest.fixture(scope="module")
def found(series):
    return segment(series, **OPTIONS)


def test_cuts_are_seeded_and_leave_room():
    cuts = seeded_cuts(40)
    a, c, e = cuts.T
    assert min((c - a).min(), (e - c).min()) == LEAST
    assert a.min() == 0 and e.max() == 40
    whole = cuts[(a == 0) & (e == 40)][:, 1]
    np.testing.assert_array_equal(whole, np.arange(LEAST, 40 - LEAST + 1))
    # A change between any two others has an interval of its own that reaches over half of it.
    for low in range(0, 30, 3):
        inside = (a >= low) & (e <= low + 10)
        assert (e - a)[inside].max() >= 5
    assert len(set(map(tuple, cuts))) == len(cuts)


def test_statistics_are_squared_mmds_of_reordered_bins():
    vectors = np.random.default_rng(0).normal(size=(12, 5))
    gram = jnp.asarray(vectors @ vectors.T, jnp.float32)
    orders = random_orders(jax.random.key(0), 12, 3, 10, 4)
    cuts = jnp.asarray(seeded_cuts(12))
    values = cut_statistics(gram, orders, cuts)
    for order, row in zip(np.asarray(orders), np.asarray(values), strict=True):
        v = vectors[order]
        wanted = [
            (c - a) * (e - c) / (e - a) * np.sum((v[a:c].mean(0) - v[c:e].mean(0)) ** 2)
            for a, c, e in seeded_cuts(12)
        ]
        np.testing.assert_allclose(row, wanted, rtol=2e-4, atol=1e-4)  # float32, sums of 144


def test_orders_are_uniform_inside_and_fixed_outside():
    orders = np.asarray(random_orders(jax.random.key(1), 8, 2, 5, 1201))
    np.testing.assert_array_equal(orders[0], np.arange(8))
    np.testing.assert_array_equal(orders[:, [0, 1, 5, 6, 7]], [[0, 1, 5, 6, 7]] * 1201)
    counts = np.unique(orders[1:, 2:5], axis=0, return_counts=True)[1]
    assert len(counts) == math.factorial(3)
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


@jax.jit(compiler_options=LONG)
def null_pvalues(keys, low, high):
    def one(key):
        k_data, k_orders = jax.random.split(key)
        bins = jax.random.t(k_data, 2.0, (16, 3))
        grams = jnp.stack([bins @ bins.T, jnp.abs(bins) @ jnp.abs(bins).T])
        return best_split(k_orders, grams, low, high, 0.0, n_permutations=19).pvalue

    return jax.lax.map(one, keys, batch_size=50)


@pytest.mark.parametrize(("low", "high"), [(0, 16), (3, 15)])
def test_the_pvalue_is_exact_for_exchangeable_bins(low, high):
    """Heavy tails, two members that know of each other; all ranks are equally likely."""
    runs = 2000
    found = np.asarray(null_pvalues(jax.random.split(jax.random.key(low), runs), low, high))
    for rate in (0.05, 0.2, 0.5):
        assert abs(np.mean(found <= rate + 1e-6) - rate) < binomial_band(rate, runs)


@pytest.mark.parametrize(("before", "after"), [(2, 2), (3, 7), (20, 1)])
def test_by_how_much_neighbours_raise_the_mean(before, after):
    """Against the variance of the contrast of bins with correlated neighbours."""
    n = before + after
    covariance = np.eye(n) + 0.3 * (np.eye(n, k=1) + np.eye(n, k=-1))
    w = np.repeat([1 / before, -1 / after], [before, after])
    np.testing.assert_allclose(raised(before, after, 0.3), w @ covariance @ w / (w @ w))


def test_two_changes_are_found_where_they_are(found):
    assert len(found.changes) == 2
    assert abs(found.changes[0] - 80) <= 2 and abs(found.changes[1] - 170) <= 4
    for true, (low, high) in zip((80, 170), found.intervals, strict=True):
        assert low - 2 <= true <= high + 2
    assert all(p <= 0.05 for p in found.pvalues)
    assert found.segments == [
        (0, found.changes[0]), (found.changes[0], found.changes[1]), (found.changes[1], N)
    ]  # fmt: skip


def test_the_coordinate_that_moves_is_named_and_how(found):
    first, second = found.found
    assert first.driving() == [1] and second.driving() == [1]
    assert first.level[1] > max(3, abs(first.spread[1]))  # it rises
    assert second.spread[1] > max(3, abs(second.level[1]))  # it widens


def test_nothing_is_an_answer():
    found = segment(quiet(3), **OPTIONS)
    assert found.changes == [] and found.segments == [(0, N)]
    assert "No changes in 240 frames" in repr(found)


def test_a_short_excursion_is_seen():
    """Against the whole it is little: seeded intervals see both of its ends."""
    series = quiet(4)
    series[108:138] += 2.5
    found = segment(series, **OPTIONS).changes
    assert len(found) == 2 and abs(found[0] - 108) <= 3 and abs(found[1] - 138) <= 3


def test_units_tails_and_idle_columns_do_not_matter(series, found):
    """Ranks are all that is seen: the very same numbers."""
    other = np.column_stack([1e6 + 1e-3 * series[:, 0], np.exp(series[:, 1]), series[:, 2] ** 3])
    assert segment(other, **OPTIONS).to_dict() == found.to_dict()
    constant = series.copy()
    constant[:, 2] = 7.0
    assert np.allclose(segment(constant, **OPTIONS).changes, found.changes, atol=4)
    assert segment(np.full((N, 3), 2.5), **OPTIONS).changes == []


def test_time_stamps_are_left_out(series, found):
    stamped = np.column_stack([np.arange(N) / 30, series])
    with pytest.warns(UserWarning, match=r"columns \[0\] rise or fall at every frame"):
        same = segment(stamped, **OPTIONS)
    assert same.changes == found.changes and same.names == ("1", "2", "3")
    with pytest.raises(ValueError, match="take differences first"):
        segment(np.arange(100.0))


def test_names_come_from_a_data_frame(series):
    pandas = pytest.importorskip("pandas")
    found = segment(pandas.DataFrame(series, columns=["a", "b", "c"]), **OPTIONS)
    assert found.names == ("a", "b", "c") and ", in b" in repr(found)


def test_plain_values_and_the_same_key_the_same_answer(series, found):
    report = json.loads(json.dumps(found.to_dict()))
    assert report["changes"] == found.changes and report["bin"] == SIZE and report["bins"] == 40
    assert report["details"][0]["coordinates"] == [1]
    assert segment(series, **OPTIONS, key=jax.random.key(0)).to_dict() == found.to_dict()


def test_plots_of_few_and_of_many_coordinates(found):
    ax = found.plot(known=[80])
    assert ax.get_title() == "2 changes" and len(ax.get_legend().get_texts()) == 3
    many = dataclasses.replace(found, profile=np.zeros((40, 30)), names=None)
    assert many.plot().get_images()


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        (np.full((50, 2), np.nan), {}, "NaN or infinite"),
        (np.zeros((4, 2)), {}, "a series of 4 frames has 4 bins of 1; 5 are the least"),
        (np.zeros((40, 2)), {"bin": 10}, "give 50 frames or shorter bins"),
        (np.zeros((40, 2)), {"bin": 0}, "bin must be a whole number"),
        (np.zeros((40, 2)), {"level": 2}, r"level must lie in \(0, 1\)"),
        (np.zeros((40, 2)), {"n_permutations": 9}, "cannot reach level"),
        (quiet()[:5], {"level": 0.01}, "5 bins can be relabelled in 60 different ways only"),
    ],
)
def test_what_cannot_be_segmented_is_refused(series, options, message):
    with pytest.raises(ValueError, match=message):
        changepoint.segment(series, **options)
