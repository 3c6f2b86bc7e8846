"""Change points: charts against the tests, scans against streams, thresholds, errors, resuming."""

import dataclasses
import io
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.chart import chart_test, make_chart
from ntkmmd_jax.changepoint.live import Detector
from ntkmmd_jax.changepoint.threshold import drawn_stream, look_counts, pair_null
from ntkmmd_jax.cli.app import main

NETWORK = ntk.mlp(16)
EXACT = ntk.NTKMMD(network=NETWORK)
TESTS = {
    "ntk": EXACT,
    "net": ntk.NetMMD(network=NETWORK, learning_rate=0.001, momentum=0.9),
    "gmmd": ntk.GaussianMMD(),
    "hotelling": ntk.Hotelling(),
}
QUICK = {"window": 12, "stride": 4, "threshold": 1.0}


@pytest.fixture(scope="module")
def series():
    """90 frames in three coordinates; from 60 on the last one has mean 3."""
    frames = np.random.default_rng(0).normal(size=(90, 3)).astype(np.float32)
    frames[60:, 2] += 3
    return frames


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
    found = changepoint.scan(0, series, reference=30, test=EXACT, **options)
    assert 60 <= found.first_alarm < 72
    assert found.delay(60) == len(series[60 : found.first_alarm + 1])  # frames seen since
    assert found.false_alarms(60) == (0, 5)


def test_a_scan_is_what_a_detector_says(series):
    found = changepoint.scan(3, series, reference=(5, 35), test=EXACT, **QUICK)
    detector = Detector(3, series[5:35], test=EXACT, time=35, **QUICK)
    report = detector.update(series[35:])
    assert report.times[report.looked].tolist() == found.times.tolist()
    np.testing.assert_allclose(report.statistics[report.looked], found.statistics, rtol=1e-4)
    assert report.first_alarm == found.first_alarm


def test_frames_in_batches_of_any_size_give_the_same(series):
    """To the bit: every look is the same program."""
    state = changepoint.init(0, series[:30], test=TESTS["net"], **QUICK)
    whole, expected = changepoint.step(state, series[30:])
    for size in (1, 7):
        now, parts = state, []
        for first in range(30, len(series), size):
            now, report = changepoint.step(now, series[first : first + size])
            parts.append(report)
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        assert same(joined, expected) and same(now, whole)
    assert expected.alarms.any() and not expected.alarms[:20].any()


def same(a, b):
    raw = [jax.random.key_data(x) if x.dtype == jax.random.key(0).dtype else x
           for tree in (a, b) for x in jax.tree.leaves(tree)]  # fmt: skip
    half = len(raw) // 2
    return all(
        np.array_equal(x, y, equal_nan=True) for x, y in zip(raw[:half], raw[half:], strict=True)
    )


def test_step_is_pure_and_jittable(series):
    state = changepoint.init(0, series[:30], test=EXACT, **QUICK)
    expected = changepoint.step(state, series[30:])
    assert same(
        jax.jit(changepoint.step)(state, jnp.asarray(series[30:]))[1].alarms, expected[1].alarms
    )
    assert same(changepoint.step(state, series[30:]), expected)


@pytest.mark.parametrize("name", ["net", "gmmd", "hotelling"])
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


def test_after_an_alarm(series):
    """Holding, alarms last; with a new reference there is one event, then quiet, then the next."""
    rng = np.random.default_rng(1)
    shift = np.repeat([0.0, 3.0, 6.0], [30, 60, 40])[:, None]
    frames = (rng.normal(size=(130, 3)) + shift).astype(np.float32)
    options = {**QUICK, "test": EXACT, "threshold": 1.0}
    held = Detector(0, series[:30], **options).update(frames)
    assert held.events.sum() == 1 and held.alarms[90:][held.looked[90:]].all()
    renewed = Detector(0, series[:30], after="rereference", **options).update(frames)
    first, second = renewed.times[renewed.events]
    assert 30 <= first < 42 and 90 <= second < 102
    quiet = (renewed.times > first) & (renewed.times < 90)
    assert not renewed.looked[quiet][:23].any()  # 12 frames of reference, 12 of window
    assert renewed.looked[quiet].any() and not renewed.alarms[quiet].any()


def test_null_of_pairs_has_the_level():
    """Per look, over fresh pools and windows; band of 4 binomial errors at 400 replicas."""
    level, n_runs = 0.1, 400

    def replica(key):
        k_pool, k_window, k_null, k_look = jax.random.split(key, 4)
        pool = jax.random.normal(k_pool, (80, 2))
        chart = make_chart(
            k_null, chart_test(ntk.NTKMMD(network=ntk.mlp(8)), 10), pool, 10, standardize=False
        )
        null = pair_null(k_null, chart, pool, 10, 49, False)
        t = chart(k_look, pool[:10], jax.random.normal(k_window, (10, 2)))
        return t > ntk.calibration.threshold(null, level)

    rate = float(jnp.mean(jax.lax.map(replica, jax.random.split(jax.random.key(0), n_runs))))
    assert abs(rate - level) < 4 * np.sqrt(level * (1 - level) / n_runs)


