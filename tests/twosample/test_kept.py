"""Executables on disk: the same bits, without a trace; never in the way, whatever the disk says."""

import contextlib
import dataclasses
import pickle
import subprocess
import sys
import zlib

import flax
import jax
import numpy as np
import optax
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax._lib import executables, surroundings
from ntkmmd_jax._lib.cache import in_use
from ntkmmd_jax._lib.cache import kept as on_disk
from ntkmmd_jax.twosample import contract, kept

RNG = np.random.default_rng(0)
X, Y, Z = RNG.normal(size=(30, 3)), RNG.normal(size=(27, 3)) + 0.5, RNG.normal(size=(4, 3))
NET = {"network": ntk.mlp(8), "n_permutations": 49}
METHODS = {
    "net": NET,
    "ntk": NET,
    "ntk-symmetric": {**NET, "network": ntk.freeze(ntk.mlp((8, 4)), "layer_1")},
    "ntk-fuse": {"n_permutations": 49},
    "gmmd": {"n_permutations": 49},
    "bet": {"network": ntk.fourier(16)},
}


def outcome(method="gmmd", **options):
    return ntk.two_sample_test(X, Y, method=method, key=1, **{"n_permutations": 49, **options})


def files(folder):
    return sorted(path.name for path in folder.glob("quick-*"))


def begin_anew():
    """As in another process: nothing is compiled or loaded."""
    kept._ready.clear()
    jax.clear_caches()


def bits(result):
    """All numbers of a result as bytes, what is static beside them, and the witness elsewhere."""
    numbers = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(result)]
    return numbers, jax.tree.structure(result), np.asarray(result.witness(Z)).tobytes()


@pytest.fixture
def folder(programs):
    """An empty one in use, and nothing in memory."""
    begin_anew()
    ntk.cache()
    yield programs
    kept._ready.clear()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits(programs, method, tmp_path):
    """Of programs that `jit` compiles, of executables that are saved, and of those that load."""
    kept._ready.clear()
    options = {"method": method, "key": 1, **METHODS[method]}
    plain = ntk.two_sample_test(X, Y, **options)
    assert not programs.exists()
    ntk.cache()
    begin_anew()
    saved = ntk.two_sample_test(X, Y, **options)
    assert len(files(programs)) == 1
    kept._ready.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "_compiled", None)
        loaded = ntk.two_sample_test(X, Y, **options)
    assert bits(plain) == bits(saved) == bits(loaded)
    again = ntk.TwoSampleResult.load(loaded.save(tmp_path / "result"))
    np.testing.assert_array_equal(again.witness(Z), plain.witness(Z))
    assert loaded.explain(X, Y, n_permutations=99).driving == plain.explain(
        X, Y, n_permutations=99
    ).driving  # fmt: skip


PROCESS = """
import sys
import jax
import ntkmmd_jax as ntk, numpy as np
work = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: work.append(event) if "/compile/" in event else None
)
ntk.cache()
x = np.random.default_rng(0).normal(size=(40, 3))
for method in ("ntk-fuse", "net"):
    for n in (30, 25):  # one bucket
        print(ntk.two_sample_test(x, x[:n] + 0.3, method=method, n_permutations=49).pvalue)
loaded = {"flax", "optax", "rich", "jax.extend"} & set(sys.modules)
print(len(work), *sorted(loaded), file=sys.stderr)
"""


def test_a_second_process_neither_traces_nor_compiles(tmp_path, monkeypatch):
    """By JAX's own account. Nor does it import what only tracing needs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.delenv(name, raising=False)
    runs = [
        subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout and len(runs[0].stdout.split()) == 4
    assert int(runs[0].stderr.split()[0]) > 0 and "jax.extend" in runs[0].stderr
    assert "flax" not in runs[0].stderr  # which the paper's network does without
    assert runs[1].stderr.split() == ["0"]


def test_files_are_read_once(folder, monkeypatch):
    outcome()
    kept._ready.clear()
    reads, load = [], executables.load
    monkeypatch.setattr(executables, "load", lambda *given: reads.append(given) or load(*given))
    assert len({outcome().pvalue for _ in range(3)}) == len(reads) == 1


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"no executable",
        zlib.compress(b"no pickle"),
        zlib.compress(pickle.dumps((b"no program", 6, b""))),
        "cut",
    ],
    ids=["empty", "text", "no pickle", "no program", "cut"],
)
def test_a_damaged_file_is_written_again(folder, damage):
    before = bits(outcome())
    path = folder / files(folder)[0]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage == "cut" else damage)
    begin_anew()
    assert bits(outcome()) == before
    assert executables.load(path, kept._unpickled) is not None


def test_an_executable_that_does_not_run_is_compiled_again(folder, monkeypatch):
    """As XLA gives one of a program that it has loaded itself: parts are missing when it is run."""

    def broken(*leaves):
        raise jax.errors.JaxRuntimeError("NOT_FOUND: Function iota_kernel not found")

    monkeypatch.setattr(executables, "load", lambda *_: broken)
    before = bits(outcome())
    assert len(files(folder)) == 1 and bits(outcome()) == before


def test_a_program_that_jax_has_on_disk_is_saved_whole(folder):
    """Compiled afresh: what JAX loads cannot be saved again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "in_use", lambda: None)
        outcome()
    assert len(on_disk()) > 0 == len(files(folder))
    first = bits(outcome())  # in the same process XLA has it, and has run it
    assert files(folder) == []
    begin_anew()
    assert bits(outcome()) == first and len(files(folder)) == 1
    kept._ready.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "_compiled", None)
        assert bits(outcome()) == first
    assert jax.config.jax_enable_compilation_cache


