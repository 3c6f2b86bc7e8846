"""Recorded samples as a stream: blocks in random order, and the wealth after each of them.

Of n_X and n_Y points there are min(n_X, n_Y) blocks: one point of the smaller sample each, and the
points of the larger spread over them as evenly as they go.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.sequential.bettor import Bettor, mixed, take_block
from ntkmmd_jax.sequential.payoff import Block, placed

RATIO = 2  # of sizes up to which samples are in a bucket: so many points of the larger to a block


@record
class Wealth:
    """The log-wealth of every witness after every block."""

    logs: jax.Array | np.ndarray  # (n, k) log W
    level: jax.Array | float  # () α
    names: tuple[str, ...] = static()  # of the k witnesses

    @property
    def mean(self) -> jax.Array:
        """log of the mean wealth after every block, (n,): that of the test."""
        return mixed(jnp.asarray(self.logs))

    @property
    def peak(self) -> jax.Array:
        """() the largest of them, at least 0, which it was before the first block."""
        return jnp.maximum(jnp.max(self.mean, initial=0.0), 0)

    @property
    def stop(self) -> jax.Array:
        """() the block after which W first reached 1/α, from 1; 0 if it never did."""
        reached = jnp.append(self.mean >= -jnp.log(self.level), True)
        first = 1 + jnp.argmax(reached)
        return jnp.where(first < len(reached), first, 0).astype(jnp.int32)

    def plot(self, ax: Any = None) -> Any:
        """Draw the wealth over blocks on a log axis, a line per witness; returns the axes."""
        from ntkmmd_jax import plotting

        return plotting.wealth(self, ax=ax)


def blocks(key: jax.Array, samples: Pooled) -> Block:
    """All blocks of two samples, stacked: points (m, 1 + c, ...); more, in a bucket."""
    n_x, n_y, places = samples.n_x, samples.n_y, len(samples.points)
    m = padding.at_most(n_x, n_y)
    n = samples.n - m
    if known := padding.is_full(places, samples.n):
        room, others = m, -(-n // m)
    else:
        room, others = places // 2, RATIO
    at, x_few = jnp.arange(places), jnp.asarray(n_x <= n_y)
    first = jnp.where(x_few, at, jnp.where(at < m, n_x + at, at - m))  # the smaller sample first
    k_order, k_place = jax.random.split(key)
    order = first[padding.grouped_order(jax.random.bits(k_order, (places,)), m, n)]
    size, longer = n // m, n % m  # the first `longer` blocks have one point more
    block = jnp.arange(room)
    sizes = jnp.where(block < longer, size + 1, size).astype(jnp.int32)
    starts = block * size + jnp.minimum(block, longer)
    many = m + jnp.minimum(starts[:, None] + jnp.arange(others), n - 1)  # beyond `size`: padding
    rows = jnp.concatenate([block[:, None], many], axis=1)
    points = samples.points[order[rows if known else jnp.minimum(rows, samples.n - 1)]]
    place = jax.random.randint(k_place, (room,), 0, sizes + 1)
    signs = jnp.full(room, jnp.where(x_few, 1, -1), points.dtype)
    return Block(jax.vmap(placed)(points, place), place, signs, sizes)


def run(bettor: Bettor, blocks: Block, m: Any) -> tuple[Bettor, jax.Array]:
    """Bet on the first m blocks in order: the bettor, and log W of every witness after each.

    Shape (blocks, k); beyond m, the wealth stays what it was.
    """

    def one(carry: tuple, block: Block) -> tuple[tuple, jax.Array]:
        bettor, wealth = carry
        bettor, log_e = take_block(bettor, block)
        return (bettor, wealth + log_e), wealth + log_e

    start = (bettor, jnp.zeros(len(bettor.names), blocks.points.dtype))
    if padding.is_full(len(blocks.place), m):
        (bettor, _), path = jax.lax.scan(one, start, blocks)
        return bettor, path

    def next_one(i: jax.Array, state: tuple) -> tuple:
        carry, path = state
        carry, after = one(carry, jax.tree.map(lambda leaf: leaf[i], blocks))
        return carry, path.at[i].set(after)

    path = jnp.zeros((len(blocks.place), len(bettor.names)), blocks.points.dtype)
    (bettor, last), path = jax.lax.fori_loop(0, m, next_one, (start, path))
    return bettor, jnp.where(padding.is_real(len(path), m)[:, None], path, last)
