"""Any number of samples: against two of them, the level of all and of pairs, and bad input."""

import json

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.twosample import k_samples
from tests.conftest import LONG, binomial_band

NET = ntk.mlp(16)
RNG = np.random.default_rng(1)
A, B, C = (RNG.normal(size=(n, 2)) for n in (14, 11, 17))


def test_distances_are_those_of_two_samples():
    found = ntk.k_sample_test(A, B, C + 2, network=NET, standardize=False, key=3)
    params = NET.init(jax.random.split(jax.random.key(3), 6)[1], A[:1].astype(np.float32))
    for (i, x), (j, y) in (((0, A), (1, B)), ((1, B), (2, C + 2))):
        measure = ntk.signed_measure(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
        kernel = ntk.empirical_ntk(NET, params, measure.points)
        np.testing.assert_allclose(
            found.distances[i, j], measure.weights @ kernel @ measure.weights, rtol=1e-3
        )
    np.testing.assert_array_equal(found.distances, found.distances.T)
    assert found.reject and found.differing == [("1", "3"), ("2", "3")]
    assert "3 samples" in repr(found) and json.loads(json.dumps(found.to_dict()))["reject"]


def test_level_of_all_and_of_pairs():
    """Three samples of one law; then two of one and a third far away: that pair is not named."""
    runs = 2000
    given = {"network": NET, "sizes": (9, 7, 8), "size": 1, "n_permutations": 39}

    def replica(key):
        k_data, k_test = jax.random.split(key)
        z = jax.random.normal(k_data, (24, 2))
        one = k_samples._run(k_test, z, **given, standardize=True)
        far = k_samples._run(k_test, z.at[16:].add(5.0), **given, standardize=True)
        return jnp.stack([one[1], far[1], far[3][0, 1], far[3][0, 2]])

    count = jax.jit(lambda keys: jax.lax.map(replica, keys, batch_size=10), compiler_options=LONG)
    rates = np.mean(count(jax.random.split(jax.random.key(0), runs)) <= 0.05, axis=0)
    assert abs(rates[0] - 0.05) < binomial_band(0.05, runs)
    assert rates[1] > 0.99 and rates[3] > 0.99
    assert abs(rates[2] - 0.05) < binomial_band(0.05, runs)


def test_bins_beyond_a_thousand_points():
    many = [RNG.normal(size=(n, 2)) for n in (700, 801, 640)]
    found = ntk.k_sample_test(*many, many[0] + 0.5, network=NET, names=("a", "b", "c", "d"))
    assert found.differing == [("a", "d"), ("b", "d"), ("c", "d")]


def test_holm():
    pvalues = np.ones((3, 3))
    pvalues[0, 1], pvalues[0, 2], pvalues[1, 2] = 0.02, 0.01, 0.03
    adjusted = k_samples._holm(pvalues)
    np.testing.assert_allclose(adjusted[[0, 0, 1], [1, 2, 2]], [0.04, 0.03, 0.04])
    np.testing.assert_array_equal(adjusted, adjusted.T)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="two samples or more; got 1"):
        ntk.k_sample_test(A)
    with pytest.raises(ValueError, match="different features"):
        ntk.k_sample_test(A, B, np.ones((9, 3)))
    with pytest.raises(ValueError, match="sample 3 has NaN"):
        ntk.k_sample_test(A, B, np.full((9, 2), np.nan))
    with pytest.raises(ValueError, match="3 samples have 2 names"):
        ntk.k_sample_test(A, B, C, names=("a", "b"))
    with pytest.raises(ValueError, match="cannot reach level"):
        ntk.k_sample_test(A, B, C, n_permutations=40)


@pytest.mark.parametrize("k", [3, 14])
def test_plot(k):
    """Distances below the diagonal, p-values above it; marks only, of many samples."""
    odd = np.arange(k) == 1
    apart = odd[:, None] != odd  # the second differs from all others
    distances, adjusted = np.where(apart, 2.5, 0.0), np.where(apart, 0.003, 1.0)
    names = {"names": tuple(map(str, range(k))), "sizes": (20,) * k}
    ax = ntk.KSampleResult(4.0, 0.001, distances, adjusted, adjusted, 0.05, **names).plot()
    try:
        below = np.tri(k, k=-1, dtype=bool)
        shown = np.ma.filled(ax.images[0].get_array(), np.nan)
        np.testing.assert_array_equal(shown, np.where(below, distances, np.nan))
        texts = {tuple(map(int, text.get_position())): text.get_text() for text in ax.texts}
        if k == 3:
            assert texts[1, 0] == texts[2, 1] == "0.003" and texts[0, 1] == "2.5"
            assert texts[2, 0] == "1" and texts[0, 2] == "0" and len(texts) == 6
        else:
            marked = {tuple(map(int, place)) for place in ax.lines[0].get_xydata()}
            assert not texts and marked == {(1, 0), *((j, 1) for j in range(2, k))}
        assert "not all come from one law" in ax.get_title()
    finally:
        plt.close(ax.figure)
