"""Thresholds by parts of a reference: what blocks leave of the memory of a window."""

import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.by_parts import Growth
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
        uncut / np.mean([left(c, blocks) for blocks in phases]),
        uncut / np.mean([left(c, blocks) for blocks in pairs]),
    )
    known = Dependence(jnp.asarray(c, jnp.float32), jnp.asarray(1))
    found = Growth.of(known, jnp.asarray(block), window)
    np.testing.assert_allclose(np.stack(found), expected, rtol=1e-3)  # differences of float32 sums


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
