"""Tests that are run by executables of their own, kept on disk while `cache` is on.

    program(test, key, samples) = executable(leaves),

found by the structure of the arguments, with all that is static in a test, and by the types of
their leaves. Structures are pickled, networks by their recipes: what a file can name is kept, and
what is the user's own is compiled as ever.
"""

import contextlib
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from jax.core import Tracer

from ntkmmd_jax._lib import executables
from ntkmmd_jax._lib.cache import in_use
from ntkmmd_jax._lib.surroundings import digest
from ntkmmd_jax.networks import Network, rebuild

_OURS = ("ntkmmd_jax", "jax", "jaxlib", "numpy", "builtins")
_ready: dict[str, Callable[..., Any]] = {}  # functions of leaves, by digest


class _Own(Exception):
    """A part that is the user's own."""


def run(kind: str, program: Any, *arguments: Any) -> Any:
    """Call a jitted program: by its executable, where executables are kept.

    Args:
        kind: Its name, and that of its options.
        program: What `jit` gives, without static arguments.
        *arguments: Records, keys and arrays, none of them traced.
    """
    folder = in_use()
    if folder is None:
        return program(*arguments)
    leaves, structure = jax.tree.flatten(arguments)
    name = _name(kind, leaves, structure)
    if name is None:
        return program(*arguments)
    if name not in _ready:
        path = folder / f"{kind}-{name}-cache"
        if (found := executables.load(path, _unpickled)) is not None:
            with contextlib.suppress(jax.errors.JaxRuntimeError):  # loaded, but not whole
                result = jax.block_until_ready(found(*leaves))
                _ready[name] = found
                return result
        _ready[name] = _compiled(program, arguments, path)
    return _ready[name](*leaves)


def forget_beyond(limit: int, *programs: Any) -> None:
    """Drop compiled tests when they are many, as after many different sample sizes.

    A program holds up to 700 memory maps: with none left of Linux's 65,530, compiling would crash.

    Args:
        limit: How many are too many.
        *programs: What `jit` gives, each with as many of its own.
    """
    for program in programs:
        if program._cache_size() >= limit:  # jit's own
            program.clear_cache()
    if len(_ready) >= limit:
        _ready.clear()


def _compiled(program: Any, arguments: tuple, path: Path) -> Callable[..., Any]:
    """The same function of leaves, compiled, and saved if it can be described."""
    given = jax.tree.structure(arguments)
    with executables.unswept():
        lowered = program.lower(*arguments)
    result = _pickled(lowered.out_tree)
    if result is None or not executables.is_closed(lowered):
        return lambda *leaves: program(*given.unflatten(leaves))
    with executables.afresh() as done:
        compiled = lowered.compile()
    if done:
        executables.save(path, compiled, result)
    return lambda *leaves: compiled(*given.unflatten(leaves))


def _name(kind: str, leaves: list, structure: Any) -> str | None:
    """The digest of a call; None of one that has a part of the user's own, or is placed by them."""
    config: Any = jax.config
    elsewhere = config.jax_default_device is not None or jax.process_count() > 1
    if elsewhere or config.jax_disable_jit or any(map(_is_placed, leaves)):
        return None
    described = _pickled(structure)
    types = [(str(found), found.weak_type) for found in map(jax.typeof, leaves)]
    meshed = not jax.sharding.get_abstract_mesh().empty
    return None if described is None or meshed else digest(kind, described, types)


def _is_placed(leaf: Any) -> bool:
    """Whether a leaf is traced, or has been put on a device on purpose."""
    return isinstance(leaf, Tracer) or (isinstance(leaf, jax.Array) and leaf.committed)


class _Pickler(pickle.Pickler):
    """Networks by their recipes; refuses what is the user's own."""

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Network):
            if obj.recipe is None or rebuild(obj.recipe) != obj:
                raise _Own
            return obj.recipe
        named = isinstance(obj, type) or callable(obj)
        if named and str(getattr(obj, "__module__", "")).split(".")[0] not in _OURS:
            raise _Own
        return None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Network:
        return rebuild(pid)


def _pickled(structure: Any) -> bytes | None:
    """A structure in bytes that tell it from others in any process; None of one of the user's."""
    file = io.BytesIO()
    pickler = _Pickler(file, protocol=5)
    pickler.fast = True  # equal values give equal bytes, whether they are one object or two
    try:
        pickler.dump(structure)
    except (_Own, AttributeError, TypeError, ValueError, pickle.PicklingError):  # functions, say
        return None
    return file.getvalue()


def _unpickled(structure: bytes) -> Any:
    return _Unpickler(io.BytesIO(structure)).load()
