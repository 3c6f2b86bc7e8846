"""Power sweeps: the fraction of replicas that each test rejects, at every point of a grid.

Replica r of grid cell c has the key fold_in(fold_in(key, c), r), so the counts are the same
whatever the batch size, the number of devices or processes, and whether the sweep was interrupted.
All tests of a cell see the same data, and the same key. A cell's peak memory is that of one batch
of replicas on each device: it does not grow with `n_runs`.
"""

import dataclasses
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.progress import replica_bar
from ntkmmd_jax._lib.telling import warn
from ntkmmd_jax._lib.tiles import even_size
from ntkmmd_jax.power.checkpoint import Checkpoint
from ntkmmd_jax.power.fingerprint import configuration
from ntkmmd_jax.power.grid import Cell, cells_of
from ntkmmd_jax.power.replicas import count, stops_listed
from ntkmmd_jax.power.sampler import Sampler, check_draws, one_of_equals
from ntkmmd_jax.power.table import PowerRow, PowerTable
from ntkmmd_jax.twosample import TwoSampleTest, make_test

_CACHE = 6e6  # bytes of replicas that a CPU core works on at once
_MEMORY, _MOST = 4e9, 1024  # of an accelerator; by benchmarks/roofline.py it waits no longer then
_ROUND = 64  # batches per dispatch: the host hears back, and writes it down, this often


