"""Programs on disk: kept, found, cleared; never in the way, whatever the disk says."""

import os
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import pytest

from ntkmmd_jax import cache
from ntkmmd_jax._lib import cache as module
from ntkmmd_jax._lib.cache import kept, programs_folder


def compiled(number):
    """Compile and run a program of its own, and say whether it was found on disk."""
    found = []

    def listen(event, **_):
        found.append(event.endswith("/cache_hits"))

    jax.monitoring.register_event_listener(listen)
    value = jax.jit(lambda x: x * number)(jnp.ones(3))
    jax.monitoring.unregister_event_listener(listen)
    assert value[0] == number
    return any(found)


def test_programs_are_kept_found_and_cleared(programs):
    assert cache() == programs == programs_folder()
    assert programs.stat().st_mode & 0o777 == 0o700
    assert not compiled(3.5) and len(kept()) > 0
    assert compiled(3.5)  # of another function, which is the same program
    assert cache() == programs  # once more is no harm
    (programs / "notes.txt").write_text("not a program")
    assert cache(clear=True) == programs and kept() == []
    assert [path.name for path in programs.iterdir()] == ["notes.txt"]
    assert not compiled(3.5) and compiled(3.5)


def test_a_cache_that_is_there_already_is_left_alone(programs, tmp_path):
    seconds = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    assert cache(clear=True) == tmp_path / "mine"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")
    assert jax.config.jax_persistent_cache_min_compile_time_secs == seconds
    assert not programs.exists()


def test_a_cache_that_is_forbidden_stays_off(programs):
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        assert cache() is None
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
    assert jax.config.jax_compilation_cache_dir is None and not programs.exists()


@pytest.mark.parametrize("trouble", ["no such place", "a file", "shared", "full"])
def test_without_a_place_everything_works_without(programs, monkeypatch, trouble):
    message = "compiled programs are not kept"
    if trouble == "no such place":  # where not even root may write
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/self")
    elif trouble == "a file":
        programs.parent.mkdir(parents=True)
        programs.write_text("in the way")
    elif trouble == "shared":
        programs.mkdir(parents=True)
        programs.chmod(0o777)
        message = "others may write to"
    else:
        monkeypatch.setattr(module, "_ROOM", 2**80)
        message = "MiB left, below"
    with pytest.warns(RuntimeWarning, match=message):
        assert cache() is None
    assert not compiled(4.5) and kept() == []
    assert jax.config.jax_compilation_cache_dir is None


def test_the_oldest_programs_go_first_and_those_that_were_cut(programs, monkeypatch):
    monkeypatch.setattr(module, "_BYTES", 10_000)
    programs.mkdir(parents=True, mode=0o700)
    for age, (name, size) in enumerate(
        {"a": 5000, "empty": 0, "b": 1000, "cut": 4096, "old": 5000}.items()
    ):
        path = programs / f"{name}-cache"
        path.write_bytes(b"0" * size)
        os.utime(path, (1e9 - age, 1e9 - age))
    assert cache() == programs
    assert [entry.name for entry in kept()] == ["b-cache", "a-cache"]


FULL = """
import resource, warnings
warnings.simplefilter("error")
import ntkmmd_jax as ntk, jax, jax.numpy as jnp
from ntkmmd_jax._lib.cache import kept

def run():
    program = jax.jit(lambda key: jnp.sort(jax.random.normal(key, (50,))))
    return float(program(jax.random.key(0))[0])

ntk.cache()
most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most[1]))  # as if no second block were left
first = run()
cut = [entry.name for entry in kept() if entry.stat().st_size == 4096]
assert len(cut) == 1, kept()
assert run() == first  # what was cut is no program: compiled again
resource.setrlimit(resource.RLIMIT_FSIZE, most)
ntk.cache()
assert cut[0] not in [entry.name for entry in kept()]
assert run() == first
assert [entry.stat().st_size > 4096 for entry in kept() if entry.name == cut[0]] == [True]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are POSIX")
def test_a_disk_that_fills_up_costs_no_more_than_a_compilation(tmp_path):
    """The kernel itself cuts the file, and the next session is rid of it. Not a word is said."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    env["XDG_CACHE_HOME"] = str(tmp_path)
    run = subprocess.run([sys.executable, "-c", FULL], env=env, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_jax_still_words_its_warnings_so(programs):
    """Ours are ignored by their words: this fails when JAX changes them."""
    cache()
    assert not compiled(5.5)
    for entry in kept():
        (programs / entry.name).write_bytes(b"no program")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        compiled(5.5)
    assert any("Error reading persistent compilation cache entry" in str(w.message) for w in said)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache()
        assert not compiled(5.5)
