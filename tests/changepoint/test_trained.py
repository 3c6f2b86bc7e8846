"""Thresholds of a trained network by its tangent kernel, beside those for which it trains."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import lfilter

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.by_parts import of_test
from ntkmmd_jax.changepoint.chart import chart_test, make_chart
from ntkmmd_jax.changepoint.law import World
from ntkmmd_jax.changepoint.threshold import Wanted
from ntkmmd_jax.changepoint.trained import of_trained, tangent_rows

WINDOW, USED = 20, 80


@pytest.fixture(scope="module")
def thresholds():
    """Of `net` as charts have it, by its kernel and by 400 windows on which it trains."""
    frames = jnp.asarray(np.random.default_rng(0).normal(size=(512, 3)), jnp.float32)
    made = make_chart(
        jax.random.key(0), chart_test("net", WINDOW), frames, WINDOW, standardize=True
    )
    given = made.standard(frames), jnp.asarray(512)
    wanted = Wanted(window=WINDOW, stride=10, level=0.05, arl=None, draws=2000, block=None)
    rows, key = tangent_rows(made, frames), jax.random.key(1)
    by_kernel = of_trained(key, made, rows, *given, wanted, size=USED)
    fewer = dataclasses.replace(wanted, draws=400)
    return by_kernel, of_test(key, made, *given, fewer, size=USED)


def test_thresholds_agree(thresholds):
    by_kernel, by_training = (float(found.value) for found in thresholds)
    low, high = thresholds[1].interval  # ± 1.96 errors, of the one with fewer draws
    assert abs(np.log(by_kernel / by_training)) < np.log(high / low)


def test_intervals_know_their_draws(thresholds):
    """20 alarms among 400 draws say less than 100 among 2,000, of the same reference."""
    narrow, wide = (float(np.log(found.interval[1] / found.interval[0])) for found in thresholds)
    assert narrow < 0.9 * wide


def test_a_user_gets_that_threshold():
    """`init` takes the law of the kernel: with all frames in use, T_NTK has nearly the same."""
    frames = np.random.default_rng(1).normal(size=(4 * WINDOW, 2))
    network = ntk.mlp(32)
    trained = ntk.NetMMD(network, learning_rate=1e-3, train_fraction=None)
    exact = ntk.NTKMMD(network, train_fraction=None)
    with pytest.warns(UserWarning, match="the reference is short"):
        ours, theirs = (
            changepoint.init(0, frames, window=WINDOW, test=test) for test in (trained, exact)
        )
    assert abs(float(ours.threshold / theirs.threshold) - 1) < 0.1  # keys of 20 alarms each


@pytest.mark.parametrize("used", [300, 60], ids=["all", "some"])
def test_the_mean_of_t_with_some_frames_in_use(used):
    """E T of windows and references of an autoregression, of which some frames are used."""
    rng, n, window = np.random.default_rng(0), 300, 60

    def series(length):
        noise = rng.normal(size=(4000, 50 + length, 4))
        return lfilter([0.75**0.5], [1, -0.5], noise, axis=1)[:, 50:]

    references = series(n)
    gaps = references[:, np.arange(used) * n // used].mean(1) - series(window).mean(1)
    expected = np.sum(gaps**2, axis=-1)

    def mean_of_t(frames):
        centred = frames - frames.mean(0)
        world = World.of(centred @ centred.T, n, window, used=used)
        return world.moments.mean[-1] / (1 + world.own)

    found = jax.jit(jax.vmap(mean_of_t))(jnp.asarray(references[:64], jnp.float32))
    error = np.hypot(expected.std() / np.sqrt(4000), np.std(found) / np.sqrt(64))
    assert abs(np.mean(found) - expected.mean()) < 3 * error < 0.1 * expected.mean()
