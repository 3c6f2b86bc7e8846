"""`ntkmmd segment`, in this process: its programs are those of one shape."""

import json
import sys

import numpy as np
import pytest

from ntkmmd_jax.cli.app import main

QUICK = ("--bin", "6", "--permutations", "199")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("recordings") / "recording.csv"
    series = np.random.default_rng(1).normal(size=(240, 3))
    series[100:, 2] += 3
    np.savetxt(path, series, delimiter=",", header="head,hand,foot", comments="")
    return path


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["ntkmmd", "segment", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, *capsys.readouterr()


def test_text_plot_and_score(recording, monkeypatch, capsys):
    picture = recording.with_suffix(".png")
    arguments = (recording, *QUICK, "--plot", picture, "--change", 100)
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert not code, err
    assert "1 change in 240 frames at level 0.05 (40 bins of 6 frames)" in out
    assert "in foot" in out and "f1=1.0" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_json(recording, monkeypatch, capsys):
    arguments = (recording, *QUICK, "--json", "--change", 100, "--margin", 3)
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert not code, err
    report = json.loads(out)
    assert len(report["changes"]) == 1 and abs(report["changes"][0] - 100) <= 3
    assert report["names"] == ["head", "hand", "foot"]
    assert report["details"][0]["coordinates"] == [2]
    assert report["score"]["f1"] == 1 and report["score"]["covering"] > 0.95


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.csv",), "nowhere.csv: no such file"),
        ((), "Missing argument 'series'"),
        (("{}", "--bin", "0"), "bin must be a whole number of at least 1; got 0"),
        (("{}", "--bin", "100"), "give 500 frames or shorter bins"),
        (("{}", "--level", "0"), "level must lie in (0, 1)"),
        (("{}", "--plot", "here.xyz"), "unknown kind of picture"),
        (("{}", *QUICK, "--change", "900"), "true changes lie from 1 to before 240"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(recording, monkeypatch, capsys, arguments, message):
    given = [str(argument).format(recording) for argument in arguments]
    code, _, err = run(monkeypatch, capsys, *given)
    assert code == 2 and message in err and len(err.strip().splitlines()) == 1
