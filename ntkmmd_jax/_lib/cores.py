"""A CPU core as a JAX device: one-thread programs side by side beat one program on all threads."""

import os

import jax


def use_cores(count: int | None = None, *, lapack: bool = False) -> int:
    """Make every CPU core a device of its own, for `power_sweep`; before the first use of JAX.

    Each device gets one thread. GPUs and TPUs are left as they are.

    Args:
        count: How many; by default all that this process may use.
        lapack: Whether tests will call LAPACK (those with `uses_lapack`): on several devices it
            needs more threads than devices (see `sweep`), which cost the others up to half of
            their speed.
    """
    if count is None:
        mine = getattr(os, "sched_getaffinity", None)  # not on macOS
        count = len(mine(0)) if mine else os.cpu_count() or 1
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError as error:
        raise RuntimeError(f"use_cores comes before the first use of JAX: {error}") from error
    if lapack:
        os.environ.setdefault("NPROC", str(4 * count))
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return count
