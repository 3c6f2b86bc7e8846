"""The null law of the pool of labellings, p-value and threshold."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax.calibration import (
    check_level,
    check_reach,
    kernel_null,
    label_pool,
    labellings,
    nulls,
    pools,
    pvalue,
    relabel,
    score_null,
    symmetric_null,
    threshold,
)

KEY = jax.random.key(0)


def chi2_of(codes, cells):
    counts = np.bincount(codes, minlength=cells)
    return np.sum((counts - len(codes) / cells) ** 2 / (len(codes) / cells))


def code(labels, subsets):
    """Which subset a row of labels is."""
    return [subsets[tuple(np.nonzero(row)[0])] for row in np.asarray(labels)]


def test_pool_is_uniform_over_labellings():
    subsets = {s: i for i, s in enumerate(itertools.combinations(range(6), 2))}
    pool = label_pool(KEY, 2, 6, 15_000)
    assert pool.shape == (15_000, 6)
    assert chi2_of(code(pool, subsets), 15) < 42.6  # the 1 − 1e-4 quantile of χ²(14)


@pytest.mark.parametrize(("n_x", "n"), [(1, 2), (100, 257), (999, 1000), (300, 5000)])
def test_every_labelling_has_the_right_size(n_x, n):
    pool = np.asarray(label_pool(KEY, n_x, n, 50))
    np.testing.assert_array_equal(pool.sum(1), n_x)


def test_fresh_permutations_are_uniform():
    """What row 0 labels x, over fresh keys, given that the points were observed as they are."""
    subsets = {s: i for i, s in enumerate(itertools.combinations(range(5), 2))}

    def labelled(key):
        relabelling = relabel(key, 2, 3, 7)
        by_point = jnp.zeros(5, bool).at[relabelling.order].set(relabelling.labels[0])
        return by_point, relabelling.observed

    rows, observed = jax.jit(jax.vmap(labelled))(jax.random.split(KEY, 8000))
    assert chi2_of(np.asarray(observed), 8) < 29.9  # χ²(7)
    others = np.asarray(observed) != 0  # given that row 0 is not the observed one
    assert chi2_of(code(rows[others], subsets), 10) < 33.8  # χ²(9)


@pytest.mark.parametrize("kind", ["shared", "lopsided"])
def test_the_rank_is_uniform_for_every_pool(kind, monkeypatch):
    """Exactness does not rest on the pool: even one of near-copies gives a uniform rank."""
    if kind == "lopsided":
        pool = np.zeros((10, 12), bool)
        pool[:, :5] = True
        pool[3:, [4, 6]] = pool[3:, [6, 4]]
        pool[8:, [0, 11]] = pool[8:, [11, 0]]
        monkeypatch.setattr(pools, "label_pool", lambda *_, **__: jnp.asarray(pool))

    def rank(key):
        k_data, k_null = jax.random.split(key)
        relabelling = relabel(k_null, 5, 7, 9, shared=True)
        values = score_null(relabelling, jax.random.normal(k_data, (12,))).values
        return jnp.sum(values < values[relabelling.observed] - 1e-6)

    ranks = np.asarray(jax.jit(jax.vmap(rank))(jax.random.split(KEY, 20_000)))
    if kind == "shared":
        assert chi2_of(ranks, 10) < 33.8  # χ²(9)
    else:  # copies tie, and a tie never favours rejection: P(rank ≥ k) ≤ (10 − k) / 10
        for k in range(1, 10):
            rate, allowed = np.mean(ranks >= k), (10 - k) / 10
            assert rate < allowed + 4 * np.sqrt(allowed * (1 - allowed) / 20_000)


def test_the_shared_pool_overlaps_as_fresh_ones_do():
    """Pairs of its rows share hypergeometrically many x points, as independent subsets do."""
    pool = np.asarray(relabel(KEY, 100, 100, 400, shared=True).labels, np.float64)
    overlap = (pool @ pool.T)[np.triu_indices(401, 1)]
    assert overlap.mean() == pytest.approx(50, abs=0.1)
    assert overlap.var() == pytest.approx(100 * 100 * 100 * 100 / (200**2 * 199), rel=0.03)


def test_the_observed_row_is_the_observed_labelling():
    for seed in range(5):
        relabelling = relabel(jax.random.key(seed), 4, 7, 30)
        row = relabelling.labels[relabelling.observed]
        np.testing.assert_array_equal(np.asarray(relabelling.order)[row] < 4, True)
        assert sorted(np.asarray(relabelling.order)) == list(range(11))
        assert len(relabelling.null(jnp.arange(31))) == 30
        assert int(relabelling.observed) not in np.asarray(relabelling.null(jnp.arange(31)))


def test_replicas_are_relabelled_independently():
    """Null statistics of the same scores under two keys are uncorrelated, row by row."""
    scores = jax.random.normal(KEY, (40,))

    @jax.jit
    @jax.vmap
    def draw(key):
        relabelling = relabel(key, 15, 25, 50, shared=True)
        return score_null(relabelling, relabelling.placed(scores)).values

    values = np.asarray(draw(jax.random.split(KEY, 4000))).reshape(2000, 2, 51)
    pair = [np.corrcoef(values[:, 0, b], values[:, 1, b])[0, 1] for b in range(51)]
    assert np.max(np.abs(pair)) < 5 / np.sqrt(2000)
    rows = np.corrcoef(values[:, 0].T)[np.triu_indices(51, 1)]
    assert abs(np.mean(rows)) < 0.03  # rows of the pool overlap as random subsets do


def test_score_null_has_the_permutation_moments():
    """Mean 0 and variance s² (1/n_X + 1/n_Y), the classical ones, exactly uniform subsets have."""
    scores = jax.random.normal(KEY, (60,)) ** 3 + 100.0
    draw = jax.jit(jax.vmap(lambda k: score_null(relabel(k, 20, 40, 99), scores).values))
    values = np.asarray(draw(jax.random.split(KEY, 500)))
    exact = float(np.var(np.asarray(scores, np.float64), ddof=1)) * (1 / 20 + 1 / 40)
    assert abs(values.mean()) < 5 * np.sqrt(exact / values.size)
    assert values.var() == pytest.approx(exact, rel=0.05)


def test_nulls_against_plain_numpy():
    rng = np.random.default_rng(1)
    scores, features = rng.normal(size=12) + 5, rng.normal(size=(12, 4)) + 1
    kernel = features @ features.T
    relabelling = relabel(KEY, 5, 7, 20)
    weights = np.where(relabelling.labels, 1 / 5, -1 / 7)
    order = np.asarray(relabelling.order)
    np.testing.assert_array_equal(
        relabelling.placed(jnp.asarray(scores)), np.float32(scores)[order]
    )
    np.testing.assert_allclose(
        score_null(relabelling, jnp.asarray(scores[order])).values,
        weights @ scores[order],
        atol=2e-6,
    )
    placed = kernel[order][:, order]
    np.testing.assert_allclose(
        symmetric_null(relabelling, jnp.asarray(placed), unbiased=False).values,
        np.einsum("bi,ij,bj->b", weights, placed, weights),
        atol=2e-5,
    )
    train = relabel(jax.random.key(5), 3, 4, 20, observed=relabelling.observed, pool=1)
    other = np.where(train.labels, 1 / 3, -1 / 4)
    rectangle = kernel[order][:, np.asarray(train.order)]
    np.testing.assert_allclose(
        kernel_null(relabelling, train, jnp.asarray(rectangle)).values,
        np.einsum("bi,ij,bj->b", weights, rectangle, other),
        atol=2e-5,
    )


def test_unbiased_null_against_plain_numpy():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(9, 3)) + 2
    kernel = features @ features.T
    relabelling = relabel(KEY, 4, 5, 10)
    order = np.asarray(relabelling.order)
    placed = kernel[order][:, order]
    expected = []
    for row in np.asarray(relabelling.labels):
        xx, yy, xy = placed[row][:, row], placed[~row][:, ~row], placed[row][:, ~row]
        off = [(k.sum() - np.trace(k)) / (len(k) * (len(k) - 1)) for k in (xx, yy)]
        expected.append(sum(off) - 2 * xy.mean())
    values = symmetric_null(relabelling, jnp.asarray(placed), unbiased=True).values
    np.testing.assert_allclose(values, expected, atol=2e-5)


def test_blocks_of_labels_change_nothing(monkeypatch):
    scores = jax.random.normal(KEY, (3000,))
    relabelling = relabel(KEY, 1000, 2000, 30)
    whole = score_null(relabelling, scores).values
    monkeypatch.setattr(nulls, "_TILE", 257)
    np.testing.assert_allclose(score_null(relabelling, scores).values, whole, atol=1e-6)


def test_pvalue_counts_and_is_never_zero():
    null = jnp.arange(1.0, 20.0)  # 19 values
    assert pvalue(jnp.asarray(100.0), null) == np.float32(1 / 20)
    assert pvalue(jnp.asarray(19.0), null) == np.float32(2 / 20)  # a tie counts
    assert pvalue(jnp.asarray(-1.0), null) == 1
    assert np.isnan(pvalue(jnp.asarray(jnp.nan), null))
    assert pvalue(jnp.asarray(100.0), null.at[3].set(jnp.nan)) == np.float32(2 / 20)


@pytest.mark.parametrize("b", [19, 20, 99, 399, 400])
@pytest.mark.parametrize("level", [0.05, 0.1, 0.5, 0.051])
@pytest.mark.parametrize("ties", [False, True])
def test_threshold_says_what_the_pvalue_says(b, level, ties):
    null = jax.random.normal(KEY, (b,))
    null = jnp.round(null * 2) / 2 if ties else null
    cut = threshold(null, level, 1e-6)
    for statistic in (*null, *np.linspace(-4, 4, 41, dtype=np.float32)):
        rejects = pvalue(jnp.asarray(statistic), null, 1e-6) <= level
        assert bool(statistic > cut) == bool(rejects)


def test_exact_ties_count_despite_rounding():
    """Permuted sums of the same tied scores differ in the last bits; none may beat the observed."""
    scores = jnp.asarray(np.repeat([0.1, 0.7, 0.3], [7, 6, 7]).astype(np.float32))
    exact = np.round(np.asarray(scores, np.float64), 3)

    @jax.jit
    def draw(key):
        relabelling = relabel(key, 9, 11, 200)
        return relabelling, score_null(relabelling, relabelling.placed(scores))

    for seed in range(20):
        relabelling, null = draw(jax.random.key(seed))
        values = np.where(relabelling.labels, 1 / 9, -1 / 11) @ exact[np.asarray(relabelling.order)]
        observed = int(relabelling.observed)
        expected = np.sum(np.delete(values, observed) >= values[observed] - 1e-9)
        p = pvalue(null.values[observed], relabelling.null(null.values), null.tolerance)
        assert round(float(p) * 201) - 1 == expected


@pytest.mark.parametrize(
    ("level", "b", "message"),
    [
        (0.0, 400, r"level must lie in \(0, 1\); got 0.0"),
        (1.0, 400, r"level must lie in \(0, 1\)"),
        (float("nan"), 400, r"level must lie in \(0, 1\)"),
        (0.01, 50, "cannot reach level 0.01: .* 1/51; use at least 99 permutations"),
        (0.05, 18, "use at least 19 permutations"),
        (0.05, 0, "n_permutations must be a whole number of at least 1; got 0"),
        (0.05, 19.5, "n_permutations must be a whole number"),
    ],
)
def test_bad_levels_are_refused(level, b, message):
    with pytest.raises(ValueError, match=message):
        check_level(level, b)


def test_labellings_are_counted():
    for n_x, n_y in [(2, 2), (3, 5), (4, 4), (1, 7)]:
        subsets = list(itertools.combinations(range(n_x + n_y), n_x))
        assert labellings(n_x, n_y) == len(subsets)
        points = set(range(n_x + n_y))
        unordered = {frozenset([s, tuple(sorted(points - set(s)))]) for s in subsets}
        expected = len(unordered) if n_x == n_y else len(subsets)
        assert labellings(n_x, n_y, even=True) == expected
    assert labellings(10**6, 10**6) > 1e8  # at once, though the number has 600,000 digits


def test_sizes_that_cannot_reach_the_level_are_refused():
    check_reach(20, 0.05, "these")
    with pytest.raises(ValueError, match=r"these can be relabelled in 19 .* level 0.05 cannot be"):
        check_reach(19, 0.05, "these")


@pytest.mark.parametrize(("level", "b"), [(0.05, 19), (0.01, 99), (0.001, 999), (0.5, 1)])
def test_just_enough_permutations_are_enough(level, b):
    check_level(level, b)
