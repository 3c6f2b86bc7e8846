import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ntkmmd_jax.measure import (
    SignedMeasure,
    as_points,
    as_samples,
    check_finite,
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
