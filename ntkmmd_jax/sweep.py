"""Power sweeps: the fraction of replicas that each test rejects, at every point of a grid.

Replica r of grid cell c has the key fold_in(fold_in(key, c), r), so the counts are the same
whatever the batch size, the number of devices or processes, and whether the sweep was interrupted.
All tests of a cell see the same data, and the same key. A cell's peak memory is that of one batch
of replicas on each device: it does not grow with `n_runs`.
"""

import dataclasses
import functools
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, PartitionSpec

from ntkmmd_jax.checkpoint import Checkpoint
from ntkmmd_jax.grid import Cell, Sampler, cells_of
from ntkmmd_jax.keys import as_key
from ntkmmd_jax.networks import Network
from ntkmmd_jax.power_table import PowerRow, PowerTable
from ntkmmd_jax.progress import replica_bar
from ntkmmd_jax.twosample import TwoSampleTest, make_test

_CACHE = 6e6  # bytes of replicas that a CPU core works on at once
_ROUND = 64  # batches per dispatch: the host hears back, and records, this often


def power_sweep(
    key: Any,
    tests: Mapping[str, TwoSampleTest | str] | Sequence[str],
    sampler: Sampler,
    grid: Mapping[str, Any],
    *,
    n: int | tuple[int, int] = 200,
    n_runs: int = 500,
    batch_size: int | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    checkpoint: Any = None,
    progress: bool = True,
) -> PowerTable:
    """Estimate the power of tests over a grid, on fresh data for every replica.

    Args:
        key: A JAX key or an int seed.
        tests: Names to tests (or method names); or a sequence of method names.
        sampler: `sampler(key, n_x, n_y, **point) -> (x, y)`, pure JAX. Pass one and the same object
            to every call: a new lambda or partial is a new program, compiled anew.
        grid: Parameter names to values; all combinations are run. A name goes to the sampler if
            it takes it; `n`, `n_x`, `n_y` are sizes; else it is an option of the tests that have
            it, or of their `mlp` (widths, activation, …). Floats are traced and never recompile.
        n: Sample size, or a pair for x and y.
        n_runs: Replicas per cell.
        batch_size: Replicas that a device runs at once; by default what fits its cache or memory.
        devices: How many local devices, or which; all by default.
        checkpoint: A path. Finished batches are recorded there, and an interrupted sweep resumes.
        progress: Whether to show a progress bar on a terminal.
    """
    key = as_key(key)
    tests = _as_tests(tests)
    cells = cells_of(tests, sampler, grid, n)
    if not (isinstance(n_runs, int) and n_runs >= 1):
        raise ValueError(f"n_runs must be a whole number of at least 1; got {n_runs!r}")
    if batch_size is not None and not (isinstance(batch_size, int) and batch_size >= 1):
        raise ValueError(f"batch_size must be a whole number of at least 1; got {batch_size!r}")
    mesh = Mesh(np.asarray(_devices(devices)), ("replicas",))
    _check_threads(mesh, tests)
    record = None
    if checkpoint is not None and jax.process_index() == 0:
        record = Checkpoint(checkpoint, _configuration(key, tests, sampler, cells, n_runs))
    done = _finished(record, len(cells), len(tests))
    rows = []
    with replica_bar(len(cells), n_runs, show=progress and jax.process_index() == 0) as bar:
        for c, cell in enumerate(cells):
            *counts, finished = done[c].tolist()
            seconds = _seconds(record, c)
            bar.start(cell.point, finished)
            size = batch_size or _batch_size(cell, sampler, mesh)
            rounds = _rounds(n_runs, size * mesh.size)
            while finished < n_runs:
                start = time.perf_counter()
                last = min(finished + rounds * size * mesh.size, n_runs)
                new = _count(cell, sampler, mesh, key, c, finished, last, rounds, size)
                spent = time.perf_counter() - start
                if record is not None:
                    entry = {"cell": c, "from": finished, "to": last, "rejections": new}
                    record.add({**entry, "seconds": spent})
                counts = [a + b for a, b in zip(counts, new, strict=True)]
                seconds += spent
                bar.advance(last - finished)
                finished = last
            names = zip(cell.tests, counts, strict=True)
            rows += [PowerRow(name, cell.point, n_runs, r, seconds) for name, r in names]
    return PowerTable(rows)


