"""Sums over bins that double: between S/2 and S bins of one size, however long a stream is.

A stream arrives as chunks, each summed to a row (p,). Equal neighbours are merged in pairs, like
digits of a binary counter, up to bins of 2^k chunks, with the smallest k that gives at most S:

    count = 11 chunks, S = 4:   [4 4 | 2 1]    two full bins, and two sums that fill none.

What stands where depends on the count alone, and every bin is the same tree of sums over its
chunks, whenever it was merged. So bins of one size are one function of their points, to the last
bit, in a long stream and in a short one: rounding cannot tell the two apart.
"""

from collections.abc import Iterable

import numpy as np


def level(count: int, most: int) -> int:
    """The smallest k for which `count` chunks are at most so many full bins of 2^k."""
    k = 0
    while count >> k > most:
        k += 1
    return k


def sizes(count: int, k: int) -> list[int]:
    """The chunks in each sum: full bins of 2^k, then the binary digits of what fills none."""
    digits = [1 << j for j in reversed(range(k)) if count >> j & 1]
    return [1 << k] * (count >> k) + digits


def length(count: int, most: int) -> int:
    """How many sums that makes."""
    k = level(count, most)
    return (count >> k) + (count & (1 << k) - 1).bit_count()


def merged(nodes: Iterable[tuple[int, np.ndarray]], k: int) -> list[tuple[int, np.ndarray]]:
    """Merge neighbours of one size, from the left, up to bins of 2^k chunks.

    Args:
        nodes: Pairs (chunks, sum) in the order of the stream.
        k: The level.
    """
    stack: list[tuple[int, np.ndarray]] = []
    for size, row in nodes:
        while stack and stack[-1][0] == size < 1 << k:
            row = stack.pop()[1] + row
            size *= 2
        stack.append((size, row))
    return stack


def pushed(
    rows: tuple[np.ndarray, ...], count: int, chunks: Iterable[np.ndarray], most: int
) -> tuple[tuple[np.ndarray, ...], int]:
    """The sums over `count` chunks and some more, and how many chunks that makes."""
    nodes = list(zip(sizes(count, level(count, most)), rows, strict=True))
    nodes += [(1, chunk) for chunk in chunks]
    count += len(nodes) - len(rows)
    return tuple(row for _, row in merged(nodes, level(count, most))), count
