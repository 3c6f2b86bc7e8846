"""References in buckets: another length is no new program, and nothing but rounding changes."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax._lib import padding
from ntkmmd_jax.changepoint import by_parts, chart, cusum, law, state
from ntkmmd_jax.changepoint.by_rows import world_of
from ntkmmd_jax.changepoint.rows import GaussianRows, Memory
from tests.changepoint.test_law import KERNELS

NETWORK = ntk.mlp(16)
CHARTS = {
    "a kernel": {"test": ntk.NTKMMD(network=NETWORK)},
    "all lengths": {"test": ntk.NTKMMD(network=NETWORK), "shortest": 3},
    "a run length": {"test": ntk.GaussianMMD(bandwidth=1.0), "arl": 100, "after": "rereference"},
    "no kernel": {"test": "hotelling"},
    "no kernel, a run length": {"test": "hotelling", "arl": 100},
    "CUSUM": {"test": ntk.NTKMMD(network=NETWORK), "drift": 0.5},
    "CUSUM, trained": {
        "test": ntk.NetMMD(network=NETWORK, learning_rate=0.1, train_fraction=None),
        "drift": 0.5,
        "n_draws": 20,
        "level": 0.1,
    },
}
pytestmark = pytest.mark.filterwarnings("ignore:the reference is short")


def frames(n, d=3, rho=0.4, seed=0):
    """An autoregression, so that blocks are longer than a frame."""
    noise = np.random.default_rng(seed).normal(size=(n, d))
    for i in range(1, n):
        noise[i] += rho * noise[i - 1]
    return noise.astype(np.float32)


@pytest.mark.parametrize("name", CHARTS)
def test_a_bucket_changes_nothing(name, monkeypatch):
    reference, stream = frames(150), frames(80, seed=1)

    def run():
        begun = changepoint.init(3, reference, window=20, stride=5, **CHARTS[name])
        return begun, *changepoint.step(begun, stream)

    padded = run()
    monkeypatch.setattr(padding, "bucket", lambda n: n)
    exact = run()
    lengths = [len(jax.tree.leaves(one[0].pending)[0]) for one in (padded, exact)]
    if name == "a run length":  # it has room for a new reference
        assert lengths == [256 + state.BLOCK, 150 + state.BLOCK]
    # Sums over n numbers round by n^½ eps each; a quantile takes one of them, or its neighbour.
    close = {"rtol": 2e-4, "atol": 1e-5}
    for field in ("threshold", "threshold_interval"):
        np.testing.assert_allclose(*(getattr(one[0], field) for one in (padded, exact)), **close)
    for before, after in zip(*(jax.tree.leaves(one[2]) for one in (padded, exact)), strict=True):
        np.testing.assert_allclose(np.asarray(before), np.asarray(after), **close)
    if CHARTS[name]["test"] != "hotelling":  # which has no witness that shows coordinates
        told = [changepoint.explain(one[1]).scores for one in (padded, exact)]
        np.testing.assert_allclose(*told, rtol=1e-3, atol=1e-4)


def test_the_law_of_a_bucket():
    reference = jnp.asarray(frames(150))
    rows = GaussianRows(jnp.ones(1))
    filled, n, known = padding.rows_in_bucket(reference)
    assert (len(filled), int(n), known) == (256, 150, 129)
    exact, padded = world_of(rows, reference, 20), world_of(rows, filled, 20, n=n)
    assert int(exact.block) == int(padded.block) > 1
    assert int(exact.remembers.order) == int(padded.remembers.order)
    for a, b in zip(jax.tree.leaves(exact), jax.tree.leaves(padded), strict=True):
        b = np.asarray(b)[tuple(slice(k) for k in np.shape(a))]  # without the padding
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)
    assert not np.any(padded.gram[150:]) and not np.any(padded.gram[:, 150:])
    memories = Memory.of(rows, reference, 20, 64), Memory.of(rows, filled, 20, 64, n)
    np.testing.assert_allclose(*(one.offset for one in memories), rtol=1e-5)
    gaps = [rows.against(one.mean, reference[:5]) for one in memories]
    np.testing.assert_allclose(*gaps, rtol=1e-5)


@pytest.fixture
def programs():
    """The names of what JAX compiles meanwhile."""
    names, logger = [], logging.getLogger("jax._src.interpreters.pxla")
    handler = logging.Handler()
    handler.emit = lambda said: names.append(said.getMessage().split(" with ")[0])
    with jax.log_compiles():
        logger.addHandler(handler)
        logger.propagate, before = False, logger.propagate
        yield names
        logger.removeHandler(handler)
        logger.propagate = before


@pytest.mark.parametrize("name", ["a kernel", "all lengths", "no kernel", "CUSUM"])
def test_another_length_is_no_program(name, programs):
    """Of 20 lengths in one bucket the first compiles all, in `init` and in `step`."""

    def watch(n):
        begun = changepoint.init(0, frames(n), window=20, **CHARTS[name])
        changepoint.step(begun, frames(40, seed=2))

    lengths = np.linspace(480, 512, 20, dtype=int).tolist()
    watch(lengths[0])
    assert any("jitted_step" in one for one in programs)  # they are seen
    programs.clear()
    for n in lengths[1:]:
        watch(n)
    assert programs == []


@pytest.mark.parametrize("n", [64, 65, 128, 1000, 1025, 1280, 1281, 3000])
def test_least_of_a_bucket(n):
    size = padding.bucket(n)
    assert padding.bucket(padding.least(size)) == size
    assert padding.least(size) == 1 or padding.bucket(padding.least(size) - 1) < size


def test_few_rows_have_their_own_shape():
    rows, n, known = padding.rows_in_bucket(np.ones((30, 2)))
    assert (len(rows), int(n), known) == (30, 30, 30)


@pytest.mark.parametrize(("n", "size"), [(10, 4), (7, 7), (1000, 37), (3, 5)])
def test_evenly_is_the_floor_of_a_ratio(n, size):
    expected = np.arange(size) * n // size
    np.testing.assert_array_equal(padding.evenly(n, size), expected)
    np.testing.assert_array_equal(padding.evenly(jnp.asarray(n), size), expected)


def test_evenly_does_not_overflow():
    n, size = 2_000_000_000, 4000
    expected = np.arange(size, dtype=np.int64) * n // size
    np.testing.assert_array_equal(padding.evenly(jnp.asarray(n, jnp.int32), size), expected)


@pytest.mark.parametrize("block", [1, 6])
def test_eta_by_rows_is_a_sum_over_pairs(block):
    """⟨φ_learned − φ_old, φ_scored − φ_new⟩ pair by pair; frames that meet by chance share none."""
    test = ntk.NTKMMD(network=NETWORK).for_pairs()
    reference = jnp.asarray(frames(96))
    made = chart.make_chart(jax.random.key(0), test, reference, 20, standardize=True, held=5)
    standard, n = made.standard(reference), jnp.asarray(96)
    rows = state.kernel_rows(made, 20)
    world, growth = by_parts.world_and_growth(rows, standard, n, 20, block, 80)
    gram = np.asarray(world.gram)
    keys = jax.random.split(jax.random.key(1), 6)
    options = {"window": 20, "size": 80, "looks": (20, 25, 60)}
    found, _ = cusum._gains_by_rows(keys, made, world, growth.phased, **options)
    some = chart.learned(80, 20)
    shared = float(cusum._shared(world, some))
    link, kept_of_link = map(float, cusum._links(world, 20, 5))
    assert (shared > 0) == (int(world.remembers.order) > 0)  # neighbours are alike, if any
    assert (kept_of_link > 0) == (block > 1) and link >= kept_of_link

    def product(left, right, lags=None):
        ahead = (left[:, None] - right) % 96
        chance = np.minimum(ahead, 96 - ahead) < block
        if lags is not None:
            chance &= ahead != lags % 96
        return np.where(chance, 0, gram[left[:, None], right]).mean()

    for key, gains in zip(keys, found, strict=True):
        k_reference, k_stream, k_scale = jax.random.split(key, 3)
        kept = np.asarray(law.resampled(k_reference, world.block, world.n, 80))
        stream = np.asarray(law.resampled(k_stream, world.block, world.n, 60))
        _, scale = world.reference(jax.random.uniform(k_scale, (len(world.gram),)))
        of_learned, of_scored = kept[some], kept[~some]
        for at, gain in zip(options["looks"], gains, strict=True):
            old, new = stream[at - 20 : at - 5], stream[at - 5 : at]
            lags = np.arange(15)[:, None] - np.arange(15, 20)
            eta = product(of_learned, of_scored) - product(of_learned, new)
            eta += product(old, new, lags) - product(old, of_scored)
            expected = (eta - kept_of_link) * float(growth.phased / scale) + link + shared
            assert float(gain) == pytest.approx(expected, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("name", ["two layers", "deep", "gmmd"])
def test_a_look_of_a_cusum_is_that_of_a_witness(name):
    """η from two means of the reference, and by a witness that learns and scores all of it."""
    options = {"window": 20, "stride": 5, "drift": 0.5, "threshold": 1.0, "n_draws": 20}
    begun = changepoint.init(0, frames(150), test=KERNELS[name], **options)
    recent = begun.chart.standard(jnp.asarray(frames(20, seed=4)))
    fast = begun.cusum.halves.gain(begun.kernel, recent[:-5], recent[-5:])
    slow = begun.chart(jax.random.key(0), begun.reference, recent)
    assert float(fast) == pytest.approx(float(slow), rel=2e-3, abs=1e-5)


@pytest.mark.parametrize("name", ["a kernel", "all lengths", "no kernel", "CUSUM"])
def test_double_precision(name):
    """With 64-bit numbers a detector runs, and sees what it sees without, but for its draws."""
    reference, stream = frames(150), np.concatenate([frames(40, seed=1), frames(40, seed=2) + 4])

    def run():
        begun = changepoint.init(3, reference, window=20, stride=5, **CHARTS[name])
        return changepoint.step(begun, stream)[1]

    single = run()
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        double = run()
        assert double.statistics.dtype == np.float64
    np.testing.assert_array_equal(single.looked, double.looked)
    assert double.alarms[40:].any()
