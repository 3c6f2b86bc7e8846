"""As many permutations as it takes: the p-value by hand, its level, and where it stops."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.calibration import NullStatistics
from ntkmmd_jax.twosample.evidence import Permuted, Refittable
from ntkmmd_jax.twosample.recipe import from_recipe, recipe
from tests.conftest import LONG, binomial_band

KEY = jax.random.key(4)
RUNS = 2000
SMALL = ntk.Adaptive(at_most=799, exceedances=5, clear=199)


@ntk.record
class Given(Refittable):
    """Statistics that are drawn: T, then others, each above T with a probability that is given."""

    above: jax.Array  # ()

    def refitted(self, key, pool):
        u = jax.random.uniform(jax.random.fold_in(key, pool.chunk), (1 + pool.n_permutations,))
        values = jnp.where(u < self.above, 1.0, -1.0).at[0].set(0.0)
        return Permuted(NullStatistics(values, jnp.zeros(())), 0)


def by_hand(null, calibration):
    """p and where it stops, walking over the labellings one by one."""
    cost, seen = 1 / (1 + calibration.clear), 0
    for count, value in enumerate(null, 1):
        seen += value >= 0
        if seen == calibration.exceedances:
            return min(1, cost + seen / count), count
        if count == calibration.clear and seen == 0:
            return cost, count
    return cost + (1 + seen) / (1 + len(null)), len(null)


def test_pvalue_is_that_of_one_by_one():
    """In later chunks the row of T itself is one more that does not exceed: it is set to 0 = T."""
    run = jax.jit(jax.vmap(lambda key, above: SMALL.result(key, Given(above), 0.05)))
    for above in (0.0, 0.003, 0.02, 0.1, 0.9):
        found = run(jax.random.split(KEY, 20), jnp.full(20, above))
        for one in range(20):
            p, drawn = by_hand(np.asarray(found.null[one]), SMALL)
            assert int(found.drawn[one]) == drawn
            np.testing.assert_allclose(found.pvalue[one], p, rtol=1e-6)
            above_threshold = found.statistic[one] > found.threshold[one]
            assert bool(above_threshold) == bool(found.reject[one])


def test_level():
    """P[p ≤ u] ≤ u for several u at once, of a split test and of one of all data."""
    for test in (
        ntk.GaussianMMD(1.5, calibration=SMALL, level=0.1),
        ntk.NTKMMD(ntk.mlp(16), calibration=SMALL, level=0.1),
    ):

        def replica(key, test=test):
            k_data, k_test = jax.random.split(key)
            z = jax.random.normal(k_data, (24, 2))
            found = test(k_test, z[:12], z[12:])
            return found.pvalue, found.drawn

        many = jax.jit(lambda keys, one=replica: jax.lax.map(one, keys), compiler_options=LONG)
        pvalues, drawn = map(np.asarray, many(jax.random.split(KEY, RUNS)))
        for u in (0.02, 0.05, 0.1, 0.5):
            below = np.mean(pvalues <= u)
            assert u - 0.005 - 0.1 * u - binomial_band(u, RUNS) < below < u + binomial_band(u, RUNS)
        assert 10 < drawn.mean() < 60


@pytest.mark.parametrize("method", ["gmmd", "ntk-fuse", "gmmd-lin"])
def test_stops_early_both_ways(method):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    options = {"members": (ntk.Scale(0.5),)} if method == "ntk-fuse" else {}
    same = ntk.two_sample_test(x, y, method=method, n_permutations="adaptive", **options)
    assert not same.reject
    assert len(same.null) == same.drawn < 399
    apart = ntk.two_sample_test(x, y + 3, method=method, n_permutations="adaptive", **options)
    assert apart.reject
    assert apart.pvalue == pytest.approx(1 / 400)
    assert apart.to_dict()["n_permutations"] == apart.drawn == 399
    assert "399 permutations" in repr(apart)


def test_later_chunks_are_new_labellings_of_the_same_places():
    """All values of a small sample are there, and none but those: 20 labellings, in pairs of 10."""
    x = jnp.asarray([[0.0], [1.0], [3.0]])
    test = ntk.GaussianMMD(1.0, level=0.2, calibration=ntk.Adaptive(exceedances=1000, at_most=999))
    found = test(0, x, x + 0.4)
    assert len(np.unique(np.asarray(found.null).round(5))) <= 10
    chunks = np.asarray(found.null[199:]).reshape(4, 200)
    assert not any((chunks[0] == chunk).all() for chunk in chunks[1:])


def test_within_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(10), 3), np.repeat(10 + np.arange(10), 3)
    x, y = (rng.normal(size=(20, 2))[of] for of in groups)
    found = ntk.two_sample_test(x, y, method="gmmd", groups=groups, n_permutations="adaptive")
    fixed = ntk.two_sample_test(x, y, method="gmmd", groups=groups, n_permutations=999)
    assert abs(found.pvalue - fixed.pvalue) < 0.15


def test_what_cannot_adapt_is_refused():
    with pytest.raises(ValueError, match="ranks the labellings of one pool"):
        ntk.MMDAgg(calibration=ntk.Adaptive())
    with pytest.raises(ValueError, match="use Adaptive\\(clear=3999"):
        ntk.GaussianMMD(calibration=ntk.Adaptive(), level=0.005)
    with pytest.raises(ValueError, match="as many permutations as it takes: set at_most"):
        ntk.Adaptive(99)
    with pytest.raises(ValueError, match="clear = 500 is more than at_most = 400"):
        ntk.Adaptive(at_most=400, clear=500)
    kept = dataclasses.replace(ntk.GaussianMMD(calibration=SMALL), level=0.1)
    assert kept.calibrated_by.exceedances == 5  # `replace` keeps the calibration's own numbers
    back = from_recipe(json.loads(json.dumps(recipe(kept))))
    assert (back.calibrated_by.exceedances, back.calibrated_by.clear, back.level) == (5, 199, 0.1)
