"""Whole groups relabelled: exact where points of a group depend on each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.calibration import Exchangeable, as_groups
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.twosample.contract import run_program
from ntkmmd_jax.twosample.evidence import Pool
from tests.conftest import LONG, binomial_band

KEY = jax.random.key(3)
RUNS = 2000
SIZES = (1, 5, 3, 2, 4, 2, 6, 1, 3, 4, 2)  # points of 11 groups, of which 6 are x
N, GROUPS, OF_X = sum(SIZES), len(SIZES), 6
TESTS = {
    "gmmd, unbiased": ntk.GaussianMMD(n_permutations=39, unbiased=True),
    "ntk-symmetric": ntk.NTKMMD(ntk.mlp(32), train_fraction=None, n_permutations=39),
    "mmd-fuse": ntk.MMDFuse(n_bandwidths=2, n_permutations=39),
}


def draw(key):
    """Groups of unequal sizes, which share an effect; sizes are drawn too, as H0 has them."""
    k_sizes, k_effects, k_noise = jax.random.split(key, 3)
    sizes = jax.random.permutation(k_sizes, jnp.asarray(SIZES))
    groups = jnp.repeat(jnp.arange(GROUPS), sizes, total_repeat_length=N)
    effects = jax.random.normal(k_effects, (GROUPS, 2))
    z = effects[groups] + 0.5 * jax.random.normal(k_noise, (N, 2))
    n_x = sizes[:OF_X].sum()
    return Pooled(z, n_x, N - n_x, Exchangeable(jnp.zeros(GROUPS, int), groups, of_x=OF_X))


@pytest.mark.parametrize("name", TESTS)
def test_level_of_groups(name):
    """Plainly permuted, it finds the patients."""
    test = TESTS[name]

    def replica(key):
        k_data, k_test = jax.random.split(key)
        given = draw(k_data)
        plain = Pooled(given.points, given.n_x, given.n_y)
        return jnp.stack([run_program(test, k_test, one).pvalue for one in (given, plain)]) <= 0.05

    count = jax.jit(lambda keys: jax.lax.map(replica, keys, batch_size=20), compiler_options=LONG)
    whole, plain = np.mean(count(jax.random.split(KEY, RUNS)), axis=0)
    assert abs(whole - 0.05) < binomial_band(0.05, RUNS)
    assert plain > 0.3


def test_labellings_of_points_are_those_of_groups():
    """One label a group, 6 of 11 in every row, all 462 labellings as likely; masses ±1."""

    def one(key):
        given = draw(key)
        found = Pool(n_permutations=9).relabel(key, given)
        return found.labels, found.order, found.observed, found.weights, given.within.groups

    labels, order, observed, weights, groups = jax.jit(jax.vmap(one))(jax.random.split(KEY, 500))
    placed = np.take_along_axis(np.asarray(groups), np.asarray(order), axis=1)
    of_group = np.zeros((500, 10, GROUPS), bool)
    for run in range(500):
        of_group[run][:, placed[run]] = labels[run]
        np.testing.assert_array_equal(of_group[run][:, placed[run]], labels[run])
        assert (of_group[run, observed[run]] == (np.arange(GROUPS) < OF_X)).all()
    assert (of_group.sum(-1) == OF_X).all()
    np.testing.assert_array_equal(np.sort(order), np.tile(np.arange(N), (500, 1)))
    np.testing.assert_allclose(np.maximum(weights, 0).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.minimum(weights, 0).sum(-1), -1, rtol=1e-5)
    others = of_group[np.arange(10) != np.asarray(observed)[:, None]]  # 4,500 rows
    assert np.abs(others.mean(0) - OF_X / GROUPS).max() < 4.5 * 0.5 / np.sqrt(4500)


def test_statistic_is_that_of_the_labels():
    """The observed row has the MMD² of the samples as they are, times n_X n_Y over its average."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(14, 2))
    groups = np.repeat(np.arange(5), [1, 3, 2, 2, 1]), np.repeat(list("abcdef"), [2, 4, 1, 3, 2, 2])
    for unbiased in (False, True):
        test = ntk.GaussianMMD(1.5, n_permutations=19, unbiased=unbiased)
        plain = ntk.two_sample_test(x, y, method=test)
        found = ntk.two_sample_test(x, y, method=test, groups=(groups[0].astype(str), groups[1]))
        balance = (9 * 14 / 23**2) / (5 * 6 / 11**2)
        np.testing.assert_allclose(found.statistic, balance * plain.statistic, rtol=1e-4)


def test_groups_within_strata_keep_to_them():
    of_x, of_y = np.repeat([0, 1, 2, 3], 2), np.repeat([4, 5, 6, 7, 8], 3)
    sites = (of_x % 2, of_y % 2)
    within, ways = as_groups(of_x, of_y, 8, 15, sites)
    assert ways == 10 * 6  # 2 of 5 groups at one site, 2 of 4 at the other
    given = Pooled(jnp.zeros((23, 1)), 8, 15, within)
    found = Pool(n_permutations=19).relabel(KEY, given)
    site = np.concatenate(sites)[np.asarray(found.order)]
    for one in (0, 1):
        taken = (
            np.asarray(found.labels)[:, site == one]
            / np.concatenate([of_x * 0 + 2, of_y * 0 + 3])[np.asarray(found.order)][site == one]
        )
        np.testing.assert_allclose(taken.sum(1), 2, rtol=1e-6)


def test_bad_groups_are_refused():
    x = np.random.default_rng(0).normal(size=(12, 2))
    three, other = np.repeat([0, 1, 2], 4), np.repeat([3, 4, 5], 4)

    def refused(match, groups, **options):
        with pytest.raises(ValueError, match=match):
            ntk.two_sample_test(x, x, groups=groups, **options)

    refused("3 are in both, the first is 0. .*give strata", (three, three))
    refused("name one group a point", ([1, 2], [3]))
    refused(r"10 different ways only.*\(4 of each are enough", (three, other))
    refused("a group lies in one stratum", (three, other), strata=(np.arange(12) % 2,) * 2)
    refused("give paired=True, or strata or groups", (three, other), paired=True)
    refused("a single point", (np.zeros(12), 1 + np.arange(12)))
    refused("has no strata and no groups", (three, other), method="net")


def test_sizes_that_go_with_the_label_are_warned_of():
    x = np.random.default_rng(0).normal(size=(50, 2))
    groups = np.arange(10), 10 + np.repeat(np.arange(10), 4)
    with pytest.warns(UserWarning, match="groups of x have 1 points on average and those of y 4"):
        ntk.two_sample_test(x[:10], x[10:], groups=groups, method=TESTS["gmmd, unbiased"])
