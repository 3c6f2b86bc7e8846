"""`ntkmmd detect`: a recorded series, and frames as they come."""

import io
import json
import sys

import numpy as np
import pytest

from ntkmmd_jax.cli.app import main


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
    (recorded,) = found["events"]  # says the same, but for rounding
    assert recorded.pop("statistic") == pytest.approx(event.pop("statistic"), rel=1e-4)
    assert recorded == event
    np.savetxt(tmp_path / "named.csv", series, delimiter=",", header="a,b,height", comments="")
    _, text, _ = ntkmmd(tmp_path / "named.csv", *options)
    assert "since about frame" in text and "most in coordinates height, " in text


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
        (("--follow",), "give --reference: the frames without change, as 0:300"),
        (("--follow", "--reference", "0:30", "--window", 5, "--plot", "a.png"), "--plot: not with"),
        (("a.npy", "--state", "s.npz", "--after", "hold"), "--after and --state: not without"),
        (("a.npy", "--level", 0.1, "--arl", 500), "give one of --arl and --level"),
        (("a.npy", "--change", 5), "--change marks the plot"),
        (("--follow", "--window", 5, "--window", 6), "takes one --window"),
        (("--follow", "--state", "none/s.npz"), "--state none/s.npz: there is no folder none"),
        (("a.npy", "--plot", "none/a.png"), "--plot none/a.png: there is no folder none"),
        (("a.npy", "--header"), "are for .csv and .tsv files"),
        (("--follow", "--header"), "for a series in a text file: there is none"),
        (("--follow", "--reference", "0:1", "--seed", 2**64), "needs 1 frames"),
        (("--follow", "--reference", "0:30", "--window", 5), "needs 30 frames; got 0"),
    ],
)
def test_command_line_refuses(ntkmmd, arguments, message):
    code, _, said = ntkmmd(*arguments)
    assert code == 2 and message in said and len(said.splitlines()) == 1
