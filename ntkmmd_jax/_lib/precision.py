"""Float32 proper on every backend: the one place where the precision of products is set.

A product of float32 matrices is by default done with operands rounded to 11 bits (TF32) on GPUs
and to 8 (bfloat16) on TPUs:

    fl(a) fl(b) = a b (1 + δ),   |δ| ≤ 2 u,   u = 2⁻²⁴ (float32), 2⁻¹¹ (TF32), 2⁻⁸ (bfloat16).

What is exact here (T_net → T_NTK as t → 0, ties of a null counted as ties) rests on the first, so
every program of the library is made by `jit` below, which traces it with products pinned, and what
runs without one is `pinned`. Products keep what they were traced with, also in gradients, loops,
under `vmap`, and within a program of the user, whose own products keep the user's default.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax

_NAMES = ("float32", "tensorfloat32", "bfloat16")
_CHOSEN = jax.make_user_context("float32")  # part of the key under which JAX caches programs
F = TypeVar("F", bound=Callable[..., Any])


def precision(name: str) -> AbstractContextManager[None]:
    """Trade exactness for speed on accelerators: the precision of products within a `with`.

    >>> import ntkmmd_jax as ntk
    >>> with ntk.precision("tensorfloat32"):
    ...     r = ntk.two_sample_test([0.1, 0.2, 0.3, 0.4], [2.1, 2.2, 2.3, 2.4], key=0)

    All labellings are rounded alike, so levels and verdicts hardly change; statistics are as exact
    as their products (`docs/precision.md` has a table). CPUs compute in float32 whatever is asked.

    Args:
        name: "float32", as without a `with`; "tensorfloat32", which TPUs do in three passes of
            bfloat16; or "bfloat16", for which GPUs have TF32.
    """
    if name not in _NAMES:
        raise ValueError(f"precision is one of {', '.join(_NAMES)}, got {name!r}")
    return _CHOSEN(name)


def chosen() -> str:
    """The precision that products have here and now."""
    return _CHOSEN.value


def pinned(function: F) -> F:
    """A function whose products have the precision that was chosen, whatever JAX's default is."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with jax.default_matmul_precision(chosen()):
            return function(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`jax.jit` of a `pinned` function; with options only, a decorator."""
    if function is None:
        return functools.partial(jit, **options)
    return jax.jit(pinned(function), **options)
