import dataclasses

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import pandas as pd
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax.twosample import contract
from tests.conftest import compiled_tests

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), RNG.normal(size=(45, 4)) + 0.8
SMALL = ntk.mlp(32)
NTK_METHODS = ("net", "ntk", "ntk-full", "ntk-symmetric")


@pytest.fixture(scope="module")
def results():
    return {m: ntk.two_sample_test(X, Y, method=m, network=SMALL, key=3) for m in NTK_METHODS}


@pytest.mark.parametrize("method", NTK_METHODS)
def test_fields_and_semantics(results, method):
    r = results[method]
    assert isinstance(r.statistic, float) and isinstance(r.reject, bool)
    assert r.null.shape == (400,)
    exceeding = int(np.sum(r.null >= r.statistic))
    assert r.pvalue == (1 + exceeding) / 401
    assert r.reject == (r.pvalue <= r.level) == (r.statistic > r.threshold)
    assert r.reject  # a shift of 1.6 standard deviations in all
    assert (r.method, r.n_x, r.n_y, r.level) == (method, 60, 45, 0.05)
    assert r.witness(X).shape == (60,)
    assert r.witness(X).mean() > r.witness(Y).mean()
    assert method in repr(r) and "reject H0" in repr(r)


def test_level_is_compared_exactly():
    """p = 1/20 at level 0.05 rejects, whatever the rounding of either."""
    r = ntk.two_sample_test(X, Y, method="ntk", network=SMALL, n_permutations=19)
    assert r.pvalue == 0.05 and r.level == 0.05 and r.reject


def test_the_same_key_gives_the_same_answer(results):
    again = ntk.two_sample_test(X, Y, network=SMALL, key=jax.random.key(3))
    np.testing.assert_array_equal(again.null, results["net"].null)
    old_style = ntk.two_sample_test(X, Y, network=SMALL, key=jax.random.PRNGKey(3))
    assert old_style.statistic == results["net"].statistic
    other = ntk.two_sample_test(X, Y, network=SMALL, key=4)
    assert other.statistic != results["net"].statistic


def test_array_likes(results):
    for x, y in [(X.tolist(), Y.tolist()), (pd.DataFrame(X), pd.DataFrame(Y))]:
        r = ntk.two_sample_test(x, y, network=SMALL, key=3)
        assert r.statistic == results["net"].statistic
    assert ntk.two_sample_test(X[:, 0], Y[:, 0] + 2, network=SMALL).reject


def test_trained_and_exact_agree(results):
    """Same key: same split, same θ0, same permutations."""
    net, exact = results["net"], results["ntk"]
    assert net.statistic == pytest.approx(exact.statistic, rel=0.02)
    assert net.threshold == pytest.approx(exact.threshold, rel=0.05)


def test_full_and_test_only_share_the_statistic(results):
    assert results["ntk-full"].statistic == pytest.approx(results["ntk"].statistic, rel=1e-4)
    assert not np.allclose(results["ntk-full"].null, results["ntk"].null)


def test_retraining_gives_the_null_of_the_exact_kernel():
    """At small t the retrained full bootstrap is the kernel's, labelling by labelling."""
    options = {"network": SMALL, "n_permutations": 20, "key": 5}
    net = ntk.two_sample_test(X, Y, calibration="full", learning_rate=1e-4, **options)
    exact = ntk.two_sample_test(X, Y, method="ntk-full", **options)
    scale = np.abs(exact.null).max()
    np.testing.assert_allclose(net.null, exact.null, atol=1e-3 * scale)
    assert net.statistic == pytest.approx(exact.statistic, rel=1e-3)
    symmetric = {"train_fraction": None, "network": SMALL, "n_permutations": 20, "key": 5}
    net = ntk.two_sample_test(X, Y, learning_rate=1e-4, **symmetric)
    options = {name: value for name, value in symmetric.items() if name != "key"}
    exact = ntk.two_sample_test(X, Y, method=ntk.NTKMMD(standardize=True, **options), key=5)
    np.testing.assert_allclose(net.null, exact.null, atol=1e-3 * np.abs(exact.null).max())


