"""The detector: charts against their closed forms, batches, files, alarms and what follows them."""

import dataclasses
import json
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.by_rows import world_of
from ntkmmd_jax.changepoint.chart import chart_test, make_chart
from ntkmmd_jax.changepoint.live import Detector
from ntkmmd_jax.changepoint.threshold import look_counts
from tests.changepoint.conftest import EXACT, NETWORK, QUICK, TESTS, same


def test_looks_come_every_stride_once_the_window_is_full():
    assert look_counts(30, 10, 5).tolist() == [10, 15, 20, 25, 30]
    assert look_counts(30, 12, 5).tolist() == [15, 20, 25, 30]
    assert look_counts(9, 10, 5).tolist() == []


def test_charts_are_the_symmetric_statistics(series):
    """Against numpy, given θ0 and bandwidth (float error)."""
    x, y = jnp.asarray(series[:20]), jnp.asarray(series[60:80])
    key = jax.random.key(0)
    plain = dataclasses.replace(TESTS["net"], momentum=0.0)  # its transient is not O(t)
    charts = {
        name: make_chart(key, chart_test(test, 20), x, 20, standardize=False)
        for name, test in {**TESTS, "net": plain}.items()
    }
    found = {name: float(chart(key, x, y)) for name, chart in charts.items()}
    x, y = np.asarray(x), np.asarray(y)
    points, weights = np.concatenate([x, y]), np.repeat([1 / 20, -1 / 20], 20)
    kernel = ntk.two_layer_ntk(NETWORK, charts["ntk"].prepared, points)
    assert found["ntk"] == pytest.approx(float(weights @ kernel @ weights), rel=1e-4)
    assert found["net"] == pytest.approx(found["ntk"], rel=0.05)  # up to O(t)
    squares = ((points[:, None] - points) ** 2).sum(-1)
    kernel = np.exp(-squares / (2 * float(charts["gmmd"].prepared[0]) ** 2))
    assert found["gmmd"] == pytest.approx(weights @ kernel @ weights, rel=1e-4)
    pooled = (np.cov(x.T) + np.cov(y.T)) / 2
    gap = np.mean(x, 0) - np.mean(y, 0)
    assert found["hotelling"] == pytest.approx(10 * gap @ np.linalg.solve(pooled, gap), rel=1e-3)


@pytest.mark.parametrize("name", TESTS)
def test_statistics_are_low_before_and_high_after(series, name):
    found = changepoint.scan(0, series, reference=30, test=TESTS[name], **QUICK)
    times, values = np.asarray(found.times), np.asarray(found.statistics)
    assert values[times >= 72].min() > 2 * values[times < 60].max()
    assert np.array_equal(found.alarms, values > float(found.threshold))


def test_the_pilot_threshold_separates(series):
    options = {"window": 12, "stride": 4, "n_draws": 99}
    with pytest.warns(UserWarning, match="about .* frames would do"):  # of 30
        found = changepoint.scan(0, series, reference=30, test=EXACT, **options)
    low, high = found.threshold_interval
    assert low < found.threshold < high and 60 <= found.first_alarm < 72
    assert found.delay(60) == len(series[60 : found.first_alarm + 1])  # frames seen since
    assert found.false_alarms(60) == (0, 5)


@pytest.mark.parametrize("name", ["net", "ntk"])
def test_frames_in_batches_of_any_size_give_the_same(series, name):
    """To the bit: every frame has the same place in the same program."""
    state = changepoint.init(0, series[:30], test=TESTS[name], **QUICK)
    whole, expected = changepoint.step(state, series[30:])
    for size in (1, 7):
        now, parts = state, []
        for first in range(30, len(series), size):
            now, report = changepoint.step(now, series[first : first + size])
            parts.append(report)
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        assert same(joined, expected) and same(now, whole)
    assert expected.alarms.any() and not expected.alarms[:20].any()


