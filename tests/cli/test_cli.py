import json
import subprocess
import sys

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.cli.app import main
from ntkmmd_jax.cli.files import read_sample, read_table


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
    np.savetxt(folder / "turned.csv", x[:, [2, 0, 1]], delimiter=",", header="c,a,b", comments="")
    (folder / "words.csv").write_text("1,2,7\n4,five,6\n")
    (folder / "gap.csv").write_text("1,2,7\n4,,6\n7,8,9\n")
    (folder / "years.csv").write_text("2019,2020\n0.5,0.25\n1.5,-1e-3\n")
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


def test_explanation_and_report(folder, ntkmmd_here):
    """Names come from the file that has them, here y's; the report says how to make it again."""
    code, out, _ = ntkmmd_here(*HOTELLING[:2], "y.csv", *HOTELLING[3:], "--explain", "--json")
    found = json.loads(out)
    assert code == 0 and found["names"] == ["a", "b", "c"]
    assert sorted(found["explanation"]["driving"]) == ["a", "b", "c"]
    code, out, _ = ntkmmd_here(*HOTELLING, "--explain", "--report", "out.html")
    assert code == 0 and "most x-like, rows of x" in out and "report: out.html" in out
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "ntkmmd test x.npy y.npz --method hotelling --explain --report out.html" in page
    without = ("--method", "gmmd-lin", "--permutations", 19)
    code, _, said = ntkmmd_here("test", "x.npy", "y.npz", *without, "--explain")
    assert code == 2 and said.startswith("ntkmmd: gmmd-lin has no witness")
    assert ntkmmd_here("test", "x.npy", "y.npz", *without, "--report", "out.html")[0] == 0
    assert "The most x-like" not in (folder / "out.html").read_text(encoding="utf-8")


