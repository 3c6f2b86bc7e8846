"""Tests that learn from points beforehand: charts and pilots hold them against others."""

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.detector import jitted_step
from ntkmmd_jax.twosample.taught import taught
from tests.conftest import LONG, binomial_band

FUSED = ntk.FusedNTK(landmarks=32)


def test_halves_are_apart():
    points = np.arange(11)
    first, second = taught(FUSED, points)
    assert [*first, *second] == [*points] and len(first) == 5
    assert all(part is points for part in taught(ntk.NTKMMD(), points))


@pytest.mark.filterwarnings("ignore:the reference is short")
def test_level_of_a_chart():
    """8 references with 100 looks each at windows that share no frame, wanted .05.

    A chart that learned from all of its reference was in alarm at more than half of them.
    """

    @jax.jit(compiler_options=LONG)
    def rate(state, key):
        _, report = jitted_step(state, jax.random.normal(key, (2000, 3)), 2000)
        return report.alarms.sum() / report.looked.sum()

    rates = []
    for seed in range(8):
        k_reference, k_stream = jax.random.split(jax.random.key(seed))
        frames = jax.random.normal(k_reference, (320, 3))
        options = {"window": 20, "stride": 20, "test": FUSED, "level": 0.05}
        begun = changepoint.init(seed, frames, n_draws=200, **options)
        assert (len(begun.reference), int(begun.frames)) == (80, 160)
        rates.append(float(rate(begun, k_stream)))
    assert np.mean(rates) < 0.05 + 3 * np.std(rates) / np.sqrt(8) < 0.2


def test_level_of_a_pilot():
    """Of one pilot, new samples at .05: it has 200 draws and a reference of its own."""
    k_reference, k_new, k_test = jax.random.split(jax.random.key(0), 3)
    reference = jax.random.normal(k_reference, (400, 3))
    pilot = ntk.pilot_null(0, reference, 30, test=FUSED, n_draws=200)
    assert len(pilot.reference) == 200

    @jax.jit(compiler_options=LONG)
    def rejections(keys, samples):
        return jax.lax.map(lambda one: pilot(*one).reject, (keys, samples), batch_size=8)

    found = rejections(jax.random.split(k_test, 300), jax.random.normal(k_new, (300, 30, 3)))
    assert abs(np.mean(found) - 0.05) < binomial_band(0.05, 300)


def test_what_is_learned_from_is_told_of():
    frames = np.random.default_rng(0).normal(size=(200, 3))
    words = r"100 frames beside 100 that the test learns from, 5\.0 windows.* (\d+) frames would"
    with pytest.warns(UserWarning, match=words) as said:
        changepoint.init(0, frames, window=20, test=FUSED, n_draws=100, level=0.05)
    assert int(str(said[0].message).split(" frames would")[0].split()[-1]) >= 240