def _rounds(n_runs: int, at_once: int) -> int:
    """Batches per dispatch: few dispatches, all of one length, so that they share a program."""
    total = -(-n_runs // at_once)
    return -(-total // -(-total // _ROUND))


def _count(
    cell: Cell,
    sampler: Sampler,
    mesh: Mesh,
    key: jax.Array,
    c: int,
    first: int,
    last: int,
    rounds: int,
    size: int,
) -> list[int]:
    """Rejections of each test among replicas `first` to `last` of a cell."""
    counts = _rejections(
        list(cell.tests.values()),
        cell.traced,
        jax.random.fold_in(key, c),
        jnp.asarray(first),
        jnp.asarray(last),
        sampler=sampler,
        fixed=cell.fixed,
        sizes=cell.sizes,
        mesh=mesh,
        rounds=rounds,
        size=size,
    )
    # Summed by the host: a collective would make the device that is ready first hold a thread.
    total = sum(np.asarray(shard.data)[0] for shard in counts.addressable_shards)
    if jax.process_count() > 1:
        total = multihost_utils.process_allgather(total).sum(axis=0)
    return [int(count) for count in total]


@jax.jit(static_argnames=("sampler", "fixed", "sizes", "mesh", "rounds", "size"))
def _rejections(
    tests: list[TwoSampleTest],
    traced: dict[str, jax.Array],
    cell_key: jax.Array,
    first: jax.Array,
    last: jax.Array,
    *,
    sampler: Sampler,
    fixed: tuple[tuple[str, Any], ...],
    sizes: tuple[int, int],
    mesh: Mesh,
    rounds: int,
    size: int,
) -> jax.Array:
    """One program: replicas sharded over the devices, `size` at a time; counts (devices, tests)."""

    def replica(tests, traced, cell_key, r):
        k_data, k_test = jax.random.split(jax.random.fold_in(cell_key, r))
        x, y = sampler(k_data, *sizes, **traced, **dict(fixed))
        return jnp.stack([test(k_test, x, y).reject for test in tests])

    def on_device(tests, traced, cell_key, last, replicas):
        def batch(total, rs):
            rejected = jax.vmap(lambda r: replica(tests, traced, cell_key, r))(rs)
            return total + jnp.sum(rejected & (rs < last)[:, None], axis=0), None

        start = jnp.zeros(len(tests), jnp.int32)
        return jax.lax.scan(batch, start, replicas.reshape(rounds, size))[0][None]

    whole, split = PartitionSpec(), PartitionSpec("replicas")
    specs = (whole, whole, whole, whole, split)
    replicas = first + jnp.arange(rounds * size * mesh.size)
    sharded = jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)
    return sharded(tests, traced, cell_key, last, replicas)


def _as_tests(tests: Mapping | Sequence[str]) -> dict[str, TwoSampleTest]:
    if isinstance(tests, str):
        tests = [tests]
    named = tests if isinstance(tests, Mapping) else {name: name for name in tests}
    if not named:
        raise ValueError("no tests given: name at least one, as {'net': NetMMD()} or ['net']")
    made = {str(name): make_test(test) for name, test in named.items()}
    # Replicas share their pool of labellings: exact all the same (see `calibration`), and faster.
    return {
        name: dataclasses.replace(test, shared_pool=True) if hasattr(test, "shared_pool") else test
        for name, test in made.items()
    }


def _devices(devices: Any) -> list[jax.Device]:
    """The devices of all processes, or as many of the local ones as asked for."""
    available = jax.devices() if jax.process_count() > 1 else jax.local_devices()
    if devices is None:
        return available
    if isinstance(devices, int):
        if not 1 <= devices <= len(available):
            raise ValueError(f"devices = {devices}, but there are {len(available)}: {available}")
        return available[:devices]
    return list(devices)


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


def _batch_size(cell: Cell, sampler: Sampler, mesh: Mesh) -> int:
    """Replicas at once on a device: as many as its cache holds, or a share of its memory."""
    key = jax.eval_shape(jax.random.key, 0)
    draw = functools.partial(sampler, n_x=cell.sizes[0], n_y=cell.sizes[1])
    data = jax.eval_shape(lambda k: draw(k, **cell.traced, **dict(cell.fixed)), key)
    networks = {test.network for test in cell.tests.values() if hasattr(test, "network")}
    params = [jax.eval_shape(net.init, key, data[0]) for net in networks]
    per_replica = 4 * sum(
        leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves((data, params))
    )
    budget = _CACHE if mesh.devices.flat[0].platform == "cpu" else 1e9
    return int(np.clip(budget // per_replica, 1, 256))


def _configuration(
    key: jax.Array,
    tests: dict[str, TwoSampleTest],
    sampler: Sampler,
    cells: list[Cell],
    n_runs: int,
) -> dict[str, Any]:
    """What a sweep is: everything that its counts depend on, in plain values."""
    return {
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "sampler": _name(sampler),
        "n_runs": n_runs,
        "cells": [{"point": cell.point, "sizes": list(cell.sizes)} for cell in cells],
        "tests": {name: _described(test) for name, test in tests.items()},
    }


def _described(test: TwoSampleTest) -> dict[str, Any]:
    fields = {field.name: getattr(test, field.name) for field in dataclasses.fields(test)}
    return {"class": type(test).__name__, **{name: _plain(v) for name, v in fields.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Network):
        return value.recipe or [_name(value.init), _name(value.apply)]
    if isinstance(value, jax.Array | np.generic | np.ndarray):
        return np.asarray(value).tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return _name(value) if callable(value) else value


def _name(function: Any) -> str:
    if isinstance(function, functools.partial):
        return f"{_name(function.func)}{function.args}{sorted(function.keywords.items())}"
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"


def _finished(record: Checkpoint | None, n_cells: int, n_tests: int) -> np.ndarray:
    """Rejections of each test, then finished replicas, of every cell; known to every process."""
    done = np.zeros((n_cells, n_tests + 1), np.int32)
    for entry in record.records if record else []:
        cell = done[entry["cell"]]
        if entry["from"] != cell[-1]:
            raise ValueError(f"{record.path}: the batches of cell {entry['cell']} do not connect")
        cell[:-1] += entry["rejections"]
        cell[-1] = entry["to"]
    if jax.process_count() > 1:
        done = np.asarray(multihost_utils.broadcast_one_to_all(done))
    return done


def _seconds(record: Checkpoint | None, c: int) -> float:
    """Time already spent on a cell, as recorded."""
    entries = record.records if record else []
    return sum(entry["seconds"] for entry in entries if entry["cell"] == c)