def test_unbiased_symmetric_statistic():
    biased = ntk.two_sample_test(X, Y, method="ntk-symmetric", network=SMALL)
    unbiased = ntk.two_sample_test(X, Y, method="ntk-symmetric", network=SMALL, unbiased=True)
    assert 0 < unbiased.statistic < biased.statistic
    assert abs(unbiased.null.mean()) < 5 * unbiased.null.std() / 20


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 7},
        {"batch_size": None, "epochs": 3},
        {"momentum": 0.9, "learning_rate": 0.01},
        {"optimizer": optax.adam(1e-3)},
        {"shuffle": False},
        {"train_fraction": (0.3, 0.6)},
        {"network": ntk.mlp((16, 16), activation="relu", initialization="he", train_readout=True)},
        {
            "network": (
                lambda k, x: jax.random.normal(k, (x.shape[1],)),
                lambda w, x: jnp.tanh(x @ w),
            )
        },
    ],
    ids=lambda options: next(iter(options)),
)
def test_training_options(options):
    r = ntk.two_sample_test(X, Y, **{"network": SMALL, **options})
    assert np.isfinite(r.statistic) and 0 < r.pvalue <= 1


def test_in_order_training_alternates_x_and_y():
    """In order, the witness does not depend on the key of the order, only on split and θ0."""
    test = ntk.NetMMD(network=SMALL, shuffle=False)
    train = (jnp.asarray(X), jnp.asarray(Y))
    params = SMALL.init(jax.random.key(0), train[0])
    a, b = (test.find_witness(jax.random.key(k), params, train) for k in (1, 2))
    np.testing.assert_array_equal(a(X), b(X))


def test_a_test_is_a_pytree_that_maps():
    test = ntk.NTKMMD(network=SMALL, n_permutations=99)
    keys = jax.random.split(jax.random.key(0), 4)
    x, y = jnp.stack([X] * 4), jnp.stack([Y] * 4)
    many = jax.jit(jax.vmap(test))(keys, x, y)
    assert many.pvalue.shape == (4,) and many.null.shape == (4, 99)
    one = test(keys[2], X, Y)
    assert float(many.pvalue[2]) == float(one.pvalue)
    np.testing.assert_allclose(many.null[2], one.null, rtol=1e-3, atol=1e-5)
    assert "pvalue=" in repr(many)
    levels = jax.vmap(lambda level: dataclasses.replace(test, level=level)(keys[0], X, Y).reject)
    assert levels(jnp.asarray([0.9, 0.02])).shape == (2,)


def test_level_and_learning_rate_do_not_recompile(results):
    size = compiled_tests()
    for level, rate in [(0.05, 0.1), (0.1, 0.1), (0.05, 0.2)]:
        ntk.two_sample_test(X, Y, network=SMALL, level=level, learning_rate=rate)
    assert compiled_tests() == size
    ntk.two_sample_test(X, Y, method="ntk", network=ntk.mlp(18))
    assert compiled_tests() == size + 1


def test_shared_pool_gives_the_same_kind_of_answer():
    r = ntk.two_sample_test(X, Y, network=SMALL, shared_pool=True)
    assert r.reject and len(np.unique(r.null)) > 390


@pytest.mark.parametrize("method", NTK_METHODS)
def test_save_and_load(results, method, tmp_path):
    r = results[method]
    path = r.save(tmp_path / "result")
    assert path.name == "result.npz"
    again = ntk.TwoSampleResult.load(path)
    assert repr(again) == repr(r)
    np.testing.assert_array_equal(again.null, r.null)
    np.testing.assert_array_equal(again.witness(X), r.witness(X))


def test_own_networks_are_asked_for_when_loading(tmp_path):
    pair = (lambda k, x: jax.random.normal(k, (x.shape[1],)), lambda w, x: jnp.tanh(x @ w))
    r = ntk.two_sample_test(X, Y, network=pair)
    path = r.save(tmp_path / "own.npz")
    with pytest.raises(ValueError, match="network of your own: load it with network="):
        ntk.TwoSampleResult.load(path).witness(X)
    again = ntk.TwoSampleResult.load(path, network=pair)
    np.testing.assert_array_equal(again.witness(X), r.witness(X))
    with pytest.raises(ValueError, match="holds arrays of shapes"):
        ntk.TwoSampleResult.load(path, network=ntk.mlp(8))


def test_half_written_files_are_refused(results, tmp_path):
    path = results["ntk"].save(tmp_path / "r.npz")
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(ValueError, match="not a whole file of ours"):
        ntk.TwoSampleResult.load(path)
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(ValueError, match="not a whole file of ours"):
        ntk.TwoSampleResult.load(tmp_path / "other.npz")


