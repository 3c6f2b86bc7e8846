"""Replicas of one cell of a sweep: one program, sharded over devices, counted by the host."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, PartitionSpec

from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax.power.grid import Cell
from ntkmmd_jax.power.sampler import Fixed, Sampler, draw
from ntkmmd_jax.twosample import TwoSampleResult, TwoSampleTest
from ntkmmd_jax.twosample.together import together


def count(
    cell: Cell,
    sampler: Sampler,
    mesh: Mesh,
    key: jax.Array,
    c: int,
    first: int,
    last: int,
    rounds: int,
    size: int,
) -> tuple[np.ndarray, dict[str, list[int]]]:
    """What came of replicas `first` to `last` of a cell.

    Returns:
        Rejections and failures (2, tests); and, of tests that stop, the blocks at which replicas
        stopped, in order.
    """
    counts, stops = rejections(
        list(cell.tests.values()),
        cell.traced,
        jax.random.fold_in(key, c),
        jnp.asarray(first, jnp.int32),
        jnp.asarray(last, jnp.int32),
        sampler=sampler,
        fixed=cell.fixed,
        sizes=cell.sizes,
        mesh=mesh,
        rounds=rounds,
        size=size,
    )
    names = [name for name, test in cell.tests.items() if test.stops]
    at = dict(zip(names, map(_summed, stops), strict=True))
    return _summed(counts), {name: stops_listed(many) for name, many in at.items()}


def _summed(counts: jax.Array) -> np.ndarray:
    """Sum over devices by the host: a collective would make the one that is ready hold a thread."""
    parts = [np.asarray(shard.data)[0] for shard in counts.addressable_shards]
    total = np.stack(parts).sum(axis=0, dtype=np.int32)
    if jax.process_count() > 1:
        total = multihost_utils.process_allgather(total).sum(axis=0)
    return total


def stops_listed(counts: np.ndarray) -> list[int]:
    """The blocks at which replicas stopped, in order, from counts (1 + blocks,) of them."""
    return np.repeat(np.arange(1, len(counts)), counts[1:]).tolist()


@jit(static_argnames=("sampler", "fixed", "sizes", "mesh", "rounds", "size"))
def rejections(
    tests: list[TwoSampleTest],
    traced: dict[str, jax.Array],
    cell_key: jax.Array,
    first: jax.Array,
    last: jax.Array,
    *,
    sampler: Sampler,
    fixed: Fixed,
    sizes: tuple[int, int],
    mesh: Mesh,
    rounds: int,
    size: int,
) -> tuple[jax.Array, list[jax.Array]]:
    """One program: replicas sharded over the devices, `size` at a time.

    Returns:
        Counts of p ≤ level, and of p-values that are NaN, shape (devices, 2, tests); and, of every
        test that stops, how many replicas did so at each block, shape (devices, 1 + blocks).
    """

    def replica(tests, traced, cell_key, r):
        k_data, k_test = jax.random.split(jax.random.fold_in(cell_key, r))
        x, y = draw(sampler, sizes, fixed, k_data, traced)
        results = together(tests, k_test, x, y)
        rejected = jnp.stack([result.reject for result in results])
        failed = jnp.stack([jnp.isnan(result.pvalue) for result in results])
        stopped = [_stopped(result) for result in results if result.wealth is not None]
        return jnp.stack([rejected, failed]), stopped

    def on_device(tests, traced, cell_key, last, replicas):
        def batch(total, rs):
            one = lambda r: replica(tests, traced, cell_key, r)  # noqa: E731
            if size == 1:  # products without an axis of length one take two thirds of the time
                found = jax.tree.map(lambda leaf: leaf[None], one(rs[0]))
            else:
                found = jax.vmap(one)(rs)
            asked_for = rs < last

            def add(count, one):
                real = asked_for.reshape(-1, *(1,) * count.ndim)
                return count + jnp.sum(one & real, axis=0, dtype=jnp.int32)

            return jax.tree.map(add, total, found), None

        one = jax.eval_shape(replica, tests, traced, cell_key, replicas[0])
        start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.int32), one)
        total = jax.lax.scan(batch, start, replicas.reshape(rounds, size))[0]
        return jax.tree.map(lambda count: count[None], total)

    whole, split = PartitionSpec(), PartitionSpec("replicas")
    specs = (whole, whole, whole, whole, split)
    replicas = first + jnp.arange(rounds * size * mesh.size, dtype=jnp.int32)
    sharded = jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)
    return sharded(tests, traced, cell_key, last, replicas)


def _stopped(result: TwoSampleResult) -> jax.Array:
    """At which block a replica stopped, as (1 + blocks,) bool; the first is for never."""
    assert result.wealth is not None
    blocks = result.wealth.logs.shape[0]
    return jnp.arange(1 + blocks) == result.wealth.stop