@contextlib.contextmanager
def double():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        yield


def test_what_makes_another_program_makes_another_file(folder):
    """And what is traced does not: the level, and sizes of one bucket."""
    outcome()
    first = set(files(folder))
    outcome(level=0.1)
    ntk.two_sample_test(X[:25], Y, method="gmmd", key=2, n_permutations=49)
    assert set(files(folder)) == first
    found = [first]
    for options, context in (
        ({"n_permutations": 59}, contextlib.nullcontext()),
        ({"unbiased": True}, contextlib.nullcontext()),
        ({"standardize": True}, contextlib.nullcontext()),
        ({}, ntk.precision("bfloat16")),
        ({}, jax.numpy_dtype_promotion("standard")),
        ({}, double()),
        ({}, jax.threefry_partitionable(False)),
    ):
        with context:
            outcome(**options)
        found.append(set(files(folder)))
        assert len(found[-1] - found[-2]) == 1


def test_networks_are_told_apart(folder):
    for count, network in enumerate((ntk.mlp(8), ntk.mlp(9), ntk.mlp(8, activation="relu"))):
        outcome("ntk", network=network)
        outcome("ntk", network=network)
        assert len(files(folder)) == count + 1


def test_an_edit_of_the_source_counts(folder, tmp_path, monkeypatch):
    """Of any file: its text, its time, or that it is there."""
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    module = package / "inner" / "module.py"
    module.write_text("a = 1\n")
    seen = {surroundings.source(package)}
    monkeypatch.setattr(surroundings, "PACKAGE", package)
    names = set()
    for edit in (lambda: module.write_text("a = 10\n"), module.touch, (package / "b.py").touch):
        edit()
        seen.add(surroundings.source(package))
        surroundings._fixed.cache_clear()
        names.add(surroundings.digest("a test"))
        assert surroundings.digest("a test") in names
    surroundings._fixed.cache_clear()
    assert len(seen) == 4 and len(names) == 3


def test_settings_of_flax_count_whether_it_is_imported_or_not(monkeypatch):
    names = [surroundings.digest("a test")]
    before = flax.config.flax_fix_rng_separator
    flax.config.update("flax_fix_rng_separator", not before)
    names.append(surroundings.digest("a test"))
    flax.config.update("flax_fix_rng_separator", before)
    monkeypatch.delitem(sys.modules, "flax.configurations")
    names.append(surroundings.digest("a test"))
    monkeypatch.setenv("FLAX_FIX_RNG_SEPARATOR", "true" if not before else "0")
    names.append(surroundings.digest("a test"))
    assert names[0] == names[2] != names[1] == names[3]


def own_init(key, x):
    return {"w": jax.random.normal(key, (x.shape[1], 4))}


def own_apply(params, x):
    return jax.numpy.tanh(x @ params["w"]).sum(1)


@ntk.record
class Mine(ntk.GaussianMMD):
    """A test of the user's own."""


@pytest.mark.parametrize(
    "test",
    [
        ntk.NTKMMD((own_init, own_apply), n_permutations=49),
        ntk.NTKMMD(
            dataclasses.replace(
                ntk.mlp(8), init=own_init, apply=own_apply, frozen=(), collection=None
            )
        ),
        ntk.NetMMD(ntk.mlp(8), optimizer=optax.adam(0.01), n_permutations=49),
        Mine(n_permutations=49),
    ],
    ids=["network", "network with a recipe that is not its own", "optimizer", "class"],
)
def test_what_is_the_users_own_is_not_kept_and_works(folder, test):
    assert kept._pickled(jax.tree.structure(test)) is None
    assert 0 < ntk.two_sample_test(X, Y, method=test).pvalue <= 1
    assert files(folder) == []


def test_what_calls_lapack_is_not_kept_and_works(folder):
    """It is made ready by lowering; JAX keeps its program."""
    first = bits(outcome("hotelling"))
    begin_anew()
    assert bits(outcome("hotelling")) == first
    assert files(folder) == [] and len(on_disk()) > 0


def test_nothing_is_kept_of_what_is_placed_or_not_compiled(folder):
    placed = jax.device_put(jax.random.key(1), jax.devices()[0])
    ntk.two_sample_test(X, Y, method="gmmd", key=placed, n_permutations=49)
    with jax.default_device(jax.devices()[0]):
        outcome()
    assert files(folder) == []


@pytest.mark.parametrize("trouble", ["full", "gone", "shared", "theirs"])
def test_without_a_place_everything_works_without(folder, monkeypatch, tmp_path, trouble):
    if trouble == "full":

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pathlib.Path.write_bytes", full)
    elif trouble == "gone":
        folder.rmdir()
    elif trouble == "shared":  # then what is there is not to be trusted
        folder.chmod(0o777)
    else:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    assert (in_use() is None) == (trouble != "full")
    assert 0 < outcome().pvalue <= 1
    assert files(folder) == [] and not list(tmp_path.rglob("*quick-*"))


def test_the_folder_counts_and_clears_them(folder):
    outcome()
    assert [entry.name for entry in on_disk()] == files(folder) != []
    ntk.cache(clear=True)
    assert files(folder) == []


def test_executables_in_memory_are_bounded(folder, monkeypatch):
    monkeypatch.setattr(contract, "_PROGRAMS", 2)
    for n in (29, 39, 49):
        outcome(n_permutations=n)
    assert len(kept._ready) == 1
