"""Files of sweeps that were damaged, forged, or are something else."""

import json
import subprocess
import sys

import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.power.checkpoint import Checkpoint
from ntkmmd_jax.power.table import PowerRow, PowerTable

GOOD = {"cell": 0, "from": 0, "to": 3, "rejections": [1, 0], "failures": [0, 2], "seconds": 0.5}
HEAD = {"configuration": {"a": 1}}
TOTALS = {"n_cells": 2, "n_tests": 2, "n_runs": 5}


def lines(*records):
    return b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in records
    )


def read(path, *records):
    path.write_bytes(lines(*records))
    return Checkpoint(path, {"a": 1}).totals(**TOTALS)


def test_batches_add_up(tmp_path):
    rest = {**GOOD, "from": 3, "to": 5, "seconds": 1}
    finished, counts, seconds = read(tmp_path / "c", HEAD, GOOD, {**GOOD, "cell": 1}, rest)
    assert finished.tolist() == [5, 3] and seconds.tolist() == [1.5, 0.5]
    assert counts.tolist() == [[[2, 0], [0, 4]], [[1, 0], [0, 2]]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rejections": [4, 0]}, r"rejections \[4, 0\] and failures \[0, 2\] of 3 replicas"),
        ({"rejections": [0, 2]}, "of 3 replicas"),  # and 2 failures
        ({"rejections": [-1, 0]}, r"rejections must be 2 counts, one a test; got \[-1, 0\]"),
        ({"rejections": [1]}, "rejections must be 2 counts"),
        ({"rejections": [1.0, True]}, "rejections must be 2 counts"),
        ({"rejections": None}, "rejections must be 2 counts"),
        ({"failures": [0, 0, 0]}, "failures must be 2 counts"),
        ({"to": 0}, "replicas 0 to 0 of 5, of which 0 are finished"),
        ({"to": 6}, "do not connect"),
        ({"to": "3"}, "do not connect"),
        ({"from": 1}, "do not connect"),
        ({"from": -1}, "do not connect"),
        ({"cell": 2}, "there is no cell 2 among 2"),
        ({"cell": -1}, "there is no cell -1"),
        ({"cell": "0"}, "there is no cell '0'"),
        ({"seconds": -1}, "is no duration"),
        ({"seconds": float("nan")}, "is no duration"),
    ],
)
def test_impossible_records_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=f"c, line 3: .*{message}.*damaged"):
        read(tmp_path / "c", HEAD, {**GOOD, "cell": 1}, {**GOOD, **change})


@pytest.mark.parametrize(
    "line",
    [
        *({k: v for k, v in GOOD.items() if k != name} for name in GOOD),
        *(b"[1]", b"3", b"null", b"", b"hello", b"\xff\xfe", b"\x80", b"[" * 10**5),
        b'{"cell": ' + b"9" * 5000 + b"}",
        json.dumps(GOOD).encode()[:20],
    ],
)
def test_lines_that_are_no_record_are_refused(tmp_path, line):
    with pytest.raises(ValueError, match=r"c, line 2: .*damaged"):
        read(tmp_path / "c", HEAD, line, GOOD)


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b"{}\n", b"[]\n", b"\xff\xfe\x00"])
def test_another_file_is_left_as_it_is(tmp_path, content):
    """Not even one line without an end, which looks like a torn one, is overwritten."""
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not the checkpoint of a sweep"):
        Checkpoint(path, {"a": 1})
    assert path.read_bytes() == content


@pytest.mark.parametrize("torn", [b"", b"{", b'{"configuration": {"a"'])
def test_a_torn_first_line_begins_anew(tmp_path, torn):
    path = tmp_path / "c"
    path.write_bytes(torn)
    Checkpoint(path, {"a": 1}).add(GOOD)
    assert path.read_bytes() == lines(HEAD, GOOD)


def test_a_full_disk_loses_nothing(tmp_path):
    """A limit on the file size stands for a full disk: the record before it stays whole."""
    path = tmp_path / "sweep.jsonl"
    code = (
        "import resource, signal, sys\n"
        "from ntkmmd_jax.power.checkpoint import Checkpoint\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "c = Checkpoint(sys.argv[1], {'a': 1})\n"
        "c.add({'cell': 0})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))\n"
        "c.add({'cell': 1, 'text': 'x' * 100})\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert "what was recorded before is kept" in run.stderr
    assert Checkpoint(path, {"a": 1}).entries == [{"cell": 0}]


def test_another_version_of_jax_is_named(tmp_path):
    path = tmp_path / "c"
    options = {"n": 8, "n_runs": 2, "progress": False, "checkpoint": path}
    test = {"gmmd": ntk.GaussianMMD(n_permutations=19)}
    grid = {"delta": [0.1], "dim": 2}
    ntk.power_sweep(0, test, ntk.datasets.mean_shift, grid, **options)
    first, record = path.read_bytes().splitlines()
    head = json.loads(first)
    head["configuration"] |= {"jax": "0.0.1"}
    path.write_bytes(lines(head, record))
    with pytest.raises(ValueError, match=r'another sweep: jax was "0\.0\.1", now'):
        ntk.power_sweep(0, test, ntk.datasets.mean_shift, grid, **options)


ROW = PowerRow("net", {"rho": 0.1}, 10, 4, 1.5, 2)


def test_a_table_without_failures_loads(tmp_path):
    path = PowerTable([ROW]).save(tmp_path / "t.json")
    assert PowerTable.load(path).rows == [ROW]
    saved = json.loads(path.read_text())
    del saved["rows"][0]["failures"]
    path.write_text(json.dumps(saved))
    assert PowerTable.load(path).rows[0].failures == 0


@pytest.mark.parametrize(
    "change",
    [
        *({"rejections": bad} for bad in (11, -1, 1.5, "1", None, True)),
        *({"failures": bad} for bad in (7, -1, None)),
        *({"n_runs": bad} for bad in (0, None, 2.0)),
        *({"test": 3}, {"point": [1]}, {"seconds": -1}, {"seconds": "a"}),
    ],
)
def test_impossible_rows_are_refused(tmp_path, change):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"rows": [{**ROW.to_dict(), **change}]}))
    with pytest.raises(ValueError, match=r"t\.json does not hold a whole power table \(row 0: "):
        PowerTable.load(path)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[]", b'{"rows": 3}', b'{"rows": [3]}', b"[" * 10**5, b"3"]
)
def test_what_is_no_table_is_refused(tmp_path, content):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="does not hold a whole power table"):
        PowerTable.load(path)


def test_functions_in_a_grid_are_saved_by_name(tmp_path):
    table = PowerTable([PowerRow("net", {"activation": len}, 10, 4, 1.5)])
    assert PowerTable.load(table.save(tmp_path / "t.json")).rows[0].point == {"activation": "len"}
    assert "len" in table.to_csv() and " len " in repr(table)
    assert PowerTable([]).to_csv() == "\n"
