"""Thresholds by parts of a reference: what blocks leave of the memory of a window."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import lfilter

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint import by_parts
from ntkmmd_jax.changepoint.by_parts import Growth, near, of_form, world_and_growth
from ntkmmd_jax.changepoint.chart import make_chart
from ntkmmd_jax.changepoint.dependence import Dependence
from tests.changepoint.conftest import swinging

LAGS = np.arange(80)
MEMORIES = {"decay": 0.8**LAGS, "swing": 0.97**LAGS * np.cos(2 * np.pi * LAGS / 9)}


def left(c, blocks):
    """E |mean|² of frames that remember each other within blocks only, by all pairs."""
    i = np.arange(len(blocks))
    same = blocks[:, None] == blocks
    return (c[np.abs(i[:, None] - i)] * same).sum() / len(blocks) ** 2


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("block", [1, 7, 20, 33])
def test_growth_is_what_blocks_cut(memory, block):
    c, window = MEMORIES[memory], 33
    at = np.arange(window)
    uncut = left(c, np.zeros(window))
    phases = [(at + phase) // block for phase in range(block)]
    pairs = [100 * first + second for first in phases for second in phases]
    expected = (
        uncut / left(c, at // block),
        uncut / np.mean([left(c, blocks) for blocks in pairs]),
        uncut / np.mean([left(c, blocks) for blocks in phases]),
    )
    known = Dependence(jnp.asarray(c, jnp.float32), jnp.asarray(1))
    # In a reference of many frames, of which all are used, its own share goes to 0.
    found = Growth.of(known, jnp.asarray(block), window, 10**7, 10**7)
    np.testing.assert_allclose(np.stack(found), expected, rtol=1e-3)  # differences of float32 sums


@pytest.mark.parametrize("kind", ["whole", "shuffled"])
@pytest.mark.parametrize("used", [132, 200], ids=["some", "all others"])
@pytest.mark.parametrize("memory", [0.0, 0.8], ids=["none", "decay"])
def test_growth_of_parts_of_a_reference(memory, used, kind):
    """E T of a window and a reference, over that of parts of a reference, by all pairs."""
    c, n, window, block, rng = memory ** np.arange(400), 400, 33, 7, np.random.default_rng(0)
    at = np.arange(n)
    apart = np.abs(at[:, None] - at)
    covariances = c[np.minimum(apart, n - apart)]

    def variance(weights):
        return weights @ covariances @ weights

    def parted():
        order = np.argsort(rng.uniform(size=n)[(at + rng.integers(n)) % n // block], kind="stable")
        if kind == "whole":
            cut, picked = window, np.arange(window)
        else:
            cut, place = n // 2, np.arange(window) + rng.integers(block)
            picked = (rng.integers(cut, size=n)[place // block] + place % block) % cut
        rest, weights = np.sort(order[cut:]), np.zeros(n)
        np.add.at(weights, order[picked], 1 / window)
        weights[rest[np.arange(used) * len(rest) // used]] -= 1 / used
        return variance(weights)

    some, seen = np.zeros(n), np.where(at < window, 1 / window, 0)
    some[np.arange(used) * n // used] = 1 / used
    draws = np.array([parted() for _ in range(600)])
    expected = (variance(seen) + variance(some)) / draws.mean()
    known = Dependence(jnp.asarray(c[:200], jnp.float32), jnp.asarray(1))
    found = getattr(Growth.of(known, jnp.asarray(block), window, used, n), kind)
    error = 4 * draws.std() / draws.mean() / np.sqrt(len(draws))
    # Beside it, a first order in the share of the frames that a window has, a twelfth.
    assert abs(float(found) / expected - 1) < error + 1 / 12**2


@pytest.mark.parametrize("features", [10, 30])
def test_t_squared_of_blocks_falls_by_more(features):
    """Than the variance of their mean, by simulation with the same noise for both."""
    rho, window, used, block, rng = 0.5, 30, 60, 6, np.random.default_rng(0)
    at, draws = np.arange(window), 20_000
    whole = rho ** np.abs(at[:, None] - at)
    cut = np.where(at[:, None] // block == at // block, whole, 0)
    noise, others = (rng.normal(size=(draws, n, features)) for n in (window, used))

    def centred(points):
        return points - points.mean(1, keepdims=True)

    def forms(covariance):
        frames = np.linalg.cholesky(covariance) @ noise
        scatter = sum(part.mT @ part for part in map(centred, (frames, others)))
        gap = (frames.mean(1) - others.mean(1))[..., None]
        return (gap * np.linalg.solve(scatter, gap)).sum((1, 2))

    of_whole, of_cut = forms(whole), forms(cut)
    by_means = (whole.mean() + 1 / used) / (cut.mean() + 1 / used)
    known = Dependence(jnp.asarray(rho**LAGS, jnp.float32), jnp.asarray(1))
    found = by_means * float(of_form(known, jnp.asarray(block), window, used, features))
    off = of_whole / found - of_cut
    error = off.std() / np.sqrt(draws)
    short = (of_whole / by_means - of_cut).mean()  # without it
    assert short > 4 * error and abs(off.mean()) < 4 * error + short / 3  # a first order


def test_t_squared_remembers_as_frames_do():
    """(1 + ρ)/(1 − ρ) = 3; the features of a Gaussian kernel, which it had, forget sooner (2.6)."""
    noise = np.random.default_rng(0).normal(size=(2000, 20))
    frames = jnp.asarray(lfilter([0.75**0.5], [1, -0.5], noise, axis=0), jnp.float32)
    made = make_chart(jax.random.key(0), ntk.Hotelling(), frames, 50, standardize=True)
    world, _ = world_and_growth(near(made, frames), made.standard(frames), 2000, 50, None, 200)
    # An error of ρ is √((1 − ρ²) / 40,000), of which the memory has 2 / (1 − ρ)² = 8 times.
    assert abs(float(world.remembers.time) - 3) < 4 * 8 * np.sqrt(0.75 / 40_000)


@pytest.mark.parametrize("test", ["ntk-fuse", "gmmd"])
def test_places_of_frames_say_what_frames_do(test):
    """Some of them drawn twice, as in streams of blocks."""
    frames = jnp.asarray(np.random.default_rng(0).normal(size=(300, 3)), jnp.float32)
    key, places = jax.random.key(0), jnp.concatenate([jnp.arange(20), jnp.arange(10, 30)])
    made = make_chart(key, ntk.make_test(test), frames, 40, standardize=True)
    others = jnp.arange(60, 280)
    found = made.between(frames)(key, others, places)
    np.testing.assert_allclose(found, made(key, frames[others], frames[places]), rtol=1e-3)


NET = ntk.NetMMD(ntk.mlp(32), batch_size=None, train_fraction=None)


@pytest.mark.parametrize("options", [{}, {"drift": 0.5}], ids=["T", "CUSUM"])
def test_windows_that_cancel(options):
    """Nothing changes: 7 % of the looks were in alarm, and the CUSUM had no threshold.

    Blocks as long as the window cut nothing of it, but what they left was taken for that of blocks
    at any phase, in which swings do not cancel.
    """
    frames = swinging(frequency=0.02, jitter=0.03, noise=0.1)
    with pytest.warns(UserWarning, match="the reference is short"):
        found = changepoint.scan(0, frames, reference=800, window=100, test=NET, **options)
    assert not found.alarms.any()


@pytest.mark.filterwarnings("ignore:the reference is short")
def test_streams_of_a_test_that_learned_have_the_law_of_its_pairs(monkeypatch):
    """Whatever units theirs are in: its T has no known growth with the sizes of both."""
    frames = np.random.default_rng(0).normal(size=(240, 3))
    test = ntk.FusedNTK((ntk.Scale(0.25, times=(0.0,)),), landmarks=16)
    options = {"window": 20, "arl": 200, "n_draws": 20, "test": test}
    plain, streams = changepoint.init(0, frames, **options), by_parts._streams

    def moved(*given, **sizes):
        values, scales = streams(*given, **sizes)
        return 5 + 3 * values, scales

    monkeypatch.setattr(by_parts, "_streams", moved)
    again = changepoint.init(0, frames, **options)
    np.testing.assert_allclose(again.threshold, plain.threshold, rtol=1e-4)
