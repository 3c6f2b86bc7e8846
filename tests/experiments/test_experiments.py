"""Experiments: agreement with published numbers, files, the report, resuming."""

import json

import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import experiments, plotting
from ntkmmd_jax.datasets import mnist
from ntkmmd_jax.experiments import EXPERIMENTS, Context, Experiment, Number, Outcome, reproduce
from ntkmmd_jax.experiments.experiment import power_number


def test_agreement_is_the_joint_interval():
    given = {"low": 0.4, "high": 0.6, "runs": 500, "published_runs": 500}
    # The standard error of a difference of two rates of 0.5 over 500 runs is 0.0316.
    assert Number("a", 0.5, **given, published=0.56).agreement == "agrees"
    assert Number("a", 0.5, **given, published=0.57).agreement == "differs"
    assert Number("a", 0.5).agreement == ""
    assert Number("a", 0.5, 0.4, 0.6, published=0.7).agreement == "differs"


def small(context):
    """A table of two cells, with a network of 8 units."""
    tests = {"ntk": ntk.NTKMMD(network=ntk.mlp(8), n_permutations=19)}
    grid = {"rho": [0.0, 3.0], "dim": 3}
    table = context.sweep("power", tests, ntk.datasets.covariance_shift, grid, n=16)
    numbers = [power_number(row, f"ρ = {row.point['rho']}", 0.05) for row in table.rows]
    return Outcome({"dim": 3}, numbers, plotting.power(table).figure)


@pytest.fixture
def added(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "small", Experiment("small", "A small one", 500, 40, 1, small))


def test_records_pictures_and_report(added, tmp_path):
    (record,) = reproduce(["small"], out=tmp_path, progress=False)
    assert record == json.loads((tmp_path / "small.json").read_text())
    assert record["runs"] == 40 and record["versions"]["jax"] and record["seconds"] >= 0
    assert [number["label"] for number in record["numbers"]] == ["ρ = 0.0", "ρ = 3.0"]
    assert record["numbers"][1]["agreement"] == "differs"  # the power is not the level
    assert (tmp_path / "small.png").stat().st_size > 1000
    report = (tmp_path / "report.md").read_text()
    assert "A small one" in report and "| ρ = 0.0 |" in report and "small.png" in report
    assert "data:image/png;base64" in (tmp_path / "report.html").read_text()


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["fig1", "fig2", "figA1", "tab2", "tabA1", "tabA2", "fig3", "fig4", "tabA3"]
)
def test_every_experiment_runs(name, tmp_path):
    data = EXPERIMENTS[name].data
    stand_in = data[-1] if data else ""
    record = EXPERIMENTS[name](Context(name, 2, tmp_path, progress=False, data=stand_in))
    assert record["numbers"] and (tmp_path / f"{name}.png").exists()
    experiments.report.write_report(tmp_path)
    if stand_in:
        assert "Stand-in" in (tmp_path / "report.md").read_text()
        assert {number["published"] for number in record["numbers"]} == {None}
