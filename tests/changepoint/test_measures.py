"""Run lengths and delays by simulation; where and what has changed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.live import Detector
from tests.changepoint.conftest import QUICK, TESTS


def normals(key, n):
    return jax.random.normal(key, (n, 2))


def shifted(key, n, size):
    return normals(key, n) + size


def test_run_length_and_delays():
    """ARL as wanted: 20 % beside 4 errors of calibration (7 %) and simulation; EDD falls."""
    pool = normals(jax.random.key(5), 1000)
    options = {"window": 20, "stride": 10, "test": ntk.NTKMMD(network=ntk.mlp(8))}
    state = changepoint.init(0, pool, arl=400, **options)
    found = changepoint.run_lengths(1, state, normals, n_runs=300, horizon=800)
    assert abs(found.mean / 400 - 1) < 0.2 + 4 * np.hypot(0.07, found.error / found.mean)
    delays = [
        changepoint.run_lengths(
            2, state, shifted, before=normals, n_runs=100, horizon=300, size=size
        )
        for size in (0.5, 1.0, 3.0)
    ]
    means = [one.mean for one in delays]
    assert means[0] > means[1] > means[2] >= 10
    assert delays[2].missed == 0


def test_delays_of_scans_and_of_simulated_streams_are_the_same():
    """One series, a change at frame 60 that every window sees at once: both count to its look."""

    def before(key, n):
        return jnp.zeros((n, 1)) + jnp.tile(jnp.array([[-1.0], [1.0]]), (n // 2, 1))

    def after(key, n):
        return before(key, n) + 1000

    series = np.concatenate([before(None, 60), after(None, 20)])
    for stride in (1, 4):
        options = {"window": 12, "stride": stride, "test": "gmmd", "threshold": 1e-3}
        scan = changepoint.scan(0, series, reference=24, **options)
        state = changepoint.init(0, series[:24], **options)
        found = changepoint.run_lengths(0, state, after, before=before, n_runs=1, horizon=20)
        assert scan.delay(60) == int(found.lengths[0]) == stride
    one = changepoint.Scan(
        jnp.array([59, 60, 61]), jnp.array([0.0, 2.0, 2.0]), jnp.array(1.0), jnp.ones(2),
        window=2, stride=1, reference=(0, 9), method="ntk",
    )  # fmt: skip
    assert one.delay(60) == 1 and one.delay(59) == 2 and one.delay(61) == 1
    assert one.delay(62) is None


def test_run_lengths_that_end_early():
    """The first look apart; then frames watched over alarms raised."""
    lengths, alarmed = jnp.array([10, 10, 40, 100]), jnp.array([False, True, True, False])
    found = changepoint.RunLengths(lengths.at[0].set(100), alarmed, horizon=100, first=10)
    assert found.mean == 10 + 3 / 4 * (90 + 30 + 90)
    assert found.missed == 0.5
    all_of_them = changepoint.RunLengths(lengths, lengths > 0, horizon=100, first=10)
    assert all_of_them.mean == 40 and all_of_them.error == pytest.approx(np.std(lengths) / 2)
    none = changepoint.RunLengths(jnp.array([100]), jnp.array([False]), horizon=100)
    assert none.mean == float("inf")


def test_run_lengths_do_not_depend_on_the_horizon():
    """ARL 1,000 with window 50 and p = 5 % at the first look; 4 errors of 20,000 streams."""
    rng = np.random.default_rng(0)
    wait = rng.geometric(1 / 1000, size=20_000)
    lengths = 50 + np.where(rng.random(20_000) < 0.05, 0, wait)
    for horizon in (100, 400, 10**6):
        cut = np.minimum(lengths, horizon), lengths <= horizon
        found = changepoint.RunLengths(*cut, horizon=horizon, first=50)
        assert abs(found.mean - (50 + 0.95 * 1000)) < 4 * 1000 / np.sqrt(cut[1].sum())


@pytest.mark.parametrize("name", ["ntk", "gmmd", "hotelling"])
def test_where_and_what_has_changed(series, name):
    detector = Detector(0, series[:30], test=TESTS[name], time=30, **QUICK)
    with pytest.raises(ValueError, match="not full"):
        changepoint.explain(detector.state)
    detector.update(series[30:66])
    found = changepoint.explain(detector.state)
    assert abs(int(found.change) - 60) <= 1
    assert found.gradient[2] < 0  # the new frames are higher there
    if name != "hotelling":  # whose direction is that of an inverse covariance of 24 frames
        assert found.coordinates[0] == 2
    assert found.scores.shape == (12,)