def test_looks_of_a_fused_test_are_its_statistics(series):
    """Which pass over the reference once, not at every look; also of a new reference."""
    test = dataclasses.replace(ntk.FusedNTK(landmarks=16), calibration=None)
    options = {**QUICK, "stride": 5, "threshold": 1.0, "after": "rereference", "test": test}
    state = changepoint.init(0, series[:30], **options)
    first = state.reference
    for _ in range(2):
        before, (state, report) = state, changepoint.step(state, series[30:])
        assert before.moved is not None
        seen, at = before.chart.standard(jnp.asarray(series[30:])), np.flatnonzero(report.looked)[0]
        recent = seen[at - 11 : at + 1]
        expected = before.chart(state.key, before.reference, recent)
        np.testing.assert_allclose(report.statistics[at], expected, rtol=1e-3)
    assert not same(before.reference, first)


def test_step_is_pure_and_jittable(series):
    state = changepoint.init(0, series[:30], test=EXACT, **QUICK)
    expected = changepoint.step(state, series[30:])
    assert same(
        jax.jit(changepoint.step)(state, jnp.asarray(series[30:]))[1].alarms, expected[1].alarms
    )
    assert same(changepoint.step(state, series[30:]), expected)


@pytest.mark.parametrize("name", ["net", "ntk", "gmmd"])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(series, name, tmp_path):
    detector = Detector(0, series[:30], test=TESTS[name], **QUICK)
    detector.update(series[30:47])
    path = detector.save(tmp_path / "state.npz")
    again = Detector.load(path)
    assert same(again.state, detector.state)
    assert same(again.update(series[47:]), detector.update(series[47:]))


def test_killed_between_two_steps(series, tmp_path):
    """Another process goes on from the file: the alarms of one that was never interrupted."""
    np.save(tmp_path / "rest.npy", series[50:])
    whole = Detector(0, series[:30], test=EXACT, **QUICK).update(series[30:])
    detector = Detector(0, series[:30], test=EXACT, **QUICK)
    detector.update(series[30:50])
    detector.save(tmp_path / "state.npz")
    program = (
        "import json, numpy as np; from ntkmmd_jax.changepoint import Detector;"
        f"d = Detector.load({str(tmp_path / 'state.npz')!r});"
        f"r = d.update(np.load({str(tmp_path / 'rest.npy')!r}));"
        "print(json.dumps([r.times[r.alarms].tolist(), r.statistics[r.looked].tolist()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    times, statistics = json.loads(done.stdout)
    assert times == whole.times[whole.alarms].tolist() and times
    assert statistics == whole.statistics[20:][whole.looked[20:]].tolist()


def test_half_written_state(series, tmp_path):
    path = changepoint.init(0, series[:30], test=EXACT, **QUICK).save(tmp_path / "state.npz")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="half-written"):
        changepoint.load(path)
    other = changepoint.scan(0, series, reference=30, test=EXACT, **QUICK).save(tmp_path / "s.npz")
    with pytest.raises(ValueError, match="does not hold a detector's state but a Scan"):
        changepoint.load(other)


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([[1.0, np.nan, 0.0]], "NaN or infinite"),
        ([1.0, None, 0.0], "NaN or infinite"),
        ([1.0, 2.0], r"frames of shape \(3,\)"),
        (np.zeros((4, 5)), r"frames of shape \(3,\)"),
        ([[1.0, 2.0, 3.0], [1.0]], "rectangular|real numbers"),
        (["a", "b", "c"], "real numbers"),
    ],
)
def test_bad_frames_leave_the_detector_as_it_was(series, frames, message):
    detector = Detector(0, series[:30], test=EXACT, **QUICK)
    before = detector.state
    with pytest.raises(ValueError, match=message):
        detector.update(frames)
    assert detector.state is before
    assert detector.update(series[30:90]).first_alarm is not None