def test_a_fused_result_lists_its_members(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["ntkmmd", "test", "x.npy", "y.npz", "--method", "ntk-fuse"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().out
    assert "its members, the loudest first:" in said and "softplus mlp, t = 0" in said


def test_every_reader_reads_the_same(folder):
    x, y = np.load(folder / "x.npy"), np.load(folder / "both.npz")["y"]
    for name in ("x.npy", "both.npz:x", "x.csv"):
        np.testing.assert_allclose(read_sample(folder / name), x)
    for name in ("y.npz", "both.npz:y", "y.csv"):
        np.testing.assert_allclose(read_sample(folder / name), y)
    assert np.isnan(read_sample(folder / "gap.csv")[1, 1])


@pytest.mark.parametrize(
    ("text", "columns", "n"),
    [
        ("a,b\n1.5,2\n3,4\n", ["a", "b"], 2),
        ("\n\na,b\n1.5,2\n", ["a", "b"], 1),  # blank lines first
        ("# by hand\na,b\n1.5,2\n", ["a", "b"], 1),  # a comment first
        ("# a,b\n1.5,2\n3,4\n", None, 2),  # as numpy writes it
        ("1.5,2\n3,4\n", None, 2),
        ("5,7\n3,4.5\n", None, 2),  # whole numbers elsewhere too
        ("1,2,4\n3,4,5\n", None, 2),
        ("5,7\n", None, 1),
        ("1\n2\n3\n", None, 3),
        ("\ufeff1.5,2\n3,4\n", None, 2),  # with a byte order mark
    ],
)
def test_headers_are_found(tmp_path, text, columns, n):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    table = read_table(tmp_path / "a.csv")
    assert table.columns == columns and len(table.values) == n


@pytest.mark.parametrize(
    "text",
    [
        "0,1,2\n0.5,1.5,2.5\n3,4,5\n",
        "1,2\n3,4\n5,6\n",
        "2019,2020\n0.5,0.25\n1.5,-1e-3\n",
        "7\n0.5\n1.0\n",
        ",0,1\n0,1.5,2.5\n1,3.5,4.5\n",  # with an index, as pandas writes it
    ],
)
def test_a_header_of_numbers_is_asked_about(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"a\.csv: the first line, .* header=True or False"):
        read_sample(path)
    lines = text.splitlines()
    assert len(read_sample(path, header=True)) == len(lines) - 1
    assert len(read_sample(path, header=False)) == len(lines)
    assert read_table(path, header=True).columns == lines[0].split(",")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "a\tb\n1.5\t-2\n3\t\n"),
        ("a.csv", "a;b\n1.5;-2\n3;\n"),
        ("a.csv", "a;b\n1,5;-2,0\n3;\n"),  # with decimal commas
        ("a.csv", "a,b\n1.5,-2\n3,\n"),
    ],
)
def test_tabs_and_semicolons(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    table = read_table(tmp_path / name)
    assert table.columns == ["a", "b"]
    np.testing.assert_array_equal(table.values, [[1.5, -2], [3, np.nan]])


def test_a_comma_between_tabs_is_no_point(tmp_path):
    (tmp_path / "a.tsv").write_text("1,234\t5\n6\t7\n")
    with pytest.raises(ValueError, match=r"not a readable \.tsv file .*1,234"):
        read_table(tmp_path / "a.tsv", header=False)


@pytest.mark.parametrize("reader", ["pyarrow", "polars", "pandas"])
def test_parquet(tmp_path, monkeypatch, reader):
    """By each of those that are installed."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow" if reader == "pandas" else reader)
    frame = pandas.DataFrame({"a": [1.5, 3.0], "b": [-2, 4]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.assign(c=["x", "y"]).to_parquet(tmp_path / "words.parquet")
    monkeypatch.setattr("ntkmmd_jax.cli.files._READERS", (reader,))
    table = read_table(tmp_path / "a.parquet")
    assert table.columns == ["a", "b"]
    np.testing.assert_array_equal(table.values, [[1.5, -2], [3, 4]])
    with pytest.raises(ValueError, match="column 'c' holds no numbers"):
        read_table(tmp_path / "words.parquet")


def test_parquet_without_a_reader(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr("ntkmmd_jax.cli.files._READERS", ("no_such_package",))
    with pytest.raises(ImportError, match="pyarrow, polars or pandas: install one of them"):
        read_table(tmp_path / "a.parquet")


def test_a_header_that_is_not_there_or_not_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1.5,2\n")
    with pytest.raises(ValueError, match=r"not a readable .csv file .*'a'"):
        read_sample(tmp_path / "a.csv", header=False)
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"only a .csv or .tsv file may have a header"):
        read_sample(tmp_path / "a.npy", header=True)


def test_standardized_is_said(ntkmmd_here):
    for flags, said in (((), False), (("--standardize",), True), (("--no-standardize",), False)):
        arguments = ("test", "x.npy", "y.npz", "--method", "gmmd", "--permutations", 19, *flags)
        code, out, _ = ntkmmd_here(*arguments, "--json")
        assert code == 0 and json.loads(out)["standardized"] is said


def test_columns_of_files_are_matched_by_name(folder, ntkmmd_here):
    reports = []
    for name in ("y.csv", "turned.csv"):
        code, out, _ = ntkmmd_here("test", name, "y.csv", "--method", "hotelling", "--json")
        reports.append(json.loads(out))
        assert code == 0
    assert reports[0]["statistic"] == pytest.approx(0, abs=1e-6)  # the same file
    _, out, _ = ntkmmd_here("test", "x.npy", "y.csv", "--method", "hotelling", "--json")
    assert reports[1]["statistic"] == pytest.approx(json.loads(out)["statistic"], rel=1e-4)


@pytest.fixture
def ntkmmd_here(folder, monkeypatch, capsys):
    """The command line in this process and in the folder: exit code, and what it printed."""
    monkeypatch.chdir(folder)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ntkmmd", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code or 0, *capsys.readouterr()

    return run


HOTELLING = ("test", "x.npy", "y.npz", "--method", "hotelling")
SWEEP = ("sweep", "mean_shift", "-t", "hotelling", "--no-progress", "-g")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*HOTELLING, "--plot", "none/a.png"), "--plot none/a.png: there is no folder none"),
        ((*HOTELLING, "--save", "none/a"), "--save none/a: there is no folder none"),
        ((*HOTELLING, "--plot", "."), "--plot .: is a folder"),
        ((*HOTELLING, "--report", "none/a.html"), "--report none/a.html: there is no folder none"),
        ((*HOTELLING, "--image", "28"), "--image takes HxW or HxWxC, as 28x28; got '28'"),
        ((*HOTELLING, "--explain", "--image", "2x2"), "of 3 numbers in all; got (2, 2)"),
        ((*HOTELLING, "--plot", "x.npy/a.png"), "there is no folder x.npy"),
        ((*HOTELLING, "--plot", "a.xyz"), "--plot a.xyz: unknown kind of picture"),
        ((*HOTELLING, "--seed", 2**63), "a seed is a whole number from -2^63"),
        ((*HOTELLING, "--seed", -(2**63) - 1), "a seed is a whole number from -2^63"),
        (("test", "--demo", "--seed", 2**64), "a seed is a whole number"),
        (("test", "--demo", "-o", "optimizer=adam"), "optimizer=adam: takes an object of Python"),
        (("test", "--demo", "-o", "network=mlp"), "network=mlp: takes an object of Python"),
        (("test", "--demo", "-o", "learning_rate=adam"), "learning_rate=adam: takes a number"),
        (("test", "--demo", "-o", "momentum=x"), "momentum=x: takes a number"),
        (("test", "--demo", "-o", "shuffle=3"), "shuffle=3: takes true or false"),
        (("test", "--demo", "-o", "level=0.1"), "--option level=0.1: use --level for that"),
        (("test", "--demo", "-o", "standardize=true"), "use --standardize for that"),
        (("test", "--demo", "-o", "x=1"), "--option x=1: use X for that"),
        (("test", "--demo", "-o", "=1"), "--option takes NAME=VALUE; got '=1'"),
        (("test", "--demo", "-o", "epochs=1", "-o", "epochs=2"), "epochs is given twice"),
        (("test", "--demo", "-o", "rate=1"), "method 'ntk-fuse' has no option ['rate']"),
        (("test", "--demo", "--header"), "--demo brings its own data"),
        ((*HOTELLING, "--header"), "--header and --no-header are for .csv and .tsv files"),
        (("test", "years.csv", "x.npy"), "years.csv: the first line, 2019,2020, may be"),
        (("test", "years.csv", "gap.csv", "--no-header"), "x and y have different features"),
        ((*SWEEP, "delta=0", "--n", "abc"), "--n takes one size or n_x,n_y"),
        ((*SWEEP, "delta=0", "--n", "0"), "--n takes one size or n_x,n_y, each of at least 2"),
        ((*SWEEP, "delta=0", "--n", ",5"), "--n takes one size"),
        ((*SWEEP, "n=0", "-g", "delta=0"), "--grid 'n=0': n must be a whole number of at least 2"),
        ((*SWEEP, "dim=0"), "--grid 'dim=0': dim must be a whole number of at least 1"),
        ((*SWEEP, "dim=2.5"), "dim must be a whole number"),
        ((*SWEEP, "dim=true"), "dim must be a whole number"),
        ((*SWEEP, "delta=0:1:1000000000"), "the count must lie between 1 and 10,000"),
        ((*SWEEP, "delta=0:1:0"), "the count must lie between 1 and 10,000; got 0"),
        ((*SWEEP, "delta=0:inf:3"), "values must be finite"),
        ((*SWEEP, "delta=NaN"), "values must be finite; got nan"),
        ((*SWEEP, "delta=null"), "values are numbers or words; got None"),
        ((*SWEEP, "delta=[1]"), "values are numbers or words; got [1]"),
        ((*SWEEP, "delta=abc"), "'abc' is no number"),
        ((*SWEEP, "=0:1:3"), "--grid takes NAME=start:stop:count"),
        ((*SWEEP, "delta=0", "-g", "delta=1"), "--grid delta is given twice"),
        ((*SWEEP, "delta=0", "--devices", "0"), "Invalid value for '--devices'"),
        ((*SWEEP, "delta=0", "--seed", 2**70), "a seed is a whole number"),
        ((*SWEEP, "delta=0", "--processes", "2"), "go with --distributed"),
        (("reproduce", "nosuch"), "nosuch"),
        (("info", "--nosuch"), "No such option"),
        ((*SWEEP, "delta=0", "-t", ""), "unknown method ''"),
        (("sweep", "", "-g", "delta=0"), "unknown family ''"),
    ],
)
def test_foreseeable_mistakes_are_one_line(ntkmmd_here, arguments, message):
    code, out, said = ntkmmd_here(*arguments)
    assert (code, out) == (2, "")
    assert said.startswith("ntkmmd: ") and message in said and said.count("\n") == 1


@pytest.mark.parametrize("flag", ["--plot", "--save"])
def test_a_result_outlives_a_file_that_cannot_be_written(ntkmmd_here, monkeypatch, flag):
    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("ntkmmd_jax.plotting.save", full)
    monkeypatch.setattr(ntk.TwoSampleResult, "save", full)
    code, out, said = ntkmmd_here(*HOTELLING, "--json", flag, "a.png")
    assert json.loads(out)["reject"] is True
    assert (code, said) == (2, "ntkmmd: No space left on device\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.npy", "no such file"),
        ("x.txt", "unknown kind of file; use .npy, .npz, .csv, .tsv, .parquet"),
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
        (("test", "x.npy", "y.npz", "-o", "rate=1"), "ntkmmd: method 'ntk-fuse' has no option"),
        (("test", "x.npy", "y.npz", "--level", "2"), "ntkmmd: level must lie in (0, 1)"),
        (("test", "x.npy", "y.npz", "--level", "two"), "ntkmmd: Invalid value"),
        (("test", "--nonsense"), "ntkmmd: No such option"),
        (("tset",), "ntkmmd: No such command 'tset'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(ntkmmd_here, arguments, message):
    code, out, said = ntkmmd_here(*arguments)
    assert code == 2
    assert out == ""
    assert said.startswith(message) and said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("test", "missing.npy", "x.npy"), "ntkmmd: missing.npy: no such file"),
        (("plan", "x.npy", "y.npz", "--power", "1"), "ntkmmd: power must lie between the level"),
    ],
)
def test_a_process_of_its_own_says_no_more(folder, arguments, message):
    """Not a word beside the line, of JAX or of the import."""
    run = ntkmmd(*arguments, cwd=folder)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(message) and run.stderr.count("\n") == 1


def test_info(ntkmmd_here):
    run = ntkmmd("info", "--json")
    report = json.loads(run.stdout)
    assert report["versions"]["neural-tangents"] == "0.6.5"
    assert any("cpu" in device for device in report["devices"])
    assert report["methods"] == ntk.methods() and "hotelling" in report["methods"]
    _, text, _ = ntkmmd_here("info")
    assert "jaxlib" in text and "ntk-symmetric" in text


def test_programs_are_kept_by_default(programs, ntkmmd_here, monkeypatch):
    """Not if told so; `cache` shows and clears them; not a word is said by other commands."""
    monkeypatch.setenv("NTKMMD_CACHE", "0")
    assert ntkmmd_here(*HOTELLING, "--json")[0] == 0 and not programs.exists()
    monkeypatch.delenv("NTKMMD_CACHE")
    assert ntkmmd_here("--no-cache", *HOTELLING)[0] == 0 and not programs.exists()
    code, _, said = ntkmmd_here(*HOTELLING, "--level", "0.01", "--permutations", 29)
    assert (code, said) == (0, "") and jax.config.jax_compilation_cache_dir == str(programs)
    (programs / "one-cache").write_bytes(bytes(5_000_001))
    size = sum(path.stat().st_size for path in programs.iterdir()) / 1e6
    code, out, _ = ntkmmd_here("cache")
    assert code == 0 and f"{size:.1f} MB" in out and str(programs) in out and size > 5
    code, out, _ = ntkmmd_here("cache", "--clear")
    assert code == 0 and out.startswith("deleted: ") and not list(programs.iterdir())
    programs.chmod(0o777)  # no place for a cache: no word of it
    code, _, said = ntkmmd_here(*HOTELLING)
    assert (code, said) == (0, "")


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
def test_bad_sweeps_are_one_line(ntkmmd_here, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, _, said = ntkmmd_here(*arguments)
    assert code == 2 and said.startswith(message)
    assert not list(tmp_path.iterdir())


def test_groups_tolerance_and_adaptive_permutations(folder, ntkmmd_here):
    rng = np.random.default_rng(1)
    for name, first, shift in (("a.csv", 0, 0.0), ("b.csv", 100, 3.0)):
        patients = np.repeat(np.arange(first, first + 10), 3)[:, None]
        values = np.hstack([rng.normal(size=(30, 2)) + shift, patients])
        np.savetxt(folder / name, values, delimiter=",", header="u,v,patient", comments="")
    wanted = ("--method=gmmd", "--groups=patient", "--permutations=adaptive", "--tolerance=0.3")
    with pytest.warns(UserWarning, match="normal law"):
        code, out, err = ntkmmd_here("test", "a.csv", "b.csv", *wanted, "--json")
    assert not code, err
    found = json.loads(out)
    assert found["reject"] and found["within"] == "groups" and found["names"] == ["u", "v"]
    assert found["n_permutations"] == 399 and found["tolerance"]["exceeds"]


@pytest.mark.parametrize(
    ("argument", "said"),
    [("--groups=z", "there are a, b, c"), ("--permutations=many", "or adaptive")],
)
def test_columns_and_permutations_are_checked(ntkmmd_here, argument, said):
    code, _, err = ntkmmd_here("test", "y.csv", "y.csv", argument)
    assert code == 2 and said in err
