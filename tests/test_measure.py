import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax._lib.points import as_points, as_samples, check_finite
from ntkmmd_jax.measure import (
    SignedMeasure,
    Visits,
    interleaved,
    random_orders,
    signed_measure,
    split,
    split_sizes,
)


def test_weights_are_the_two_means():
    x, y = jnp.arange(6.0).reshape(3, 2), jnp.ones((5, 2))
    measure = signed_measure(x, y)
    np.testing.assert_allclose(measure.weights, [1 / 3] * 3 + [-1 / 5] * 5)
    gap = measure.weights @ measure.points
    np.testing.assert_allclose(gap, x.mean(0) - y.mean(0), rtol=1e-6)


@pytest.mark.parametrize("size", [1, 3, 7, 8, 20])
def test_batches_hold_the_whole_measure(size):
    measure = SignedMeasure(jnp.arange(1.0, 9.0)[:, None], jnp.arange(1.0, 9.0))
    batches = measure.batched(size)
    assert batches.points.shape[1:] == (size, 1)
    total = jnp.sum(batches.weights * batches.points[..., 0])
    np.testing.assert_allclose(total, 204.0)  # Σ i² for i ≤ 8
    assert set(np.unique(batches.points)) <= set(range(1, 9))  # padding repeats a real point


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_visits_are_points_and_weights_whatever_the_grouping(steps):
    points, weights = 10.0 * jnp.arange(7.0), 1.0 + jnp.arange(7.0)
    order = jnp.array([3, 1, 6, 0, 2, 5, 4])
    visits = Visits(order, weights[order]).batched(2)
    assert visits.indices.shape == visits.weights.shape == (4, 2)
    of = visits.grouped(steps).of(points)
    assert of.points.shape == (-(-4 // steps), 2 * steps)
    np.testing.assert_allclose(jnp.sum(of.points * of.weights), points @ weights)


def test_split_is_a_partition_of_each_sample():
    x, y = jnp.arange(11.0)[:, None], 100 + jnp.arange(6.0)[:, None]
    (x1, y1), (x2, y2) = split(jax.random.key(0), x, y, (0.3, 0.5))
    assert (len(x1), len(y1)) == (3, 3)
    np.testing.assert_array_equal(np.sort(np.concatenate([x1, x2]), axis=0), x)
    np.testing.assert_array_equal(np.sort(np.concatenate([y1, y2]), axis=0), y)


def test_split_keeps_one_on_each_side():
    assert split_sizes(2, 3, 0.01) == (1, 1)
    assert split_sizes(2, 3, 0.99) == (1, 2)


def test_random_orders_are_uniform():
    keys = jax.random.split(jax.random.key(1), 6000)
    orders, _ = jax.vmap(lambda key: random_orders(key, 3, 5))(keys)
    codes = np.asarray(orders) @ [9, 3, 1]
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == 6
    chi2 = np.sum((counts - 1000) ** 2 / 1000)
    assert chi2 < 25.7  # the 1 − 1e-4 quantile of χ²(5)


def test_interleaved_alternates_in_proportion():
    order = interleaved(4, 2)
    assert sorted(order) == list(range(6))
    is_x = order < 4
    assert is_x[:3].sum() == 2 and is_x[3:].sum() == 2
    assert list(order[is_x]) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], [3, 4], [5, 6]],
        np.arange(6).reshape(3, 2),
        np.arange(6.0).reshape(3, 2),
        np.ones((3, 2), np.float16),
        np.ones((3, 2), bool),
        pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}),
        pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}, dtype=object),
        jnp.ones((3, 2), jnp.bfloat16),
    ],
)
def test_array_likes_become_default_floats(values):
    points = as_points(values)
    assert points.shape == (3, 2)
    assert points.dtype == jnp.float32


def test_a_flat_sequence_has_one_feature():
    assert as_points([1.0, 2.0, 3.0]).shape == (3, 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (3.0, "one row per sample; got a single number"),
        ([], r"empty: shape \(0,\)"),
        (np.zeros((4, 0)), r"empty: shape \(4, 0\)"),
        ([[1, 2], [3]], "not a rectangular array"),
        ([["a", "b"]], "real numbers; got dtype <U1"),
        (np.ones((2, 2), complex), "real numbers; got dtype complex128"),
        (pd.DataFrame({"a": [1, 2], "b": ["u", "v"]}), "real numbers; got dtype object"),
        (
            np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"),
            "real numbers; got dtype datetime",
        ),
    ],
)
def test_bad_points_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        as_points(values)


