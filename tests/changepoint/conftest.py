"""A small series with a change, charts of four kinds, and options that are quick."""

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk

NETWORK = ntk.mlp(16)
EXACT = ntk.NTKMMD(network=NETWORK)
TESTS = {
    "ntk": EXACT,
    "net": ntk.NetMMD(network=NETWORK, learning_rate=0.001, momentum=0.9),
    "gmmd": ntk.GaussianMMD(),
    "hotelling": ntk.Hotelling(),
}
QUICK = {"window": 12, "stride": 4, "threshold": 1.0}


@pytest.fixture(scope="package")
def series():
    """90 frames in three coordinates; from 60 on the last one has mean 3."""
    frames = np.random.default_rng(0).normal(size=(90, 3)).astype(np.float32)
    frames[60:, 2] += 3
    return frames


def swinging(frequency, jitter, noise):
    """1,600 frames of steps in four coordinates, which cancel in windows of whole periods."""
    rng = np.random.default_rng(0)
    phase = np.cumsum(2 * np.pi * frequency * (1 + jitter * rng.normal(size=1600)))
    swings = [np.sin(k * phase + at) for k, at in ((1, 0), (2, 0.5), (1, 1.2), (3, 0.3))]
    return np.stack(swings, 1) + noise * rng.normal(size=(1600, 4))


def same(a, b):
    """Whether two pytrees are the same, to the bit."""
    raw = [jax.random.key_data(x) if x.dtype == jax.random.key(0).dtype else x
           for tree in (a, b) for x in jax.tree.leaves(tree)]  # fmt: skip
    half = len(raw) // 2
    return all(
        np.array_equal(x, y, equal_nan=True) for x, y in zip(raw[:half], raw[half:], strict=True)
    )
