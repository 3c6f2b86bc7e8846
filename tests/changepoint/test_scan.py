"""Scans against detectors, files, and what they refuse."""

import json

import numpy as np
import pytest

from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.live import Detector
from tests.changepoint.conftest import EXACT, QUICK, same


def test_a_scan_is_what_a_detector_says(series):
    found = changepoint.scan(3, series, reference=(5, 35), test=EXACT, **QUICK)
    detector = Detector(3, series[5:35], test=EXACT, time=35, **QUICK)
    report = detector.update(series[35:])
    assert report.times[report.looked].tolist() == found.times.tolist()
    np.testing.assert_allclose(report.statistics[report.looked], found.statistics, rtol=1e-4)
    assert report.first_alarm == found.first_alarm


def test_several_windows_and_files(series, tmp_path):
    found = changepoint.scan(
        0, series, reference=30, window=(8, 12), stride=4, test=EXACT, threshold=1.0
    )
    one = changepoint.scan(0, series, reference=30, test=EXACT, **QUICK)
    assert found.statistics.shape == (2, len(found.times)) and len(found.first_alarm) == 2
    assert same(found[12], one)
    assert np.isnan(found.statistics[1, 0]) and not found.alarms[1, 0]
    assert changepoint.Scan.load(found.save(tmp_path / "scan.npz")).to_dict() == found.to_dict()
    json.dumps(found.to_dict(), allow_nan=False)
    assert "window 8" in repr(found) and "first alarm at frame" in repr(found)
    assert found.false_alarms(60) == [(0, 6), (0, 5)]
    with pytest.raises(KeyError, match="no window 9"):
        found[9]
    ax = found.plot(change=60)
    labels = ax.get_legend_handles_labels()[1]
    assert ax.get_xlabel() == "frame" and {"reference, 0:30", "change, known: 60"} <= set(labels)
    assert labels.count("alarms") == 2 and labels.count("threshold 1") == 2
    assert sum(label.startswith("change, estimated: ") for label in labels) == 2


def test_events_are_explained_as_a_detector_would(series):
    """Held against a detector that has seen no frame beyond."""
    found = changepoint.scan(3, series, reference=(5, 35), test=EXACT, **QUICK)
    detector = Detector(3, series[5:35], test=EXACT, time=35, **QUICK)
    event = found.events[0]
    detector.update(series[35 : event.time + 1])
    told = changepoint.explain(detector.state)
    assert event.time == found.first_alarm and event.change == int(told.change)
    assert list(event.coordinates) == told.coordinates[:3].tolist() and event.coordinates[0] == 2
    assert found.events == found[12].events and str(event) in repr(found)


def test_a_test_without_a_witness_has_events_all_the_same(series):
    options = {"window": 12, "stride": 4, "threshold": 0.2}
    found = changepoint.scan(0, series, reference=30, test="gmmd-lin", **options)
    assert found.events and found.events[0].change is None
    assert "since about" not in repr(found) and "alarm at frame" in repr(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": "c2st"}, "a chart takes one of"),
        ({"window": 1}, "window must be"),
        ({"stride": 0}, "stride must be"),
        ({"window": 29}, "needs a longer reference"),
        ({"reference": (40, 20)}, "no part of a series"),
        ({"reference": "x"}, "an index, a pair or a slice"),
        ({"window": 25, "reference": 70}, "does not fit"),
        ({"level": 0.0001, "threshold": None}, "cannot reach level"),
        ({"arl": 10, "threshold": None}, "exceed two windows"),
        ({"after": "stop"}, "after must be one of"),
        ({"n_draws": 0, "threshold": None}, "n_draws, the windows or streams.*got 0"),
        ({"shortest": 13}, "at most window, 12; got 13"),
        ({"shortest": 3, "test": "hotelling"}, "hotelling has one window"),
        ({"drift": 0.5, "stride": 12}, "must be shorter than the window"),
        ({"block": 9, "threshold": None}, "at most a quarter"),
        ({"arl": 100.0}, "give arl or threshold, not both; got 100.0 and 1.0"),
        (
            {"test": "hotelling", "window": 2},
            "windows of 2 frames do not do: too few samples for the cov",
        ),
    ],
)
def test_bad_options(series, options, message):
    given = {"reference": 30, "test": EXACT, **QUICK, **options}
    with pytest.raises(ValueError, match=message):
        changepoint.scan(0, series, **given)


def test_a_reference_that_stands_still(series):
    """It has no spread of its own, by which to find a threshold; one that is given will do."""
    still = series.copy()
    still[:30] = still[0]
    about = {"reference": 30, "test": EXACT, **QUICK}
    assert changepoint.scan(0, still, **about).alarms.any()
    with pytest.raises(ValueError, match="30 frames are all the same"):
        changepoint.scan(0, still, **about | {"threshold": None})


def test_bad_series(series):
    broken = series.copy()
    broken[70, 1] = np.inf
    with pytest.raises(ValueError, match="the first is sample 70"):
        changepoint.scan(0, broken, reference=30, **QUICK)