def test_plot(results, tmp_path):
    ax = results["net"].plot()
    ax.figure.savefig(tmp_path / "r.png")
    assert [line.get_xdata()[0] for line in ax.lines] == [
        results["net"].threshold,
        results["net"].statistic,
    ]


def test_plot_of_a_fused_result_shows_its_members():
    result = ntk.two_sample_test(X, Y, method="ntk-fuse", n_permutations=99)
    ax = result.plot()
    null, members = ax.figure.axes
    assert null is ax and len(members.patches) == len(result.members.names)
    scores = [bar.get_width() for bar in members.patches]
    assert scores == sorted(result.members.zscore.tolist(), reverse=True)
    alone = result.plot(ax=plt.figure().subplots())
    assert len(alone.figure.axes) == 1  # axes given are for the null alone
    plt.close("all")


def test_nan_never_passes_silently():
    """Under jit nothing can raise: the p-value is NaN, and nothing is rejected."""
    bad = X.copy()
    bad[0] = np.nan
    r = ntk.NTKMMD(network=SMALL)(jax.random.key(0), bad, Y)
    assert np.isnan(r.pvalue) and not r.reject


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ntk.two_sample_test(np.full((9, 2), np.nan), X[:, :2]), ValueError, "x has NaN"),
        (lambda: ntk.two_sample_test(X, np.full((9, 4), np.inf)), ValueError, "y has NaN or inf"),
        (lambda: ntk.two_sample_test([], Y), ValueError, "x is empty"),
        (lambda: ntk.two_sample_test(X[:1], Y), ValueError, "x has 1 sample"),
        (lambda: ntk.two_sample_test(X, Y[:, :3]), ValueError, "different features"),
        (lambda: ntk.two_sample_test(X + 1j, Y), ValueError, "real numbers; got dtype complex"),
        (lambda: ntk.two_sample_test([["a"], ["b"]], Y), ValueError, "real numbers"),
        (lambda: ntk.two_sample_test(X, Y, level=0), ValueError, r"level must lie in \(0, 1\)"),
        (lambda: ntk.two_sample_test(X, Y, n_permutations=10), ValueError, "at least 19 permut"),
        (
            lambda: ntk.two_sample_test(X, Y, method="ntkk"),
            ValueError,
            r"unknown method 'ntkk' \(did you mean 'ntk'\?\); the known ones are net, ntk",
        ),
        (lambda: ntk.two_sample_test(X, Y, width=3), TypeError, r"no option \['width'\]; it has"),
        (lambda: ntk.two_sample_test(X, Y, key="a"), TypeError, "key must be an int seed"),
        (
            lambda: ntk.two_sample_test(X, Y, method=ntk.NTKMMD(), unbiased=True),
            TypeError,
            "carries its own options",
        ),
        (
            lambda: ntk.two_sample_test(X, Y, method=ntk.NTKMMD(), level=0.1),
            TypeError,
            "carries its own level",
        ),
        (
            lambda: ntk.two_sample_test(X, Y, network=(lambda k, x: 0.0, lambda w, x: w * x)),
            ValueError,
            r"one number per sample.*shape \(1?\d+, 4\)",
        ),
        (lambda: ntk.NTKMMD(calibration="exact"), ValueError, r"use one of \('test', 'full', 'n"),
        (
            lambda: ntk.NTKMMD(train_fraction=None, calibration="test"),
            ValueError,
            r"does not apply to NTKMMD without a split; use one of \('full', 'asym",
        ),
        (lambda: ntk.NetMMD(train_fraction=1.2), ValueError, r"must lie in \(0, 1\); got 1.2"),
        (lambda: ntk.NetMMD(epochs=0), ValueError, "epochs must be a whole number"),
        (
            lambda: ntk.NetMMD(calibration="full", shuffle=False),
            ValueError,
            "use shuffle=True",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_keys():
    assert as_key(np.int64(3)) == jax.random.key(3)
    for bad in (True, 1.5, jax.random.split(jax.random.key(0))):
        with pytest.raises(TypeError, match="int seed or one JAX key"):
            as_key(bad)


def test_many_sizes_do_not_keep_all_their_programs(monkeypatch):
    """Each holds hundreds of memory maps, which run out: then XLA would crash."""
    monkeypatch.setattr(contract, "_PROGRAMS", 3)
    contract.run_program.clear_cache()
    for n in range(8, 13):
        ntk.Hotelling()(0, X[:n], Y)
        assert contract.run_program._cache_size() <= 3
