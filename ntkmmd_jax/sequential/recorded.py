"""Recorded samples as a stream: blocks in random order, and the wealth after each of them.

Of n_X and n_Y points there are min(n_X, n_Y) blocks: one point of the smaller sample each, and the
points of the larger spread over them as evenly as they go.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.measure import random_orders
from ntkmmd_jax.sequential.bettor import Bettor, mixed, take_block
from ntkmmd_jax.sequential.payoff import Block, placed


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


def blocks(key: jax.Array, x: jax.Array, y: jax.Array) -> Block:
    """All blocks of two samples, stacked: points (m, 1 + c, ...)."""
    few, many, sign = (x, y, 1.0) if len(x) <= len(y) else (y, x, -1.0)
    m, n = len(few), len(many)
    k_order, k_place = jax.random.split(key)
    order_few, order_many = random_orders(k_order, m, n)
    size, longer = divmod(n, m)  # the first `longer` blocks have one point more
    sizes = size + (np.arange(m) < longer)
    starts = np.cumsum(sizes) - sizes
    places = np.minimum(starts[:, None] + np.arange(max(sizes)), n - 1)  # beyond `size`: padding
    points = jnp.concatenate([few[order_few][:, None], many[order_many[places]]], axis=1)
    place = jax.random.randint(k_place, (m,), 0, jnp.asarray(sizes + 1, jnp.int32))
    signs = jnp.full(m, sign, points.dtype)
    return Block(jax.vmap(placed)(points, place), place, signs, jnp.asarray(sizes, jnp.int32))


def run(bettor: Bettor, blocks: Block) -> tuple[Bettor, jax.Array]:
    """Bet on all blocks in order: the bettor, and log W of every witness after each, (m, k)."""

    def one(carry: tuple, block: Block) -> tuple[tuple, jax.Array]:
        bettor, wealth = carry
        bettor, log_e = take_block(bettor, block)
        return (bettor, wealth + log_e), wealth + log_e

    zero = jnp.zeros(len(bettor.names), blocks.points.dtype)
    (bettor, _), path = jax.lax.scan(one, (bettor, zero), blocks)
    return bettor, path
