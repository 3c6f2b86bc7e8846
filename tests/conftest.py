"""Shared data of the tests, and the band in which a Monte Carlo rate must lie."""

import dataclasses
import gc
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

# Most of the tests' time is compilation: these cut it to a third. They come before jax is imported.
# Programs that run longer than they compile take `compiler_options=LONG`. XLA's fusion emitters
# double the time of compilation, and gain nothing at the sizes of tests.
QUICK = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
LONG = {"xla_backend_optimization_level": 1}
if QUICK not in os.environ.get("XLA_FLAGS", ""):  # workers have the flags of their master
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()

# One cache for one run: workers, notebooks and processes that tests start share their programs.
# With JAX_COMPILATION_CACHE_DIR the next run has them too, and takes half the time.
PROGRAMS = None
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    PROGRAMS = tempfile.mkdtemp(prefix="ntkmmd-programs-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = PROGRAMS
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

# Batched LAPACK on small matrices: threads of its own would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import numpy as np
import pytest
import scipy.stats
from jax.experimental.compilation_cache import compilation_cache

from ntkmmd_jax import datasets
from ntkmmd_jax.twosample import contract

# Tests count programs: none is to be dropped meanwhile, but by `few_programs` below.
contract._PROGRAMS = 10**9

# Types meet only where the code says so: int32 with float32 is an error in every test.
jax.config.update("jax_numpy_dtype_promotion", "strict")


# JAX makes hundreds of thousands of lasting objects and hardly a cycle: to look for cycles as often
# as Python does by default would take a tenth of the time.
gc.set_threshold(50_000, 20, 10)


def pytest_collection_finish():
    """What has been imported stays."""
    gc.freeze()


def pytest_unconfigure():
    """Whoever made the folder of programs removes it: the master, when its workers are done."""
    if PROGRAMS is not None:
        shutil.rmtree(PROGRAMS, ignore_errors=True)


def compiled_tests():
    """How many programs of tests have been compiled, thoroughly or quickly."""
    return contract.run_program._cache_size() + contract.run_quickly._cache_size()


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Close figures; drop compiled programs when they hold many memory maps of Linux' 65,530.

    A program has some dozens, up to hundreds, and a module's are up to 15,000; without maps left,
    the next compilation is a segmentation fault.
    """
    yield
    if "matplotlib.pyplot" in sys.modules:  # figures stay open until somebody closes them
        sys.modules["matplotlib.pyplot"].close("all")
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 30_000:
        jax.clear_caches()


@pytest.fixture(scope="session")
def shifted():
    """Two samples of unequal size from the paper's covariance shift, d = 100."""
    return datasets.covariance_shift(jax.random.key(11), 130, 90, rho=0.12)


@pytest.fixture(scope="session")
def images():
    """Two samples of 28 × 28 images of unequal size."""
    rng = np.random.default_rng(5)
    images = rng.random((34, 28, 28)).astype(np.float32)
    return images[:20], 0.8 * images[20:]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder, and no cache."""
    monkeypatch.setenv("NTKMMD_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Where `cache` would keep programs, with JAX as if nobody had given it a cache."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jax.config.update(names[0], None)
    compilation_cache.reset_cache()
    with warnings.catch_warnings():
        yield tmp_path / "cache" / "ntkmmd_jax" / "programs"
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def rejection_rate(test, sampler, n_x, n_y, *, n_runs, seed=0, batch=25, **point):
    """The fraction of fresh replicas that a test rejects."""

    def replica(key):
        k_data, k_test = jax.random.split(key)
        x, y = sampler(k_data, n_x, n_y, **point)
        return test(k_test, x, y).reject

    def run(keys):
        return jax.lax.map(replica, keys, batch_size=batch)

    keys = jax.random.split(jax.random.key(seed), n_runs)
    return float(np.mean(jax.jit(run, compiler_options=LONG)(keys)))


def binomial_band(rate, n_runs, sigmas=4.0):
    """How far a rate over n_runs may stray by chance: 4 standard errors, about 1 in 16,000."""
    return sigmas * np.sqrt(rate * (1 - rate) / n_runs)


def null_samples(law, n_runs, n):
    """Independent points, to be cut into x and y, shape (n_runs, n, 2)."""
    u = np.random.default_rng(7).uniform(size=(n_runs, n, 2))
    if law == "discrete":  # four points, all tied
        return (u < 0.4).astype(np.float32)
    if law == "heavy":  # Student t with 2 degrees of freedom, by its quantiles: no variance
        return ((2 * u - 1) / np.sqrt(2 * u * (1 - u))).astype(np.float32)
    return scipy.stats.norm.ppf(u).astype(np.float32)


@jax.jit(compiler_options=LONG)
def replicas(test, keys, x, y):
    return jax.vmap(lambda *one: dataclasses.replace(test(*one), witness=None))(keys, x, y)