def test_a_short_pool_is_cut_in_halves_and_scaled():
    """Blocks of 15 instead of 20, so 15/20 of their statistic: E T ~ 1/n."""
    pool = jax.random.normal(jax.random.key(0), (30, 2))
    chart = make_chart(jax.random.key(1), chart_test("gmmd", 20), pool, 20, standardize=False)
    whole = pair_null(jax.random.key(2), chart, pool, 15, 5, False)
    scaled = pair_null(jax.random.key(2), chart, pool, 20, 5, False)
    np.testing.assert_allclose(scaled, 0.75 * whole, rtol=1e-6)


def test_drawn_streams_keep_runs_together():
    pool = jnp.arange(50)[:, None]
    stream = np.asarray(drawn_stream(jax.random.key(0), pool, 35, 10))[:, 0]
    steps = np.diff(stream)
    assert len(stream) == 35 and (np.delete(steps, [9, 19, 29]) == 1).all()
    assert len(np.unique(drawn_stream(jax.random.key(0), pool, 200, 1))) > 40


def normals(key, n):
    return jax.random.normal(key, (n, 2))


def shifted(key, n, size):
    return normals(key, n) + size


def test_run_length_and_delays():
    """ARL as wanted: 20 % beside 4 errors of calibration (7 %) and simulation; EDD falls."""
    pool = normals(jax.random.key(5), 5000)
    options = {"window": 20, "stride": 10, "test": ntk.NTKMMD(network=ntk.mlp(8))}
    state = changepoint.init(0, pool, arl=400, contiguous=False, **options)
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
        scan = changepoint.scan(0, series, reference=24, contiguous=False, **options)
        state = changepoint.init(0, series[:24], contiguous=False, **options)
        found = changepoint.run_lengths(0, state, after, before=before, n_runs=1, horizon=20)
        assert scan.delay(60) == int(found.lengths[0]) == stride
    one = changepoint.Scan(
        jnp.array([59, 60, 61]), jnp.array([0.0, 2.0, 2.0]), jnp.array(1.0),
        window=2, stride=1, reference=(0, 9), method="ntk",
    )  # fmt: skip
    assert one.delay(60) == 1 and one.delay(59) == 2 and one.delay(61) == 1
    assert one.delay(62) is None


def test_run_lengths_that_end_early():
    """Frames watched over alarms raised."""
    found = changepoint.RunLengths(
        jnp.array([10, 40, 100]), jnp.array([True, True, False]), horizon=100
    )
    assert found.mean == 75 and found.error == pytest.approx(75 / np.sqrt(2))
    assert found.missed == pytest.approx(1 / 3)
    none = changepoint.RunLengths(jnp.array([100]), jnp.array([False]), horizon=100)
    assert none.mean == float("inf")


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
    assert ax.get_xlabel() == "frame" and len(ax.lines) == 7


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
        ({"n_draws": 0, "threshold": None}, "n_draws, the pairs of blocks.*got 0"),
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


def test_bad_series(series):
    broken = series.copy()
    broken[70, 1] = np.inf
    with pytest.raises(ValueError, match="the first is sample 70"):
        changepoint.scan(0, broken, reference=30, **QUICK)


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