def test_bad_pairs_are_refused():
    with pytest.raises(ValueError, match=r"different features: samples of shape \(2,\) and \(3,\)"):
        as_samples(np.ones((4, 2)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="y has 1 sample; a two-sample test needs at least 2"):
        as_samples(np.ones((4, 2)), np.ones((1, 2)))
    with pytest.raises(ValueError, match=r"too few samples to split.*n_x = 1, n_y = 5"):
        split_sizes(1, 5, 0.5)
    with pytest.raises(ValueError, match=r"train_fraction must lie in \(0, 1\); got 1.5"):
        split_sizes(5, 5, 1.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_non_finite_values_are_located(bad):
    values = np.zeros((5, 2))
    values[3, 1] = bad
    with pytest.raises(ValueError, match=r"x has NaN or infinite values in 1 of 5 .* sample 3"):
        check_finite(as_points(values, "x"), "x")


def test_columns_are_matched_by_name():
    """The same data in another order of columns are the same sample, for frames of any make."""

    class Frame:  # as polars has it: names as a list, numbers by `__array__`
        def __init__(self, frame):
            self.columns, self.values = list(frame.columns), frame.to_numpy()

        def __array__(self, dtype=None, copy=None):
            return self.values

    x = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 3)), columns=["a", "b", "c"])
    turned = x[["c", "a", "b"]]
    for other in (turned, Frame(turned), x.astype(object)[["b", "c", "a"]]):
        np.testing.assert_array_equal(*as_samples(x, other))
        np.testing.assert_array_equal(*as_samples(other, x))
    p = [ntk.two_sample_test(x, y, method="hotelling").pvalue for y in (x + 0.1, turned + 0.1)]
    assert p[0] == p[1]


def test_columns_without_names_are_matched_by_position():
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 3)), columns=["c", "b", "a"])
    plain = x.to_numpy()
    twice = x.set_axis(["a", "a", "b"], axis=1)
    for other in (plain, plain.tolist(), pd.DataFrame(plain), jnp.asarray(plain)):
        np.testing.assert_array_equal(*as_samples(x, other))
    np.testing.assert_array_equal(*as_samples(twice, twice))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["a", "b", "d"], r"different columns: only x has \['c'\], only y has \['d'\]"),
        (["a", "b"], r"different columns: only x has \['c'\], only y has \[\]"),
        (["a", "b", "b"], r"only x has \['c'\]"),
    ],
)
def test_other_columns_are_refused(columns, message):
    x = pd.DataFrame(np.zeros((4, 3)), columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=message):
        as_samples(x, pd.DataFrame(np.zeros((4, len(columns))), columns=columns))


def test_repeated_names_have_no_order():
    x = pd.DataFrame(np.zeros((4, 3)), columns=["a", "a", "b"])
    with pytest.raises(ValueError, match="names repeat"):
        as_samples(x, x.iloc[:, [0, 2, 1]])


def test_masked_cells_are_refused():
    values = np.arange(12.0).reshape(4, 3)
    mask = np.zeros((4, 3), bool)
    np.testing.assert_array_equal(as_points(np.ma.array(values, mask=mask)), values)
    mask[1:3, 2] = True
    masked = np.ma.array(values, mask=mask)
    for bad in (masked, list(masked), masked[:, 2], [0.0, np.ma.masked, np.ma.masked, 1.0]):
        with pytest.raises(ValueError, match=r"x has masked values in 2 of 4 samples .* sample 1"):
            as_points(bad, "x")


def test_missing_values_of_pandas_are_located():
    frame = pd.DataFrame({"a": [1, 2, None], "b": [0.5, 1.0, 2.0]}).convert_dtypes()
    np.testing.assert_array_equal(as_points(frame[:2]), [[1, 0.5], [2, 1]])
    with pytest.raises(ValueError, match=r"in 1 of 3 samples .* sample 2"):
        check_finite(as_points(frame, "x"), "x")


NORMALS = np.random.default_rng(0).normal(size=(400, 2))


@pytest.mark.parametrize(
    "values",
    [
        NORMALS + np.array([0, 1e8]),
        1e-46 * NORMALS,  # below the smallest float32
        np.arange(10) + 1_700_000_000_000_000_000,  # of which float64 would keep nothing either
        np.array([[1e8], [1e8 + 1]]),
    ],
    ids=["offset", "tiny", "nanoseconds", "two"],
)
def test_a_cast_that_loses_the_data_is_refused(values):
    with pytest.raises(ValueError, match=r"loses .* of its spread when cast to float32.*subtract"):
        as_points(values)


def test_the_loss_by_a_cast_is_its_rounding_error():
    """An offset of 2^20 rounds to 1/8: an error uniform on that, of standard deviation 1/8/√12."""
    values = np.random.default_rng(0).normal(size=(5000, 2))
    values = 2**20 + 1.5 + values / values.std(0)
    with pytest.warns(UserWarning, match=r"feature . loses (3\.[56]\d*) % of its spread"):
        as_points(values)


def test_two_constants_that_differ_only_before_the_cast():
    with pytest.raises(ValueError, match="x and y: feature 1 loses 100 %"):
        as_samples(np.full((5, 2), [0.0, 1e8]), np.full((5, 2), [0.0, 1e8 + 1]))


@pytest.mark.parametrize(
    "values",
    [
        NORMALS,
        1e4 + NORMALS,
        1e-30 * NORMALS,
        np.full((5, 2), 0.1),  # constant: nothing to lose
        np.array([[0.1 + 0.2], [0.3]]),  # constant but for rounding
        np.arange(2**24),
        jnp.asarray([1e8, 1e8 + 1]),  # what is in float32 already
    ],
)
def test_a_harmless_cast_is_silent(values, recwarn):
    as_points(values)
    as_samples(values, values)
    assert not recwarn.list


def test_no_loss_with_64_bits():
    with jax.enable_x64(True):
        points = as_points(1e8 + NORMALS)
        assert points.dtype == jnp.float64
        np.testing.assert_array_equal(points, 1e8 + NORMALS)
