import json
import subprocess
import sys

import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.files import read_sample


def ntkmmd(*arguments, cwd=None):
    command = [sys.executable, "-m", "ntkmmd_jax", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 3)), rng.normal(size=(40, 3)) + 1
    np.save(folder / "x.npy", x)
    np.savez(folder / "y.npz", y)
    np.savez(folder / "both.npz", x=x, y=y)
    np.savetxt(folder / "x.csv", x, delimiter=",")
    np.savetxt(folder / "y.csv", y, delimiter=",", header="a,b,c", comments="")
    np.save(folder / "nan.npy", np.full((9, 3), np.nan))
    np.save(folder / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (folder / "half.npy").write_bytes((folder / "x.npy").read_bytes()[:300])
    (folder / "words.csv").write_text("1,2,3\n4,five,6\n")
    (folder / "gap.csv").write_text("1,2,3\n4,,6\n7,8,9\n")
    (folder / "x.txt").write_text("1 2 3")
    return folder


def test_json_on_every_kind_of_file(folder):
    """One command in full, through .npz and a headed .csv; the readers are checked below."""
    arguments = ("--json", "--seed", 5, "--level", 0.1, "--permutations", 99, "-o", "batch_size=5")
    run = ntkmmd("test", "both.npz:x", "y.csv", *arguments, cwd=folder)
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["reject"] is True and report["pvalue"] == 0.01
    assert (report["n_x"], report["n_y"], report["n_permutations"]) == (50, 40, 99)
    assert report["method"] == "net" and report["level"] == 0.1


def test_text_plot_compare_and_save(folder):
    run = ntkmmd(
        "test", "x.npy", "y.npz", "--method", "ntk", "--compare", "--plot", "out.png", "--save=r",
        cwd=folder,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "reject H0" in run.stdout and "fitted order" in run.stdout
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "r.npz").is_file()


def test_every_reader_reads_the_same(folder):
    x, y = np.load(folder / "x.npy"), np.load(folder / "both.npz")["y"]
    for name in ("x.npy", "both.npz:x", "x.csv"):
        np.testing.assert_allclose(read_sample(folder / name), x)
    for name in ("y.npz", "both.npz:y", "y.csv"):
        np.testing.assert_allclose(read_sample(folder / name), y)
    assert np.isnan(read_sample(folder / "gap.csv")[1, 1])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.npy", "no such file"),
        ("x.txt", "unknown kind of file; use .npy, .npz, .csv"),
        ("half.npy", "not a readable .npy file"),
        ("objects.npy", "not a readable .npy file"),
        ("both.npz", r"it holds \['x', 'y'\]: say which"),
        ("both.npz:z", r"it has no 'z', but \['x', 'y'\]"),
        ("words.csv", "not a readable .csv file .*five"),
    ],
)
def test_unreadable_files(folder, name, message):
    with pytest.raises(ValueError, match=message):
        read_sample(folder / name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("test", "missing.npy", "x.npy"), "ntkmmd: missing.npy: no such file"),
        (("test", "nan.npy", "x.npy"), "ntkmmd: x has NaN or infinite values"),
        (("test", "x.npy"), "ntkmmd: give two files"),
        (("test", "x.npy", "y.npz", "--method", "foo"), "ntkmmd: unknown method 'foo'"),
        (("test", "x.npy", "y.npz", "-o", "rate"), "ntkmmd: --option takes NAME=VALUE"),
        (("test", "x.npy", "y.npz", "-o", "rate=1"), "ntkmmd: method 'net' has no option"),
        (("test", "x.npy", "y.npz", "--level", "2"), "ntkmmd: level must lie in (0, 1)"),
        (("test", "x.npy", "y.npz", "--level", "two"), "ntkmmd: Invalid value"),
        (("test", "--nonsense"), "ntkmmd: No such option"),
        (("tset",), "ntkmmd: No such command 'tset'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, arguments, message):
    run = ntkmmd(*arguments, cwd=folder)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith(message) and run.stderr.count("\n") == 1


def test_info():
    run = ntkmmd("info", "--json")
    report = json.loads(run.stdout)
    assert report["versions"]["neural-tangents"] == "0.6.5"
    assert any("cpu" in device for device in report["devices"])
    assert report["methods"] == ntk.methods() and "hotelling" in report["methods"]
    text = ntkmmd("info").stdout
    assert "jaxlib" in text and "ntk-symmetric" in text


def test_sweep_writes_resumes_and_refuses(tmp_path):
    arguments = ("sweep", "mean_shift", "-g", "delta=0:3:2", "-g", "dim=3", "-t", "hotelling")
    run = ntkmmd(*arguments, "--n", "20,15", "--runs", 30, "--out", "power", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    names = sorted(path.name for path in (tmp_path / "power").iterdir())
    assert names == ["checkpoint.jsonl", "power.csv", "power.json", "power.png"]
    rows = json.loads((tmp_path / "power" / "power.json").read_text())["rows"]
    assert [row["point"]["delta"] for row in rows] == [0.0, 3.0]
    assert rows[0]["power"] < 0.5 < rows[1]["power"]
    again = ntkmmd(*arguments, "--n", "20,15", "--runs", 30, "--out", "power", cwd=tmp_path)
    assert again.returncode == 2 and "--resume it, or choose another --out" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sweep", "nosuch", "-g", "rho=0"), "ntkmmd: unknown family 'nosuch'; the known ones"),
        (("sweep", "mean_shift", "-g", "delta"), "ntkmmd: --grid takes NAME=start:stop:count"),
        (("sweep", "mean_shift", "-g", "delta=a:b:c"), "ntkmmd: --grid 'delta=a:b:c': could not"),
        (("sweep", "mean_shift", "-g", "delta=0", "--n", "1,2,3"), "ntkmmd: --n takes one size"),
    ],
)
def test_bad_sweeps_are_one_line(tmp_path, arguments, message):
    run = ntkmmd(*arguments, cwd=tmp_path)
    assert run.returncode == 2 and run.stderr.startswith(message)
    assert not list(tmp_path.iterdir())
