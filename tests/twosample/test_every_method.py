"""Every method as a chart, as a pilot, explained; in a sweep, see tests/power/test_sweep.py."""

import dataclasses

import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint

SMALL = {
    "network": ntk.mlp(4, train_readout=True),
    "epochs": 1,
    "steps": 2,
    "n_locations": 1,
    "n_permutations": 19,
}


def small(method):
    test = ntk.make_test(method)
    names = {field.name for field in dataclasses.fields(test)}
    own = {name: value for name, value in SMALL.items() if name in names}
    return dataclasses.replace(test, **own)


@pytest.fixture(scope="module")
def series():
    """80 frames in two coordinates; from 60 on all is ten times as large, and 8 further."""
    frames = np.random.default_rng(0).normal(size=(80, 2)).astype(np.float32)
    frames[60:] = 10 * frames[60:] + 8
    return frames


@pytest.mark.filterwarnings("ignore:the reference is short")
@pytest.mark.parametrize("method", ntk.methods())
def test_as_a_chart(series, method, tmp_path):
    options = {"window": 16, "stride": 4, "n_draws": 19, "level": 0.05}
    known = 64 if small(method).fits else 32  # of which the test learns from a half
    found = changepoint.scan(0, series, reference=known, test=small(method), **options)
    assert np.isfinite(found.statistics).all() and np.isfinite(found.threshold)
    detector = changepoint.Detector(0, series[:known], test=small(method), time=known, **options)
    report = detector.update(series[known:])
    np.testing.assert_allclose(
        report.statistics[report.looked], found.statistics, rtol=1e-3, atol=1e-5
    )
    detector.save(tmp_path / "state.npz")
    network = {"network": SMALL["network"]}
    again = changepoint.Detector.load(tmp_path / "state.npz", **network)
    assert again.state.chart.test.method == detector.state.chart.test.method
    if method == "gmmd-lin":
        with pytest.raises(ValueError, match="gmmd-lin has no witness"):
            changepoint.explain(detector.state)
    else:
        assert changepoint.explain(detector.state).scores.shape == (16,)


@pytest.mark.parametrize("method", ntk.methods())
def test_as_a_pilot(series, method, tmp_path):
    known = 76 if small(method).fits else 60
    pilot = ntk.pilot_null(0, series[:known], (20, 16), test=small(method), n_draws=19)
    assert np.isfinite(pilot.null).all()
    report = pilot(1, series[-16:])
    assert 1 / 20 <= float(report.pvalues) <= 1
    loaded = ntk.PilotNull.load(pilot.save(tmp_path / "pilot.npz"))
    assert float(loaded(1, series[-16:]).statistics) == float(report.statistics)
    test = dataclasses.replace(pilot.test, calibration=pilot)
    result = test(0, series[:20], series[-16:])
    assert result.null.shape == (19,) and 1 / 20 <= float(result.pvalue) <= 1


# Every kind of witness once: those of ntk-full, c2st-s, … are of these kinds.
WITNESSES = ["net", "ntk-fuse", "bet", "gmmd-lin", "mmd-fuse", "hotelling", "c2st-l", "me"]


@pytest.mark.parametrize("method", WITNESSES)
def test_explained(series, method):
    x, y = series[:40], series[-40:]  # of which the later half has changed
    result = ntk.two_sample_test(x, y, method=small(method))
    if method == "gmmd-lin":
        with pytest.raises(ValueError, match="gmmd-lin has no witness"):
            result.explain(x, y)
        return
    found = result.explain(x, y, n_permutations=19, rows=1)
    assert set(found.driving) == {"0", "1"} and np.isfinite(found.shares).all()
    highest = int(np.argmax(result.witness(x)))
    assert result.witness(x[found.most_x.rows])[0] == pytest.approx(result.witness(x)[highest])
    assert np.isfinite(found.map.grid[2]).all()
