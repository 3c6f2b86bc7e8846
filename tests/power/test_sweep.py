import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.power import replicas
from ntkmmd_jax.power import sweep as sweep_module
from ntkmmd_jax.power.grid import cells_of
from ntkmmd_jax.power.sweep import power_sweep
from ntkmmd_jax.power.table import PowerTable, wilson
from ntkmmd_jax.twosample import TwoSampleResult, TwoSampleTest
from tests.conftest import binomial_band
from tests.processes import answer, launch, launch_two

NETWORK = ntk.mlp(8)
TESTS = {
    "net": ntk.NetMMD(network=NETWORK, n_permutations=99),
    "ntk": ntk.NTKMMD(network=NETWORK, n_permutations=99),
}
SAMPLER = ntk.datasets.covariance_shift
GRID = {"rho": [0.0, 0.5, 3.0], "dim": 4}
OPTIONS = {"n": (24, 18), "n_runs": 50, "progress": False}


@record
class Coin(TwoSampleTest):
    """No test at all: p is NaN if the first x is positive; else the first y decides."""

    level: Any = 0.05
    fair: bool = static(default=False)  # then never NaN

    def run(self, key, x, y):
        decided = jax.numpy.where(y[0, 0] > 0, 0.01, 0.9)
        p = decided if self.fair else jax.numpy.where(x[0, 0] > 0, jax.numpy.nan, decided)
        return TwoSampleResult(p, p, p, p[None], jax.numpy.asarray(self.level))


@pytest.fixture(scope="module")
def table():
    return power_sweep(0, TESTS, SAMPLER, GRID, batch_size=25, **OPTIONS)


def counts(table):
    return [(row.test, row.point["rho"], row.rejections) for row in table.rows]


def test_rows(table):
    assert [row.test for row in table.rows] == ["net", "ntk"] * 3
    assert [row.point["rho"] for row in table.rows] == [0, 0, 0.5, 0.5, 3, 3]
    assert table.rows[0].power < 0.3 < table.rows[-1].power
    for row in table.rows:
        assert row.low <= row.power <= row.high and row.n_runs == 50
        assert row.power == row.rejections / 50


@pytest.mark.parametrize("batch_size", [1, 7])
def test_counts_do_not_depend_on_the_batch_size(table, batch_size):
    grid = {**GRID, "rho": [0.0, 0.5, 3.0]}
    assert counts(power_sweep(0, TESTS, SAMPLER, grid, batch_size=batch_size, **OPTIONS)) == counts(
        table
    )


@pytest.mark.parametrize(("n", "wanted"), [(200, 525), (2000, 153)])
def test_accelerators_take_as_many_as_the_roofline_asks_for(n, wanted):
    """Replicas of `ntk-full` at which an A100 computes as long as it waits: docs/precision.md."""
    test = ntk.make_test("ntk-full")
    (cell,) = cells_of({"ntk-full": test}, SAMPLER, {"rho": [0.1], "dim": [100]}, (n, n))
    samples = (jax.ShapeDtypeStruct((n, 100), np.float32),) * 2
    gpu, cpu = (
        SimpleNamespace(devices=np.array([SimpleNamespace(platform=name)]))
        for name in ("gpu", "cpu")
    )
    assert sweep_module._batch_size(cell, samples, gpu) >= wanted
    assert sweep_module._batch_size(cell, samples, cpu) <= 4  # what a core's cache holds


def test_a_cell_is_the_plain_loop(table):
    """Replica r of cell c by hand, with the key that the design promises."""
    cell_key = jax.random.fold_in(jax.random.key(0), 1)

    @jax.jit
    def replica(r):
        k_data, k_test = jax.random.split(jax.random.fold_in(cell_key, r))
        x, y = SAMPLER(k_data, 24, 18, rho=0.5, dim=4)
        test = ntk.NTKMMD(network=NETWORK, n_permutations=99, shared_pool=True)
        return test(k_test, x, y).reject

    assert sum(bool(replica(r)) for r in range(50)) == table.rows[3].rejections


