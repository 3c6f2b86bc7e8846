"""What the benchmarks measure with: seconds, and memory."""

import resource
import time
from collections.abc import Callable
from typing import Any

import jax


def best(run: Callable[[int], Any], times: int = 3) -> tuple[float, float]:
    """Seconds of the shortest of several runs, and of one before them, which compiles.

    Args:
        run: Called with 0, 1, ...; what it returns is waited for.
        times: Runs after the first.
    """
    first, *warm = seconds(run, times)
    return min(warm), first


def seconds(run: Callable[[int], Any], times: int) -> list[float]:
    """Seconds of every run, the first of which compiles; so many come after it."""
    spent = []
    for i in range(times + 1):
        start = time.perf_counter()
        jax.block_until_ready(run(i))
        spent.append(time.perf_counter() - start)
    return spent


def peak_mb() -> float:
    """The most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
