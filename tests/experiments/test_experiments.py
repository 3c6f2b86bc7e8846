"""Experiments: agreement with published numbers, files, the report, resuming."""

import json
import math
import re
from pathlib import Path

import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import experiments
from ntkmmd_jax.datasets import mnist
from ntkmmd_jax.experiments import EXPERIMENTS, Context, Experiment, Number, Outcome, reproduce
from ntkmmd_jax.experiments.experiment import power_number
from ntkmmd_jax.experiments.pictures import beside_published
from ntkmmd_jax.power.table import wilson

RECORDS = Path(__file__).parents[2] / "notebooks" / "reproduction"


def test_a_published_number_differs_beyond_both_intervals():
    given = {"low": 0.4564, "high": 0.5436, "runs": 500, "published_runs": 500}  # Wilson's
    # Newcombe's interval of a difference of two rates of about 0.5 over 500 runs is ±0.0616.
    near, far = (Number("a", 0.5, **given, published=q) for q in (0.56, 0.57))
    assert (near.agreement, far.agreement) == ("not distinguishable", "differs")
    assert near.resolution == pytest.approx(0.0616 + 0.0005, abs=2e-4)
    assert Number("a", 0.5).agreement == "" and math.isnan(Number("a", 0.5).resolution)
    no_rate = Number("a", 0.5, 0.4, 0.6, published=0.7)
    assert no_rate.agreement == "differs" and no_rate.resolution == pytest.approx(0.1)


def test_few_runs_say_how_little_they_know():
    """25 of 25 rejections do not show a power of 1.000 to a tenth of a percent."""
    few = Number("a", 1.0, *wilson(25, 25), 25, 1.0, 1000)
    assert few.agreement == "not distinguishable" and few.resolution > 0.06
    many = Number("a", 1.0, *wilson(2000, 2000), 2000, 1.0, 1000)
    assert many.resolution < 0.005


def small(context):
    """A table of two cells, with a network of 8 units."""
    tests = {"ntk": ntk.NTKMMD(network=ntk.mlp(8), n_permutations=19)}
    grid = {"rho": [0.0, 3.0], "dim": 3}
    table = context.sweep("power", tests, ntk.datasets.covariance_shift, grid, n=16)
    numbers = [power_number(row, f"ρ = {row.point['rho']}", 0.05) for row in table.rows]
    return Outcome({"dim": 3}, numbers)


@pytest.fixture
def added(monkeypatch):
    def draw(numbers):
        return beside_published(numbers, "small")

    one = Experiment("small", "A small one", 500, 40, 1, small, draw=draw, because="too small")
    monkeypatch.setitem(EXPERIMENTS, "small", one)


def test_records_pictures_and_report(added, tmp_path):
    (record,) = reproduce(["small"], out=tmp_path, progress=False)
    assert record == json.loads((tmp_path / "small.json").read_text())
    assert record["runs"] == 40 and record["versions"]["jax"] and record["seconds"] >= 0
    assert [number["label"] for number in record["numbers"]] == ["ρ = 0.0", "ρ = 3.0"]
    assert record["numbers"][1]["agreement"] == "differs"  # the power is not the level
    assert (tmp_path / "small.png").stat().st_size > 1000
    report = (tmp_path / "report.md").read_text()
    assert "A small one" in report and "| ρ = 0.0 |" in report and "small.png" in report
    assert "1 of 2" in report and "too small" in report  # how many differ, and why
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64" in page and '<h2 id="small">' in page

    drawn = (tmp_path / "small.png").read_bytes()
    (tmp_path / "small.png").unlink()
    assert experiments.report.redraw(tmp_path) == ["small"]  # from the record alone
    assert (tmp_path / "small.png").read_bytes() == drawn


def test_resuming_repeats_nothing_and_changes_nothing(added, tmp_path):
    first = reproduce(["small"], out=tmp_path, runs=20, progress=False)[0]["numbers"]
    checkpoint = tmp_path / "checkpoints" / "small-power.jsonl"
    written = checkpoint.read_text()
    resumed = reproduce(["small"], out=tmp_path, runs=20, resume=True, progress=False)[0]
    again = resumed["numbers"]
    recorded = [json.loads(line).get("seconds", 0) for line in written.splitlines()]
    assert resumed["seconds"] >= round(sum(recorded), 1)  # all the time it took
    assert again == first and checkpoint.read_text() == written
    other = reproduce(["small"], out=tmp_path, runs=10, progress=False)  # a fresh start
    assert other[0]["runs"] == 10


def test_bad_requests(tmp_path):
    for identifiers, message in ((["fig9"], "unknown"), ([], "name what to reproduce")):
        with pytest.raises(ValueError, match=message):
            reproduce(identifiers, out=tmp_path)
    with pytest.raises(ValueError, match="at least 1"):
        reproduce(["fig1"], out=tmp_path, runs=0)
    with pytest.raises(ValueError, match="no experiment here reads"):
        reproduce(["fig1", "tabA3"], out=tmp_path, data="cifar")


def test_absent_data_is_known_before_anything_runs(folder):
    mnist.images.cache_clear()
    with pytest.raises(FileNotFoundError, match="stand in: --data digits"):
        reproduce(["fig1", "fig3"], out=folder / "out")
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_records_are_as_the_experiments_say(name):
    """One time for all who ask: the list's is that of the record, at the default runs."""
    path = RECORDS / f"{name}.json"
    if not path.exists():
        pytest.skip("not on record")
    entry, one = json.loads(path.read_text(encoding="utf-8")), EXPERIMENTS[name]
    assert (entry["title"], entry["paper_runs"]) == (one.title, one.paper_runs)
    seconds = entry["cpu_seconds"] / 2 if "cpu_seconds" in entry else entry["seconds"]
    minutes = seconds / 60 * one.runs / entry["runs"]
    if name not in ("leaderboard", "published"):  # whose slow methods have fewer runs
        assert minutes / 1.5 <= one.minutes <= max(1.5 * minutes, 1)
    numbers = [Number.read(number) for number in entry["numbers"]]
    assert numbers and not {n.published for n in numbers if n.agreement} & {None}


def test_the_report_on_record_is_of_these_records(tmp_path):
    """`report.md` was written from the records beside it, by this version."""
    for path in RECORDS.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    experiments.report.write_report(tmp_path)
    kept = (RECORDS / "report.md").read_text(encoding="utf-8")
    assert kept == (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "recipe",
        "readings",
        "splits",
        "heatmap",
        "fig1",
        "fig2",
        "figA1",
        "tab2",
        "tabA1",
        "tabA2",
        "fig3",
        "fig4",
        "tabA3",
    ],
)
def test_every_experiment_runs(name, tmp_path):
    data = EXPERIMENTS[name].data
    stand_in = data[-1] if data else ""
    record = EXPERIMENTS[name](Context(name, 2, tmp_path, progress=False, data=stand_in))
    assert record["numbers"] and (tmp_path / f"{name}.png").exists()
    experiments.report.write_report(tmp_path)
    if stand_in:
        report = (tmp_path / "report.md").read_text()
        assert len(re.findall("Stand-in: ", report)) == 1  # by the framework, once
        assert {number["published"] for number in record["numbers"]} == {None}