def test_one_compile_for_a_grid_of_floats():
    before = replicas.rejections._cache_size()
    grid = {"rho": [0.0, 0.04, 0.08, 0.12, 0.16], "level": [0.05, 0.1]}
    power_sweep(1, {"ntk": TESTS["ntk"]}, SAMPLER, grid, n=8, n_runs=20, progress=False)
    assert replicas.rejections._cache_size() == before + 1


def test_every_method_keeps_its_level_under_a_sweep():
    small = {"network": NETWORK, "n_permutations": 99}
    tests = {name: ntk.make_test(name) for name in ntk.methods()}
    for name, test in tests.items():
        fields = {field.name for field in dataclasses.fields(test)}
        options = {key: value for key, value in small.items() if key in fields}
        if name in ("me", "scf"):
            options |= {"calibration": "permutation", "steps": 3, "n_locations": 2}
        if name.startswith("c2st"):
            options |= {"epochs": 1, "batch_size": 8}
        tests[name] = dataclasses.replace(test, **options)
    n_runs = 1000
    options = {"n": (30, 24), "n_runs": n_runs, "devices": 1, "progress": False}
    table = power_sweep(5, tests, SAMPLER, {"rho": [0.0], "dim": 3}, batch_size=100, **options)
    assert [row.test for row in table.rows] == list(ntk.methods())
    for row in table.rows:
        assert not row.failures, row
        off = row.power - 0.05
        assert off < binomial_band(0.05, n_runs), row
        # Accuracies have ties, and a bet is allowed to look for ever: both reject less often.
        assert off > -binomial_band(0.05, n_runs) or row.test in ("c2st-s", "bet"), row


def test_memory_is_bounded_by_the_batch():
    """The program's temporaries are those of one batch, whatever the number of rounds."""
    (cell,) = cells_of({"ntk": TESTS["ntk"]}, SAMPLER, {"rho": [0.1], "dim": [4]}, (24, 18))
    mesh = jax.sharding.Mesh(np.asarray(jax.local_devices()[:1]), ("replicas",))

    def temporaries(rounds, size):
        lowered = replicas.rejections.lower(
            list(cell.tests.values()),
            cell.traced,
            jax.random.key(0),
            0,
            1,
            sampler=SAMPLER,
            fixed=cell.fixed,
            sizes=cell.sizes,
            mesh=mesh,
            rounds=rounds,
            size=size,
        )
        return lowered.compile().memory_analysis().temp_size_in_bytes

    few, many, large = temporaries(4, 8), temporaries(64, 8), temporaries(4, 64)
    assert many < few + 8192  # replica numbers and counts
    assert large > 2 * few


def hand_counts(key, n_runs):
    """Rejections and failures of `Coin`, replica by replica."""
    cell_key = jax.random.fold_in(jax.random.key(key), 0)

    @jax.jit
    def signs(r):
        k_data, _ = jax.random.split(jax.random.fold_in(cell_key, r))
        x, y = SAMPLER(k_data, 24, 18, rho=0.1, dim=1)
        return x[0, 0] > 0, y[0, 0] > 0

    found = np.asarray([signs(r) for r in range(n_runs)])
    return int((~found[:, 0] & found[:, 1]).sum()), int(found[:, 0].sum())


def test_nan_is_no_verdict(tmp_path):
    """Replicas without a p-value are counted apart, in memory, in the checkpoint and on disk."""
    rejections, failures = hand_counts(3, 50)
    path = tmp_path / "sweep.jsonl"
    grid = {"rho": [0.1], "dim": 1}
    options = {**OPTIONS, "batch_size": 7, "checkpoint": path}
    with pytest.warns(RuntimeWarning, match=f"without a verdict .*: {failures} of 'coin'"):
        table = power_sweep(3, {"coin": Coin(), "fair": Coin(fair=True)}, SAMPLER, grid, **options)
    coin, fair = table.rows
    assert (coin.rejections, coin.failures, coin.power) == (rejections, failures, rejections / 50)
    assert fair.failures == 0 and coin.to_dict()["failures"] == failures
    lines = path.read_text().splitlines()
    assert json.loads(lines[-1])["failures"] == [failures, 0]
    with pytest.warns(RuntimeWarning, match=f"{failures} of 'coin'"):  # a finished sweep, again
        again = power_sweep(3, {"coin": Coin(), "fair": Coin(fair=True)}, SAMPLER, grid, **options)
    assert again.rows == table.rows
    assert repr(table).splitlines()[0].endswith("no verdict")
    assert repr(table).splitlines()[1].endswith(f" {failures}")
    assert "no verdict" not in repr(PowerTable([fair]))
    assert table.to_csv().splitlines()[0].endswith("seconds,failures")
    assert PowerTable.load(table.save(tmp_path / "t.json")).rows == table.rows
    assert "replicas without a verdict" in table.plot().get_legend_handles_labels()[1]