@pytest.mark.parametrize("name", ["ntk", "hotelling"])
def test_after_an_alarm(name):
    """Holding, alarms last; with a new reference there is one event, then quiet, then the next.

    The new reference has other coordinates: a shift beyond the limit of the first is seen.
    """
    rng = np.random.default_rng(1)
    shift = np.repeat([0.0, 0.0, 9.0, 30.0], [60, 30, 110, 40])[:, None]
    frames = (rng.normal(size=(240, 3)) + shift).astype(np.float32)
    options = {**QUICK, "test": TESTS[name], "threshold": 1.0 if name == "ntk" else 60.0}
    held = Detector(0, frames[:60], **options).update(frames[60:])
    assert held.events.sum() == 1 and held.alarms[90:][held.looked[90:]].all()
    renewed = Detector(0, frames[:60], after="rereference", **options)
    parts = [renewed.update(part) for part in np.split(frames[60:], [31, 33, 80])]
    report = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    first, second = report.times[report.events]
    assert 30 <= first < 42 and 140 <= second < 152
    quiet = (report.times > first) & (report.times < 140)
    assert not report.looked[quiet][:71].any()  # 60 frames of reference, 12 of window
    assert report.looked[quiet].any() and not report.alarms[quiet].any()
    assert report.times.tolist() == list(range(180))


def test_the_threshold_goes_with_a_new_reference():
    """Whose frames spread 3 times as far in features: the same z, hence the same alarms."""
    rng = np.random.default_rng(2)
    frames = rng.normal(size=(260, 3)).astype(np.float32)
    options = {"window": 12, "stride": 4, "test": TESTS["gmmd"], "level": 0.02}
    options |= {"standardize": False, "after": "rereference"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = changepoint.init(0, frames[:100], **options)
        other = changepoint.init(0, frames[160:], **options)
    other = dataclasses.replace(other, chart=state.chart)
    far = np.concatenate([np.full((12, 3), 9, np.float32), frames[160:]])
    state, report = changepoint.step(state, far)
    assert report.events.sum() == 1 and int(state.count) == 0
    assert float(state.threshold) != float(other.threshold)
    fresh = world_of(state.rows, jnp.asarray(frames[160:]), 12).moments
    np.testing.assert_allclose(state.moments.mean, fresh.mean, rtol=1e-4)
    np.testing.assert_allclose(state.moments.spread, fresh.spread, rtol=1e-3)


def test_diverging_training_is_an_error(series):
    wild = dataclasses.replace(TESTS["net"], learning_rate=1e30, network=ntk.mlp((4, 4)))
    with pytest.raises(ValueError, match="no quantile"):
        changepoint.init(0, series[:30], window=4, test=wild, n_draws=99)
    detector = Detector(0, series[:30], test=wild, **QUICK)
    before = detector.state
    with pytest.raises(ValueError, match="not a number"):
        detector.update(series[30:60])
    assert detector.state is before


def test_constant_coordinates_and_one_coordinate():
    """A constant coordinate is left as it is; a flat series has one coordinate."""
    rng = np.random.default_rng(0)
    flat = np.concatenate([rng.normal(size=60), rng.normal(size=30) + 4])
    found = changepoint.scan(0, flat, reference=30, test=EXACT, **QUICK)
    assert found.first_alarm >= 60
    padded = np.stack([flat, np.full(90, 7.0)], axis=1)
    assert np.isfinite(
        changepoint.scan(0, padded, reference=30, test=EXACT, **QUICK).statistics
    ).all()
    detector = Detector(0, flat[:30], test=EXACT, **QUICK)
    assert detector.update(0.5).times.tolist() == [0] and detector.update([0.5]).times.tolist() == [
        1
    ]


@pytest.mark.filterwarnings("ignore:the reference is short")
def test_a_sensor_that_stands_still_elsewhere():
    """T² has no end then: alarms, no error in the midst of a stream, and a plot of the others."""
    frames = np.random.default_rng(0).normal(size=(200, 3))
    frames[:, 0] = np.repeat([3.0, 4.5], 100)
    found = changepoint.scan(0, frames, reference=60, window=12, stride=4, test="hotelling")
    assert not found.alarms[found.times < 100].any() and found.alarms[found.times > 111].all()
    json.loads(json.dumps(found.to_dict()), parse_constant=pytest.fail)
    height = found.plot().get_ylim()[1]
    assert height < 1e6