def power_sweep(
    key: Any,
    tests: Mapping[str, TwoSampleTest | str] | Sequence[str],
    sampler: Sampler,
    grid: Mapping[str, Any],
    *,
    n: int | tuple[int, int] = 200,
    n_runs: int = 500,
    batch_size: int | None = None,
    devices: int | Sequence[Any] | None = None,
    checkpoint: Any = None,
    progress: bool = True,
) -> PowerTable:
    """Estimate the power of tests over a grid, on fresh data for every replica.

    Args:
        key: A JAX key or an int seed.
        tests: Names to tests (or method names); or a sequence of method names.
        sampler: `sampler(key, n_x, n_y, **point) -> (x, y)`, pure JAX. Pass one and the same
            function to every call, or partials of it with equal arguments: a new lambda is a new
            program, compiled anew.
        grid: Parameter names to values; all combinations are run. `n`, `n_x`, `n_y` are sizes; else
            a name goes to the sampler if it takes it; else it is an option of the tests that have
            it, or of their `mlp` (widths, activation, …). Floats are traced and never recompile.
        n: Sample size, or a pair for x and y.
        n_runs: Replicas per cell.
        batch_size: Replicas that a device runs at once; by default what fits its cache or memory.
        devices: How many local devices, or which; all by default.
        checkpoint: A path. Finished batches are recorded there, and an interrupted sweep resumes.
            What sampler and tests compute is part of it: that of another sweep is refused.
        progress: Whether to show a progress bar on a terminal.

    Returns:
        A `PowerTable`. A replica whose p-value is NaN (a training that diverged, say) has no
        verdict: it is no rejection, is counted as a failure of its row, and there is a warning.

    Example:
        >>> from functools import partial
        >>> from ntkmmd_jax.datasets import mean_shift
        >>> grid = {"delta": [0.0, 3.0]}
        >>> table = power_sweep(0, ["hotelling"], partial(mean_shift, dim=2), grid, n=20, n_runs=40)
        >>> [row.power > 0.5 for row in table.rows]
        [False, True]
    """
    key = as_key(key)
    tests = _as_tests(tests)
    sampler = one_of_equals(sampler)
    cells = cells_of(tests, sampler, grid, n)
    _check_whole("n_runs", n_runs)
    if batch_size is not None:
        _check_whole("batch_size", batch_size)
    for cell in cells:
        for test in cell.tests.values():
            test.check_sizes(*cell.sizes)
    mesh = Mesh(np.asarray(_devices(devices)), ("replicas",))
    _check_threads(mesh, tests)
    samples = [check_draws(key, sampler, c.sizes, c.fixed, c.traced) for c in cells]
    log = None
    if checkpoint is not None and jax.process_index() == 0:
        described = configuration(key, tests, sampler, cells, samples, n_runs)
        log = Checkpoint(checkpoint, described)
    all_finished, all_counts, all_seconds = _recorded(log, len(cells), len(tests), n_runs)
    all_stops = [_recorded_stops(log, c, cell) for c, cell in enumerate(cells)]
    rows = []
    with replica_bar(len(cells), n_runs, show=progress and jax.process_index() == 0) as bar:
        for c, cell in enumerate(cells):
            finished, seconds = int(all_finished[c]), float(all_seconds[c])
            counts, stops = np.asarray(all_counts[c]), all_stops[c]
            bar.start(cell.point, finished)
            size = batch_size or even_size(
                -(-n_runs // mesh.size), _batch_size(cell, samples[c], mesh)
            )
            rounds = _rounds(n_runs, size * mesh.size)
            while finished < n_runs:
                start = time.perf_counter()
                last = min(finished + rounds * size * mesh.size, n_runs)
                new, at = count(cell, sampler, mesh, key, c, finished, last, rounds, size)
                spent = time.perf_counter() - start
                if log is not None:
                    entry = {"cell": c, "from": finished, "to": last, "seconds": spent}
                    entry |= dict(zip(("rejections", "failures"), new.tolist(), strict=True))
                    log.add(entry | ({"stops": at} if at else {}))
                counts = counts + new
                stops = {name: sorted(stops[name] + at[name]) for name in at}
                seconds += spent
                bar.advance(last - finished)
                finished = last
            rows += [
                PowerRow(name, cell.point, n_runs, rejections, seconds, failures, stops.get(name))
                for name, rejections, failures in zip(cell.tests, *counts.tolist(), strict=True)
            ]
    if jax.process_index() == 0:
        _warn_of_failures(rows)
    return PowerTable(rows)


def _rounds(n_runs: int, at_once: int) -> int:
    """Batches per dispatch: few dispatches, all of one length, so that they share a program."""
    return even_size(-(-n_runs // at_once), _ROUND)


def _as_tests(tests: Mapping | Sequence[str]) -> dict[str, TwoSampleTest]:
    if isinstance(tests, str):
        tests = [tests]
    if not isinstance(tests, Iterable):
        raise TypeError(f"tests must map names to tests, or be a list of methods; got {tests!r}")
    named = tests if isinstance(tests, Mapping) else {name: name for name in tests}
    if not named:
        raise ValueError("no tests given: name at least one, as {'net': NetMMD()} or ['net']")
    made = {str(name): make_test(test) for name, test in named.items()}
    # Replicas share their pool of labellings: exact all the same (see `calibration`), and faster.
    return {
        name: dataclasses.replace(test, shared_pool=True) if hasattr(test, "shared_pool") else test
        for name, test in made.items()
    }


def _devices(devices: Any) -> list[Any]:
    """The devices of all processes, or as many of the local ones as asked for."""
    available = jax.devices() if jax.process_count() > 1 else jax.local_devices()
    if devices is None:
        return available
    if isinstance(devices, int) and not isinstance(devices, bool):
        if not 1 <= devices <= len(available):
            raise ValueError(f"devices = {devices}, but there are {len(available)}: {available}")
        return available[:devices]
    chosen = list(devices) if isinstance(devices, Sequence | np.ndarray) else []
    if not chosen or not all(isinstance(device, jax.Device) for device in chosen):
        raise ValueError(f"devices must be how many, or a list of JAX's; got {devices!r}")
    return chosen


def _check_whole(name: str, value: Any) -> None:
    """Refuse what is no number of replicas; they are counted in 32 bits."""
    if not (isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**30):
        raise ValueError(f"{name} must be a whole number of at least 1, below 2^30; got {value!r}")


def _check_threads(mesh: Mesh, tests: dict[str, TwoSampleTest]) -> None:
    """Refuse what would hang: on a CPU, LAPACK calls of several devices wait for pool threads.

    XLA's pool has a thread per core, or as many as the environment variable NPROC says when the
    backend starts; each device keeps one while it waits for another to do its LAPACK work.
    """
    threads = int(os.environ.get("NPROC") or os.cpu_count() or 1)
    lapack = [name for name, test in tests.items() if test.uses_lapack]
    local = len(mesh.local_devices)
    if mesh.local_devices[0].platform == "cpu" and lapack and local > 1 and threads < 2 * local:
        raise ValueError(
            f"{lapack} call LAPACK, which can hang on {local} CPU devices with {threads} threads: "
            f"set the environment variable NPROC={4 * local} before Python starts (or call "
            "use_cores(lapack=True) before the first use of JAX), or take devices=1"
        )


def _batch_size(cell: Cell, samples: tuple, mesh: Mesh) -> int:
    """Replicas at once on a device: as many as its cache holds, or a share of its memory."""
    key = jax.eval_shape(jax.random.key, 0)
    tests = list(cell.tests.values())
    networks = {network for test in tests for network in test.networks}
    params = [jax.eval_shape(f.init, key, samples[0]) for f in networks]
    floats = sum(leaf.size for leaf in jax.tree.leaves((samples, params)))
    held = max(test.scratch(sum(cell.sizes)) for test in tests)
    per_replica = 4 * (4 * floats + held)
    budget = _CACHE if mesh.devices.flat[0].platform == "cpu" else _MEMORY
    return int(np.clip(budget // per_replica, 1, _MOST))


def _recorded(
    log: Checkpoint | None, n_cells: int, n_tests: int, n_runs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finished replicas, counts and seconds of every cell; known to every process."""
    totals = (
        np.zeros(n_cells, np.int32),
        np.zeros((n_cells, 2, n_tests), np.int32),
        np.zeros(n_cells),
    )
    if log is not None:
        totals = log.totals(n_cells, n_tests, n_runs)
    if jax.process_count() > 1:
        totals = jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(totals))
    return totals


def _recorded_stops(log: Checkpoint | None, c: int, cell: Cell) -> dict[str, list[int]]:
    """The blocks at which recorded replicas of a cell stopped; known to every process."""
    stops = {name: [] for name, test in cell.tests.items() if test.stops}
    for name in stops:
        counts = np.zeros(1 + min(cell.sizes), np.int32)
        if log is not None:
            counts = log.stops(c, name, len(counts))
        if jax.process_count() > 1:
            counts = np.asarray(multihost_utils.broadcast_one_to_all(counts))
        stops[name] = stops_listed(counts)
    return stops


def _warn_of_failures(rows: list[PowerRow]) -> None:
    """Say once how many replicas of which tests had no verdict."""
    failures: dict[str, int] = {}
    for row in rows:
        failures[row.test] = failures.get(row.test, 0) + row.failures
    if failed := ", ".join(f"{count} of {name!r}" for name, count in failures.items() if count):
        n_runs = sum(row.n_runs for row in rows if row.test == rows[0].test)
        warn(
            f"replicas without a verdict (their p-value is NaN) among {n_runs} of each test: "
            f"{failed}. They count as not rejected; `failures` of a row says where",
            RuntimeWarning,
        )
