"""What ships, as it ships: the level of every method's default, and what is said when it cannot be.

`benchmarks/levels.py` is the long version: every method, five sizes, eleven laws.
"""

import dataclasses
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.sequential import Exact, Ridge
from tests.conftest import LONG, binomial_band

N_RUNS, LEVEL = 1000, 0.05
BETTORS = (  # one of each kind that ships
    Ridge(ntk.fourier(32), scale=1 / 8, ridges=(0.03, 0.3)),
    Ridge(ntk.fourier(32, additive=True), scale=3 / 2),
    Exact(ntk.mlp(64)),
)
# Smaller networks and fewer steps than shipped, for speed; nothing that the level could rest on.
SMALLER = {
    "net": {"network": ntk.mlp(64)},
    "ntk": {"network": ntk.mlp(64)},
    "ntk-full": {"network": ntk.mlp(64)},
    "ntk-symmetric": {"network": ntk.mlp(64)},
    "ntk-fuse": {"members": (ntk.Scale(0.25), ntk.Scale(0.5), ntk.Tangent(ntk.mlp(64)))},
    "bet": {"network": BETTORS},
    "c2st-s": {"network": ntk.mlp(16, activation="relu"), "epochs": 1},
    "c2st-l": {"network": ntk.mlp(16, activation="relu"), "epochs": 1},
    "me": {"steps": 5},
    "scf": {"steps": 5, "n_locations": 3},
}


def normal(key, n):
    return jax.random.normal(key, (n, 3))


LAWS = {
    "normal": normal,
    "ties": lambda key, n: jax.random.bernoulli(key, 0.4, (n, 3)).astype(jnp.float32),
    "constant column": lambda key, n: normal(key, n).at[:, 1].set(2.5),
    "small": lambda key, n: 1e-7 * normal(key, n),
    "far": lambda key, n: 1e4 + normal(key, n),
}


@pytest.mark.parametrize("method", ntk.methods())
def test_level_of_the_default(method):
    """At 14 + 11 points, where limit laws fail: at most the band's upper end, and no NaN."""
    test = ntk.make_test(method, n_permutations=99, **SMALLER.get(method, {}))

    def count(keys, z):
        pvalues = jax.lax.map(lambda one: test(one[0], one[1][:14], one[1][14:]).pvalue, (keys, z))
        return jnp.mean(pvalues <= LEVEL), jnp.sum(jnp.isnan(pvalues))

    count = jax.jit(count, compiler_options=LONG)
    for i, (law, draw) in enumerate(LAWS.items()):
        keys = jax.random.split(jax.random.key(i), N_RUNS)
        z = jax.vmap(lambda key, draw=draw: draw(key, 25))(keys)
        rate, missing = count(jax.random.split(jax.random.key(100 + i), N_RUNS), z)
        assert rate < LEVEL + binomial_band(LEVEL, N_RUNS), law
        assert missing == 0, law


@pytest.mark.parametrize("method", ["ntk-full", "ntk-symmetric"])
def test_rounding_knows_no_labels(method):
    """At a scale of 1e-7 the kernel is rounding; computed in label order it rejected 16 %."""
    test = ntk.make_test(method, network=ntk.mlp(128), n_permutations=99)

    def replica(keys):
        k_data, k_test = keys
        z = 1e-7 * jax.random.normal(k_data, (60, 4))
        return test(k_test, z[:30], z[30:]).reject

    keys = jax.random.split(jax.random.key(0), (N_RUNS, 2))
    run = jax.jit(lambda keys: jax.lax.map(replica, keys, batch_size=50), compiler_options=LONG)
    assert np.mean(run(keys)) < LEVEL + binomial_band(LEVEL, N_RUNS)


X, Y = np.random.default_rng(0).normal(size=(2, 40, 3))


@pytest.mark.parametrize(
    ("test", "sizes", "message"),
    [
        (ntk.NTKMMD(), (4, 4), r"2 \+ 2 held-out points can be relabelled in 6 different ways"),
        (ntk.NetMMD(), (4, 4), r"level 0.05 cannot be reached"),
        (ntk.C2ST(), (4, 4), r"2 \+ 2 held-out points"),
        (ntk.NTKMMD(calibration="full"), (3, 3), r"1 \+ 1 held-out points"),
        (ntk.NTKMMD(train_fraction=None), (3, 3), r"3 \+ 3 points can be relabelled in 10 "),
        (ntk.GaussianMMD(), (3, 3), r"3 \+ 3 points can be relabelled in 10 different ways"),
        (ntk.MMDFuse(), (3, 3), r"3 \+ 3 points can be relabelled in 10 different ways"),
        (ntk.LinearTimeMMD(), (7, 9), r"3 blocks of two pairs \(x, y\) can be relabelled in 8 "),
        (ntk.MeanEmbedding(n_locations=1), (6, 6), r"3 \+ 3 held-out points can be relabelled"),
    ],
    ids=lambda value: getattr(value, "method", None),
)
def test_sizes_that_cannot_reach_the_level_are_refused(test, sizes, message):
    with pytest.raises(ValueError, match=message):
        test(0, X[: sizes[0]], Y[: sizes[1]])
    with pytest.raises(ValueError, match=message):  # while tracing, too
        jax.eval_shape(lambda: test(0, X[: sizes[0]], Y[: sizes[1]]))


