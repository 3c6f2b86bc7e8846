"""`ntkmmd watch`: files and pipes, a line where it rejects, one line and code 2 on bad input."""

import io
import json
import os
import threading

import numpy as np
import pytest

from ntkmmd_jax.cli import app

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(90, 2)), RNG.normal(size=(80, 2)) + 1.5


@pytest.fixture
def files(tmp_path):
    np.savetxt(tmp_path / "x.csv", X, delimiter=",")
    np.save(tmp_path / "y.npy", Y)
    return str(tmp_path / "x.csv"), str(tmp_path / "y.npy")


@pytest.fixture
def watch(monkeypatch, capsys):
    def run(*arguments, stdin=""):
        monkeypatch.setattr("sys.argv", ["ntkmmd", "watch", *map(str, arguments)])
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as stopped:
            app.main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


def events(out):
    return [json.loads(line) for line in out.splitlines()]


def test_files_pipes_and_a_state(watch, files, tmp_path):
    plot = tmp_path / "wealth.png"
    code, out, _ = watch(*files, "--json", "--plot", plot)
    first, last = events(out)
    assert code == 0 and plot.stat().st_size > 1000
    assert first["event"] == "reject" and 32 <= first["n"] < 80 and first["evalue"] >= 20
    assert (
        last["event"] == "end" and last["n"] == 80 and last["pvalue"] <= 1 / last["evalue"] + 1e-9
    )

    # The same rows, through a pipe: pair by pair, with lines that are none.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lines = "\n".join(f"{a:.18e} {b:.18e}" for a, b in Y)

    def write():
        pipe.write_text(f"head\n{lines}\n1 2 3\nnan 1\n")

    writer = threading.Thread(target=write)
    writer.start()
    code, out, err = watch(files[0], pipe, "--json")
    writer.join()
    assert events(out)[0]["n"] == first["n"]
    assert events(out)[1]["log_wealth"] == pytest.approx(last["log_wealth"], abs=1e-4)
    assert err.count("left out") == 3

    # In two parts, from a saved state; standard input stands for x.
    state = tmp_path / "state.npz"
    np.save(tmp_path / "early.npy", Y[:50])
    np.save(tmp_path / "late.npy", Y[50:])
    rows = "\n".join(",".join(f"{v:.18e}" for v in row) for row in X[:50])
    watch("-", tmp_path / "early.npy", "--state", state, stdin=rows)
    rows = "\n".join(",".join(f"{v:.18e}" for v in row) for row in X[50:])
    code, out, _ = watch("-", tmp_path / "late.npy", "--state", state, "--json", stdin=rows)
    assert events(out)[-1]["log_wealth"] == pytest.approx(last["log_wealth"], abs=1e-4)
    code, _, err = watch(*files, "--state", state, "--level", "0.01")
    assert code == 2 and "was made with --block 1,1 and --level 0.05" in err


def test_it_stops_where_it_rejects(watch, files):
    code, out, _ = watch(*files, "--stop")
    assert code == 0 and out.startswith("rejected after") and "reject H0" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x.csv", "nowhere.csv"), "no such file"),
        (("x.csv", "y.npy", "--block", "2,2"), "one of them 1"),
        (("x.csv", "y.npy", "--block", "few"), "two whole numbers"),
        (("x.csv", "y.npy", "--level", "0"), "level"),
        (("x.csv", "three.npy"), "samples of shape"),
    ],
)
def test_bad_input_is_one_line(watch, files, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "three.npy", np.zeros((5, 3)))
    code, _, err = watch(*arguments)
    assert code == 2 and message in err and len(err.splitlines()) == 1


def test_streams_without_a_whole_block(watch, files):
    code, _, err = watch("-", files[1])
    assert code == 2 and "no whole block" in err
