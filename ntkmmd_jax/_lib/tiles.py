"""Arrays cut into tiles of one size, the last one filled up: static shapes for `scan` and `map`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def tiled(values: jax.Array, size: int, *, fill: float | None = None) -> jax.Array:
    """Cut (n, ...) into tiles (k, size, ...); the last is filled up with copies of the first entry.

    Args:
        values: What to cut, along its first axis.
        size: Entries of a tile.
        fill: What to fill up with instead; 0 for weights.
    """
    missing = -len(values) % size
    # Points are filled up with a real one: a made-up one may be where a network is not smooth.
    filler = values[:1] if fill is None else jnp.full_like(values[:1], fill)
    filled = jnp.concatenate([values, jnp.repeat(filler, missing, axis=0)])
    return filled.reshape(-1, size, *values.shape[1:])


def even_size(n: int, most: int) -> int:
    """The size of tiles that share n entries evenly, each of at most `most`."""
    return -(-n // -(-n // most))


def tile_by_tile(
    function: Callable[[jax.Array], jax.Array], points: jax.Array, size: int
) -> jax.Array:
    """Apply a function from (n, ...) to (n, ...), row by row its own, to `size` rows at a time."""
    if len(points) <= size:
        return function(points)
    values = jax.lax.map(function, tiled(points, size))
    return values.reshape(-1, *values.shape[2:])[: len(points)]


def in_batches(function: Callable[[Any], Any], rows: Any, most: int) -> Any:
    """Apply a function to every row of a pytree, at most so many at once, in batches of one size.

    `lax.map` with a `batch_size` makes a second program of what is left over, which on a CPU runs
    beside the first: two batches of LAPACK calls can then wait for each other for ever (jaxlib
    0.10.2, two cores). Here the last batch is filled up with copies of the first row.
    """
    n = len(jax.tree.leaves(rows)[0])
    if n <= most:
        return jax.vmap(function)(rows)
    size = even_size(n, most)
    values = jax.lax.map(jax.vmap(function), jax.tree.map(lambda leaf: tiled(leaf, size), rows))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:n], values)
