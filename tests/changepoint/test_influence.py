"""What a reference says of the mean of T, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.influence import spread_of_mean

DIM, N, W, R, DRAWS = 5, 300, 50, 200, 2000


def draws(rng, repeated):
    """Windows of blocks of equal frames, and T = |mean of a window − mean of R others|²."""
    frames = np.repeat(rng.normal(size=(N // repeated, DIM)), repeated, axis=0)
    blocks = np.argsort(rng.random((DRAWS, N // repeated)), axis=1)
    order = (repeated * blocks[:, :, None] + np.arange(repeated)).reshape(DRAWS, N)
    gap = frames[order[:, :W]].mean(1) - frames[order[:, W : W + R]].mean(1)
    return jnp.asarray((gap**2).sum(1)), jnp.asarray(order[:, :W])


@pytest.mark.parametrize("repeated", [1, 5])
def test_spread_of_the_mean_of_t(repeated):
    """E T = (L/w + L/r) tr S, and tr S of n/L independent frames has variance 2 d L / n."""
    rng = np.random.default_rng(0)
    squares = [
        float(spread_of_mean(*draws(rng, repeated), N, jnp.asarray(repeated), R)) ** 2
        for _ in range(48)
    ]
    expected = 2 * DIM * repeated / N * (repeated / W + repeated / R) ** 2
    error = np.std(squares, ddof=1) / len(squares) ** 0.5
    assert np.mean(squares) == pytest.approx(expected, abs=4 * error, rel=0.1)
    assert error < 0.15 * expected  # else the line above says nothing


def test_frames_without_influence_say_nothing():
    """T that is independent of its window: what chance adds is subtracted, up to its own chance."""
    rng = np.random.default_rng(1)
    _, windows = draws(rng, 1)
    values = jnp.asarray(rng.normal(size=DRAWS))
    found = float(spread_of_mean(values, windows, N, jnp.asarray(1), R))
    chance = (1 + W / R) * (W / (DRAWS * (1 - W / N))) ** 0.5  # of the spread of T
    assert found < chance * (4 * (2 / N) ** 0.5) ** 0.5


def test_a_fused_statistic_of_equal_samples_is_its_centre():
    test = ntk.FusedNTK(landmarks=32)
    points = jnp.asarray(np.random.default_rng(2).normal(size=(64, 3)), jnp.float32)
    prepared = test.prepare(jax.random.key(0), points)
    found = test.statistic(jax.random.key(1), prepared, points, points)
    assert float(test.null_centre(prepared)) == pytest.approx(float(found), rel=1e-2)
    assert float(found) < -1


def test_a_short_reference_of_a_test_that_learned_is_told_of():
    """By the scale of a Gaussian kernel it was not: 1.7 % false alarms in place of 1."""
    frames = np.random.default_rng(3).normal(size=(600, 5))
    with pytest.warns(UserWarning, match="300 frames beside 300 that the test learns from"):
        changepoint.init(0, frames, window=50, test="ntk-fuse")
