"""Labels permuted within strata and pairs: exact where permuting all of them is wrong."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.calibration import Exchangeable, as_strata, relabel_within
from ntkmmd_jax.twosample.contract import run_program
from tests.conftest import LONG, binomial_band

KEY = jax.random.key(2)
RUNS = 2000
TESTS = {
    "gmmd": ntk.GaussianMMD(n_permutations=39),
    "ntk-symmetric": ntk.NTKMMD(ntk.mlp(32), train_fraction=None, n_permutations=39),
    "ntk-fuse": ntk.FusedNTK((ntk.Scale(0.5), ntk.Tangent(ntk.mlp(32))), n_permutations=39),
}


def rates(test, draw, strata):
    """Rejection rates at 5 % with and without strata, over replicas of `draw`."""
    strata = Exchangeable(jnp.asarray(strata))

    def replica(key):
        k_data, k_test = jax.random.split(key)
        x, y = draw(k_data)
        within = run_program(test, k_test, (x, y, strata)).pvalue
        return jnp.stack([within, test(k_test, x, y).pvalue]) <= 0.05

    count = jax.jit(lambda keys: jax.lax.map(replica, keys, batch_size=20), compiler_options=LONG)
    return np.mean(count(jax.random.split(KEY, RUNS)), axis=0)


@pytest.mark.parametrize("name", TESTS)
def test_level_within_strata(name):
    """Two hospitals of different means, of which x has more of one and y of the other."""
    strata = np.repeat([0, 1, 0, 1], [16, 6, 5, 12])

    def draw(key):
        z = jax.random.normal(key, (39, 2)) + 3.0 * strata[:, None]
        return z[:22], z[22:]

    within, plain = rates(TESTS[name], draw, strata)
    assert abs(within - 0.05) < binomial_band(0.05, RUNS)
    assert plain > 0.5  # it finds the hospitals


@pytest.mark.parametrize("name", ["gmmd", "ntk-fuse"])
def test_level_of_pairs(name):
    """Before and after, of the same 20 people: close to each other. Plainly permuted, it sleeps."""

    def draw(key, shift=0.0):
        people, noise = (jax.random.normal(k, (40, 2)) for k in jax.random.split(key))
        people = jnp.concatenate([people[:20], people[:20]])
        z = people + 0.2 * noise
        return z[:20], z[20:] + shift

    strata = np.tile(np.arange(20), 2)
    within, plain = rates(TESTS[name], draw, strata)
    assert abs(within - 0.05) < binomial_band(0.05, RUNS)
    assert plain < 0.01
    within, plain = rates(TESTS[name], lambda key: draw(key, 0.2), strata)
    assert within > plain + 0.3


def test_labellings_are_uniform_within_strata():
    """Strata of 3 (one x) and 2 (one x): 6 labellings, and every place keeps its stratum."""
    strata = jnp.asarray([5, 9, 9, 5, 5])  # x has one of each

    def one(key):
        found = relabel_within(key, 2, strata, 3)
        return found.labels[0], strata[found.order], found.order, found.labels[found.observed]

    labels, of_place, order, observed = jax.jit(jax.vmap(one))(jax.random.split(KEY, 6000))
    np.testing.assert_array_equal(of_place, np.tile([5, 5, 5, 9, 9], (6000, 1)))
    np.testing.assert_array_equal(order < 2, observed)  # the observed row labels them as they are
    codes = np.asarray(labels) @ (2 ** np.arange(5))
    allowed = [2**i + 2**j for i, j in itertools.product(range(3), range(3, 5))]
    counts = np.asarray([np.sum(codes == code) for code in allowed])
    assert counts.sum() == 6000
    assert np.sum((counts - 1000) ** 2 / 1000) < 25.7  # χ²(5), 1 in 10,000


def test_as_a_user_calls_it():
    rng = np.random.default_rng(0)
    people = rng.normal(size=(30, 3))
    x, y = people, people + 0.3 + 0.1 * rng.normal(size=(30, 3))
    assert ntk.two_sample_test(x, y, paired=True).reject
    assert not ntk.two_sample_test(x, y).reject
    days = np.asarray(["mon"] * 15 + ["tue"] * 15), np.asarray(["mon"] * 10 + ["tue"] * 20)
    result = ntk.two_sample_test(x, y, strata=days, method="gmmd")
    assert (result.n_x, result.n_y) == (30, 30)
    assert as_strata(*days, 30, 30)[1] == 10**8


def test_bad_strata_are_refused():
    x = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(ValueError, match="as many points; got 12 and 11"):
        ntk.two_sample_test(x, x[:11], paired=True)
    with pytest.raises(ValueError, match="name one stratum a point"):
        ntk.two_sample_test(x, x, strata=([1, 2], [3]))
    missing = np.where(np.arange(12) < 2, np.nan, 1.0)
    with pytest.raises(ValueError, match="2 points of y have no stratum"):
        ntk.two_sample_test(x, x, strata=(np.ones(12), missing))
    with pytest.raises(ValueError, match="has no strata and no groups: use ntk-fuse"):
        ntk.two_sample_test(x, x, paired=True, method="net")
    with pytest.raises(ValueError, match="can be relabelled in 1 different ways"):
        ntk.two_sample_test(x, x, strata=(np.zeros(12), np.ones(12)))
    with pytest.raises(ValueError, match="give paired=True, or strata or groups"):
        ntk.two_sample_test(x, x, paired=True, strata=(np.zeros(12), np.ones(12)))