X64 = """
import dataclasses, json
import jax
import ntkmmd_jax as ntk
assert jax.numpy.ones(()).dtype == "float64"
small = {"network": ntk.mlp(4), "n_permutations": 19, "steps": 2, "epochs": 1}
tests = {}
for name in ("net", "ntk", "gmmd", "hotelling", "c2st-l", "me"):
    test = ntk.make_test(name)
    fields = {field.name for field in dataclasses.fields(test)}
    tests[name] = dataclasses.replace(test, **{k: v for k, v in small.items() if k in fields})
sampler = ntk.datasets.covariance_shift
table = ntk.power_sweep(0, tests, sampler, {"rho": [2.0], "dim": 2}, n=(12, 10), n_runs=12,
                        batch_size=4, devices=1, progress=False)
test = dataclasses.replace(tests["ntk"], shared_pool=True)
cell_key = jax.random.fold_in(jax.random.key(0), 0)
def replica(r):
    k_data, k_test = jax.random.split(jax.random.fold_in(cell_key, r))
    return test(k_test, *sampler(k_data, 12, 10, rho=2.0, dim=2)).reject
by_hand = int(jax.jit(jax.vmap(replica))(jax.numpy.arange(12)).sum())
print(json.dumps([[row.test, row.rejections, row.failures] for row in table.rows] + [by_hand]))
"""


