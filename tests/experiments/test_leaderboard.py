"""The leaderboard: end to end with few runs and two methods, its table, picture and resuming."""

import json

import matplotlib.pyplot as plt
import pytest

from ntkmmd_jax import datasets
from ntkmmd_jax.experiments import EXPERIMENTS, Context, leaderboard, published, report
from ntkmmd_jax.experiments.leaderboard import Problem
from ntkmmd_jax.twosample import methods, shipped_test

SHIFT = Problem("shift", datasets.mean_shift, {"delta": 3.0, "dim": 2}, 30)
WIDE = Problem("wide", datasets.mean_shift, {"delta": 3.0, "dim": 80}, 30)  # more than n − 2
NULL = Problem("H0", datasets.mean_shift, {"delta": 0.0, "dim": 2}, 30, is_null=True)
NAMES = ("gmmd", "hotelling")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    out = tmp_path_factory.mktemp("board")
    return Context("leaderboard", 4, out, devices=1, progress=False, data="digits")


@pytest.fixture(scope="module")
def found(context):
    return leaderboard.board(context, NAMES, (SHIFT, WIDE, NULL))


def test_numbers_are_powers_and_milliseconds(found):
    numbers = {number.label: number for number in found.numbers}
    power, time = numbers["gmmd, shift"], numbers["gmmd, shift, ms"]
    assert (power.ours, power.high, power.runs, power.published) == (1.0, 1.0, 4, None)
    assert power.low == pytest.approx(0.5101, abs=1e-4)  # Wilson's, 4 of 4
    assert 0 < time.low <= time.ours <= time.high and time.runs is None
    assert "hotelling, wide" not in numbers  # refused, and no number made up for it


def test_table_has_every_method_and_problem(found):
    head, *rows = found.table
    titles = ["shift, n = 30", "wide, n = 30", "H0, n = 30", "mean, without H0"]
    assert head == ["", *titles]
    assert [row[0] for row in rows] == ["gmmd (4 runs)", "hotelling (4 runs)"]
    assert rows[0][1].startswith("1.000 [0.51, 1.00], ") and rows[0][1].endswith(" ms")
    assert rows[1][2] == "refused" and rows[1][-1].startswith("0.500")  # which rejects nothing


def test_picture_has_a_panel_a_problem_the_means_and_a_legend(found):
    drawn = {ax.get_title(): len(ax.containers) for ax in found.figure.axes if ax.get_title()}
    panels = {"shift, n = 30": 2, "wide, n = 30": 1, "H0, n = 30": 2}  # one refuses the wide
    assert drawn == {**panels, "mean of all problems but H0": 2}
    (legend,) = [ax.get_legend() for ax in found.figure.axes if ax.get_legend()]
    assert [text.get_text() for text in legend.get_texts()] == list(NAMES)
    plt.close(found.figure)


def test_it_resumes(context, found):
    again = leaderboard.board(context, NAMES, (SHIFT, WIDE, NULL))
    assert again.numbers == found.numbers  # times, too, are those on record
    plt.close(again.figure)


def test_slow_methods_have_fewer_runs(context, monkeypatch):
    monkeypatch.setitem(leaderboard.RUNS, "gmmd", 3)
    few = Problem("few", datasets.mean_shift, {"delta": 3.0, "dim": 2}, 30)
    row = leaderboard.standing(context, few, "gmmd").row
    assert row is not None and row.n_runs == 3


def test_registry_and_problems():
    assert {"leaderboard", "published"} <= set(EXPERIMENTS)
    named = {problem.name: problem for problem in leaderboard.problems("digits")}
    assert len(named) == len(leaderboard.problems("digits"))
    assert [problem.is_null for problem in named.values()].count(True) == 1
    assert leaderboard.OURS in methods()
    plain = {name: shipped_test(name) for name in methods()}
    assert all(test.standardize == bool(test.networks) for test in plain.values())


def test_published_beside_ours(tmp_path):
    context = Context("published", 4, tmp_path, devices=1, progress=False)
    outcome = published.curves(context, ("mmd-fuse",), (), (0.5,))
    (number,) = outcome.numbers
    assert (number.published, number.published_runs, number.runs) == (0.975, 200, 4)
    assert outcome.table[1][0] == "bumps, amplitude = 0.5" and outcome.table[1][2] == "0.975"
    assert len(outcome.figure.axes) == 2
    plt.close(outcome.figure)


def test_the_report_takes_an_experiments_own_table(tmp_path):
    entry = {"id": "leaderboard", "title": "t", "remarks": "", "about": "", "numbers": []}
    entry |= {"runs": 4, "paper_runs": None, "seconds": 1, "seed": 0}
    entry["table"] = [["", "shift"], ["gmmd", "1.000"]]
    (tmp_path / "leaderboard.json").write_text(json.dumps(entry))
    (tmp_path / "leaderboard.png").write_bytes(b"")
    report.write_report(tmp_path)
    assert "| gmmd | 1.000 |" in (tmp_path / "report.md").read_text()
    assert "<td>1.000</td>" in (tmp_path / "report.html").read_text()
