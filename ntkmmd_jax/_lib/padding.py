"""Padding: arrays (N, ...) of which the first n rows are real, and the others count for nothing.

N is one of few sizes (`bucket`) and n is data, so that samples of many sizes share one compiled
program. Where n is a Python int and all rows are real, nothing is masked: the program is that of
the array as it is.

Random bits of a key are the same for every length, as far as they go (JAX's partitionable
generator), so an order of n rows is the same with any padding behind them.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_SMALLEST, _DOUBLING, _STEPS = 64, 1024, 4  # of the buckets; beyond _DOUBLING, steps an octave


def bucket(n: int) -> int:
    """The size to which n rows are padded: 64, 128, …, 1024, then four sizes an octave."""
    size = max(_SMALLEST, 1 << (n - 1).bit_length())
    if size <= _DOUBLING:
        return size
    step = size // (2 * _STEPS)
    return -(-n // step) * step


def least(size: int) -> int:
    """The least n whose bucket has this size."""
    if size <= _DOUBLING:
        return size // 2 + 1 if size > _SMALLEST else 1
    return size - (1 << (size - 1).bit_length()) // (2 * _STEPS) + 1


def rows_in_bucket(values: Any) -> tuple[jax.Array, jax.Array, int]:
    """Rows on the host, padded to the size of their bucket with copies of the last one.

    Returns:
        The rows, how many of them are real, and how many of any that share this shape are: a
        number that is known. Few rows have their own shape.
    """
    values = np.asarray(values)
    n, size = len(values), bucket(len(values))
    few = size <= _SMALLEST
    filler = np.repeat(values[-1:], 0 if few else size - n, axis=0)
    rows = jnp.asarray(np.concatenate([values, filler]))
    return rows, jnp.asarray(n, int), n if few else least(size)


def is_full(length: int, n: Any) -> bool:
    """Whether it is known that all rows are real."""
    return isinstance(n, int) and n == length


def number(n: Any) -> Any:
    """n to reckon with: as it is, or a traced one in the default float type."""
    return n if isinstance(n, int) else n.astype(jnp.result_type(float))


def at_most(n: Any, most: Any) -> Any:
    """The smaller of both, as data where either is."""
    known = isinstance(n, int) and isinstance(most, int)
    return min(n, most) if known else jnp.minimum(n, most)


def is_real(length: int, n: Any) -> jax.Array:
    """Which rows are real, shape (N,)."""
    return jnp.arange(length) < n


def cleared(values: jax.Array, n: Any, axis: int = 0) -> jax.Array:
    """The values, 0 in the padding along an axis."""
    length = values.shape[axis]
    if is_full(length, n):
        return values
    mask = jnp.expand_dims(is_real(length, n), [i for i in range(values.ndim) if i != axis])
    return jnp.where(mask, values, jnp.zeros((), values.dtype))


def mean(values: jax.Array, n: Any, axis: int = 0) -> jax.Array:
    """The mean of the real rows along an axis."""
    if is_full(values.shape[axis], n):
        return values.mean(axis)
    return cleared(values, n, axis).sum(axis) / jnp.asarray(n, values.dtype)


def variance(values: jax.Array, n: Any) -> jax.Array:
    """The variance of the real rows."""
    return mean((values - mean(values, n)) ** 2, n)


def evenly(n: Any, size: int) -> Any:
    """So many places of n, evenly spaced: ⌊i n / size⌋, without products beyond an int's range."""
    i = np.arange(size)
    i = i if isinstance(n, int) else jnp.asarray(i, n.dtype)
    return i * (n // size) + i * (n % size) // size


def filled(values: jax.Array, n: Any) -> jax.Array:
    """The values, with copies of the last real row for padding: nothing is there that is not real.

    Of rows in random order, that row knows no labels.
    """
    if is_full(len(values), n):
        return values
    return values[jnp.minimum(jnp.arange(len(values)), n - 1)]


def random_order(bits: jax.Array, n: Any) -> jax.Array:
    """The order of random bits (N,) of real rows; the padding repeats the last of them."""
    if is_full(len(bits), n):
        return jnp.argsort(bits)
    last = jnp.asarray(jnp.iinfo(bits.dtype).max, bits.dtype)
    return filled(jnp.argsort(jnp.where(is_real(len(bits), n), bits, last)), n)


def grouped_order(bits: jax.Array, n_x: Any, n_y: Any) -> jax.Array:
    """The order of random bits of the first n_X rows, then of the next n_Y, then of the padding."""
    rows = jnp.arange(len(bits))
    if is_full(len(bits), n_x + n_y):
        return jnp.concatenate([jnp.argsort(bits[:n_x]), n_x + jnp.argsort(bits[n_x:])])
    group = (rows >= n_x).astype(bits.dtype) + (rows >= n_x + n_y).astype(bits.dtype)
    return jax.lax.sort((group, bits, rows), num_keys=2, is_stable=True)[2]
