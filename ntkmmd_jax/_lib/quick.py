"""Programs that are compiled in a quarter of the time, and then run some times slower.

XLA compiles a test for seconds that then runs for milliseconds, and most samples are tested once.
Without LLVM's optimisations the first answer comes after a second; products of matrices stay as
fast, since they are calls of a library, and all else is some times slower, by milliseconds where
points are few. Numbers are those of other programs but for rounding.
"""

import functools
from typing import Any

import jax
from jax.core import Tracer

from ntkmmd_jax._lib.precision import jit

_OPTIONS = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


def quickly(function: Any) -> Any:
    """`jit` of a function, for CPUs and calls that are not traced."""
    return jit(function, compiler_options=_OPTIONS)


def soon(function: Any, **options: Any) -> Any:
    """`jit` of a function that runs once or twice in a process: compiled quickly on CPUs."""
    quick, thorough = jit(function, compiler_options=_OPTIONS, **options), jit(function, **options)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs)))
        return (quick if is_for_here() and not traced else thorough)(*args, **kwargs)

    return call


def is_for_here() -> bool:
    """Whether programs run on a CPU: other compilers know nothing of these options."""
    return jax.default_backend() == "cpu"