@pytest.fixture
def ntkmmd(monkeypatch, capsys):
    """`ntkmmd detect` in this process: exit code, and what it printed."""

    def run(*arguments, text=""):
        monkeypatch.setattr(sys, "argv", ["ntkmmd", "detect", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code or 0, *capsys.readouterr()

    return run


def test_command_line(series, tmp_path, ntkmmd):
    """A recorded series; the same live, with bad lines, stopped and resumed by its state."""
    np.save(tmp_path / "series.npy", series)
    options = ("--reference", "0:30", "--window", 12, "--stride", 4, "--test", "ntk")
    options += ("--threshold", 1.0)
    code, out, _ = ntkmmd(
        tmp_path / "series.npy", *options, "--json", "--plot", tmp_path / "out.png"
    )
    found = json.loads(out)
    assert code == 0
    assert set(found) >= {"times", "statistics", "threshold", "alarms", "first_alarm"}
    assert 60 <= found["first_alarm"] < 72 and (tmp_path / "out.png").stat().st_size > 1000
    lines = [",".join(map(str, frame)) for frame in series.tolist()]
    live = (*options, "--follow", "--json", "--state", tmp_path / "state.npz")
    text = "\n".join([*lines[:50], "1,2", "x,y,z", "nan,1,2"])
    code, out, said = ntkmmd(*live, text=text)
    assert code == 0 and out == ""
    left_out = [line.split(" left out")[0] for line in said.splitlines()]
    assert left_out == [f"ntkmmd: line {i}" for i in (51, 52, 53)]
    _, out, _ = ntkmmd(*live, text="\n".join(lines[50:]))
    (event,) = map(json.loads, out.splitlines())
    assert event["time"] == found["first_alarm"]
    assert abs(event["change"] - 60) <= 2 and event["coordinates"][0] == 2


def test_a_detector_that_goes_on_is_what_it_was_made_to_be(series, tmp_path, ntkmmd):
    """Resumed with other options: an error that names both values; with fewer, the file's."""
    path, lines = tmp_path / "state.npz", [",".join(map(str, f)) for f in series.tolist()]
    options = {"--window": 12, "--stride": 4, "--test": "ntk", "--threshold": 1.0, "--seed": 3}
    options |= {"--reference": "0:30"}
    live = ("--follow", "--json", "--state", path)
    flat = [item for pair in options.items() for item in pair]
    code, _, said = ntkmmd(*live, *flat, text="\n".join(lines[:50]))
    assert code == 0, said
    saved = path.read_bytes()
    others = {"--window": 20, "--stride": 5, "--test": "gmmd", "--threshold": 2.0, "--seed": 0}
    others |= {"--reference": "0:20", "--level": 0.2, "--arl": 900.0, "--after": "rereference"}
    for flag, value in others.items():
        code, _, said = ntkmmd(*live, flag, value)
        was = options.get(flag, {"--level": 0.01, "--after": "hold"}.get(flag))
        assert code == 2 and f"{flag} {value}, but {path} was made with {was}" in said
    code, _, said = ntkmmd(*live, "--no-standardize")
    assert code == 2 and "--standardize False, but" in said
    assert path.read_bytes() == saved
    found = []
    for again in ((), flat):  # with no options, or the same
        path.write_bytes(saved)
        code, out, said = ntkmmd(*live, *again, text="\n".join(lines[50:]))
        assert code == 0, said
        found.append(out)
    assert found[0] == found[1] and 60 <= json.loads(found[0])["time"] < 72
    code, _, said = ntkmmd(*live, "--stride", 5)  # the settings outlive the second run
    assert code == 2 and "was made with 4" in said


def test_a_scan_outlives_a_plot_that_cannot_be_written(series, tmp_path, ntkmmd, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("ntkmmd_jax.plotting.save", full)
    np.savetxt(tmp_path / "a.csv", series, delimiter=",", header="0,1,2", comments="")
    options = ("--reference", "0:30", "--window", 12, "--test", "hotelling", "--threshold", 1.0)
    options += ("--plot", tmp_path / "a.png", "--json")
    code, _, said = ntkmmd(tmp_path / "a.csv", *options)
    assert code == 2 and "may be names of columns or data" in said
    code, out, said = ntkmmd(tmp_path / "a.csv", *options, "--header")
    assert json.loads(out)["reference"] == [0, 30] and json.loads(out)["times"][-1] <= 89
    assert (code, said) == (2, "ntkmmd: No space left on device\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--reference", "0:30"), "give a file"),
        (("none.npy", "--reference", "0:30"), "no such file"),
        (("--follow", "--reference", "x"), "0:300; got 'x'"),
        (("--follow", "--reference", "0:30", "--window", 5, "--plot", "a.png"), "--plot: not with"),
        (("a.npy", "--state", "s.npz", "--after", "hold"), "--after and --state: not without"),
        (("a.npy", "--level", 0.1, "--arl", 500), "give one of --arl and --level"),
        (("a.npy", "--change", 5), "--change marks the plot"),
        (("--follow", "--window", 5, "--window", 6), "takes one --window"),
        (("--follow", "--state", "none/s.npz"), "--state none/s.npz: there is no folder none"),
        (("a.npy", "--plot", "none/a.png"), "--plot none/a.png: there is no folder none"),
        (("a.npy", "--header"), "are for .csv files"),
        (("--follow", "--header"), "for a series in a .csv file: there is none"),
        (("--follow", "--reference", "0:1", "--seed", 2**64), "needs 1 frames"),
        (("--follow", "--reference", "0:30", "--window", 5), "needs 30 frames; got 0"),
    ],
)
def test_command_line_refuses(ntkmmd, arguments, message):
    code, _, said = ntkmmd(*arguments)
    assert code == 2 and message in said and len(said.splitlines()) == 1