def test_sweeps_in_double_precision():
    run = subprocess.run(
        [sys.executable, "-c", X64],
        env={**os.environ, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    *rows, by_hand = json.loads(run.stdout)
    assert len(rows) == 6 and all(failures == 0 for _, _, failures in rows)
    assert rows[1] == ["ntk", by_hand, 0]


def test_resuming_gives_the_same_table(table, tmp_path):
    path = tmp_path / "sweep.jsonl"
    again = power_sweep(0, TESTS, SAMPLER, GRID, checkpoint=path, batch_size=25, **OPTIONS)
    assert counts(again) == counts(table)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    path.write_text("".join(lines[:2]) + lines[2][:20])  # torn in the middle of a record
    resumed = power_sweep(0, TESTS, SAMPLER, GRID, checkpoint=path, batch_size=7, **OPTIONS)
    assert counts(resumed) == counts(table)
    assert path.read_text().startswith("".join(lines[:2]))


def test_long_cells_resume_in_the_middle(table, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_module, "_ROUND", 2)
    path = tmp_path / "sweep.jsonl"
    power_sweep(0, TESTS, SAMPLER, GRID, checkpoint=path, batch_size=5, **OPTIONS)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 3 * 5
    path.write_text("".join(lines[:9]))
    resumed = power_sweep(0, TESTS, SAMPLER, GRID, checkpoint=path, batch_size=25, **OPTIONS)
    assert counts(resumed) == counts(table)


def test_another_sweeps_checkpoint_is_refused(tmp_path):
    path = tmp_path / "sweep.jsonl"
    options = {"n": 8, "n_runs": 4, "progress": False, "checkpoint": path}
    power_sweep(0, {"ntk": TESTS["ntk"]}, SAMPLER, {"rho": [0.1]}, **options)
    before = path.read_text()
    for change, message in [
        ({"n_runs": 5}, "n_runs was 4, now 5"),
        ({"n": 9}, "cells was"),
    ]:
        with pytest.raises(ValueError, match=f"another sweep: .*{message}"):
            power_sweep(0, {"ntk": TESTS["ntk"]}, SAMPLER, {"rho": [0.1]}, **{**options, **change})
    other = ntk.NTKMMD(network=ntk.mlp(9), n_permutations=99)
    with pytest.raises(ValueError, match=r"tests\.ntk\.network was"):
        power_sweep(0, {"ntk": other}, SAMPLER, {"rho": [0.1]}, **options)
    assert path.read_text() == before
    path.write_text("hello\n")
    with pytest.raises(ValueError, match="not the checkpoint of a sweep"):
        power_sweep(0, {"ntk": TESTS["ntk"]}, SAMPLER, {"rho": [0.1]}, **options)


SCRIPT = """
from ntkmmd_jax.power import sweep
sweep._ROUND = options.get("round", 64)
tests = {"ntk": ntk.NTKMMD(network=ntk.mlp(8), n_permutations=99)}
table = sweep.power_sweep(0, tests, ntk.datasets.covariance_shift,
                          {"rho": [0.0, 0.5, 3.0], "dim": 4}, n=(24, 18), n_runs=50,
                          batch_size=options.get("batch_size", 5), progress=False,
                          checkpoint=options.get("checkpoint"))
if jax.process_index() == 0:
    print(json.dumps([r.rejections for r in table.rows]))
"""


@pytest.fixture(scope="module")
def expected(table):
    """The rejections of "ntk", the test of `SCRIPT`."""
    return [row.rejections for row in table.rows if row.test == "ntk"]


@pytest.mark.parametrize("devices", [2, 4])
def test_counts_do_not_depend_on_the_devices(expected, devices):
    assert answer(launch(SCRIPT, devices=devices)) == expected


def test_counts_do_not_depend_on_the_processes(expected, tmp_path):
    path = str(tmp_path / "sweep.jsonl")
    both = launch_two(SCRIPT, checkpoint=path)
    assert answer(both[0]) == expected
    out, err = both[1].communicate(timeout=60)
    assert both[1].returncode == 0 and str(expected) not in out, err
    # One process, in another batch size, knows the sweep of two again.
    alone = {"ntk": TESTS["ntk"]}
    with open(path) as record:
        before = record.read()
    again = power_sweep(0, alone, SAMPLER, GRID, checkpoint=path, batch_size=7, **OPTIONS)
    assert [row.rejections for row in again.rows] == expected
    with open(path) as record:
        assert record.read() == before


def test_killed_and_resumed(expected, tmp_path):
    """SIGKILL after the first record; whatever was being done is done again."""
    path = tmp_path / "sweep.jsonl"
    victim = launch(SCRIPT, checkpoint=str(path), round=1, batch_size=2)
    deadline = time.monotonic() + 300
    while not (path.exists() and path.read_bytes().count(b"\n") >= 3):
        assert victim.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert path.read_bytes().count(b"\n") < 60
    assert answer(launch(SCRIPT, checkpoint=str(path))) == expected


def test_table_round_trips(table, tmp_path):
    assert PowerTable.load(table.save(tmp_path / "t.json")).rows == table.rows
    frame = table.to_dataframe()
    assert list(frame.columns)[:3] == ["test", "rho", "dim"] and len(frame) == 6
    text = table.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == text and text.count("\n") == 7
    assert repr(table).count("\n") == 6 and "95 % interval" in repr(table)
    table.plot().figure.savefig(tmp_path / "t.png")
    (tmp_path / "t.json").write_text("{")
    with pytest.raises(ValueError, match="does not hold a whole power table"):
        PowerTable.load(tmp_path / "t.json")


def test_wilson_against_scipy():
    from scipy.stats import binomtest

    for k, n in [(0, 10), (3, 10), (10, 10), (41, 500)]:
        expected = binomtest(k, n).proportion_ci(method="wilson")
        np.testing.assert_allclose(wilson(k, n), expected, atol=1e-6)
    for n in range(1, 300):  # an interval has no negative arm
        assert wilson(n, n)[1] == 1 and wilson(0, n)[0] == 0


def test_what_would_hang_is_refused():
    """Two CPU devices, two pool threads, LAPACK: in a process that has exactly those."""
    code = (
        "import jax; jax.config.update('jax_num_cpu_devices', 2)\n"
        "import ntkmmd_jax as ntk\n"
        "ntk.power_sweep(0, ['hotelling'], ntk.datasets.mean_shift, {'delta': [0.1], 'dim': 3})\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NPROC": "2", "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "set the environment variable NPROC=8 before Python starts" in run.stderr