@pytest.mark.parametrize(
    ("test", "n"),
    [
        (ntk.NTKMMD(network=ntk.mlp(8), calibration="normal"), 12),
        (ntk.NetMMD(network=ntk.mlp(8), calibration="normal"), 12),
        (ntk.C2ST(network=ntk.mlp(8), epochs=1, calibration="normal"), 12),
        (ntk.LinearTimeMMD(calibration="normal"), 12),
        (ntk.MeanEmbedding(steps=1, calibration="asymptotic"), 30),
    ],
    ids=lambda value: getattr(value, "method", None),
)
def test_limit_laws_warn_where_they_are_known_to_fail(test, n):
    with pytest.warns(UserWarning, match=rf"{test.method} with calibration '\w+' rejects too oft"):
        jax.eval_shape(lambda: test(0, X[:n], Y[:n]).pvalue)


def test_a_constant_witness_is_said():
    dead = (lambda key, x: jnp.zeros(()), lambda a, x: a * jnp.zeros(len(x)))
    for method in ("ntk", "ntk-symmetric"):
        with pytest.warns(UserWarning, match="rejects no labelling of these points"):
            assert ntk.two_sample_test(X, Y, method=method, network=dead).pvalue == 1


def test_laws_beyond_reach_say_so():
    """In d = 500 the weighted χ² law of 35 points lies beyond what any labelling gives."""
    z = np.random.default_rng(1).normal(size=(35, 500))
    for unbiased in (False, True):
        law = ntk.GaussianMMD(calibration="asymptotic", unbiased=unbiased)
        with pytest.warns(UserWarning, match="gmmd rejects no labelling of these points"):
            beyond = law(1, z[:20], z[20:])
        assert beyond.pvalue >= beyond.least > 0.05


def test_few_permutations_are_no_reason_to_warn():
    """With 19 of them the threshold is the largest of the null, which other data would exceed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(4):
            result = ntk.GaussianMMD(n_permutations=19)(seed, X, Y)
            assert result.least == np.float32(1 / 20)


def test_nan_is_no_verdict():
    """A diverged training: an error for the caller, and no word of evidence in any text."""
    deep = ntk.mlp((8, 8), activation="leaky_relu")
    options = {"network": deep, "learning_rate": 1e30, "n_permutations": 19}
    with pytest.raises(ValueError, match=r"net has no verdict: .* smaller learning_rate"):
        ntk.two_sample_test(X, Y, **options)
    result = ntk.NetMMD(**options)(0, X, Y)
    assert math.isnan(result.pvalue) and not result.reject
    assert "no verdict" in repr(result) and "no evidence" not in repr(result)
    assert result.to_dict()["reject"] is None


def test_no_option_is_ignored():
    with pytest.raises(ValueError, match="unbiased is for the symmetric statistic"):
        ntk.NTKMMD(unbiased=True)
    labels = ntk.C2ST(network=ntk.mlp(8), epochs=1, n_permutations=19)
    for score in ("logit", "accuracy"):
        permuted = dataclasses.replace(labels, score=score)(0, X, Y)
        by_law = dataclasses.replace(labels, score=score, calibration="normal")(0, X, Y)
        assert by_law.null.size == 0 and permuted.null.size == 19
        assert float(by_law.statistic) == pytest.approx(float(permuted.statistic), abs=1e-6)
        assert bool(by_law.statistic > by_law.threshold) == bool(by_law.reject)


def test_a_pilot_can_be_replaced():
    pilot = ntk.pilot_null(0, X, 15, test=ntk.NTKMMD(network=ntk.mlp(8)), n_draws=19)
    test = ntk.NTKMMD(network=ntk.mlp(8), train_fraction=None, calibration=pilot)
    assert test.calibration.word == "pilot"
    full = dataclasses.replace(test, calibration="full")
    assert full.calibration.word == "full"
