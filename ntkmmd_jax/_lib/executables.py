"""Executables on disk: what JAX need neither trace, nor lower, nor compile.

JAX finds a program in its cache by the program itself, which it must trace and lower before, and
that takes longer than most tests do. Who knows by other means which program it is (see
`surroundings`) can skip it. Files are in the folder of `cache`, with its bounds and its rules, and
are trusted as the programs there are. A file that is missing or damaged is no executable, and a
folder that takes none costs a compilation.
"""

import contextlib
import gc
import io
import os
import pickle
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from ntkmmd_jax._lib.progress import COMPILED

_ALONE = threading.Lock()
_SETTING = "jax_enable_compilation_cache"
_QUICK = 1  # of zlib: a fifth of the size, in some milliseconds


def load(path: Path, restored: Callable[[bytes], Any]) -> Callable[..., Any] | None:
    """The function of leaves that a file has, or None.

    Args:
        path: The file.
        restored: From bytes to the structure of its result.
    """
    from jax.experimental.serialize_executable import deserialize_and_load

    try:
        executable, n, structure = pickle.loads(zlib.decompress(path.read_bytes()))
        leaves, result = jax.tree.structure((tuple(range(n)), {})), restored(structure)
        here = jax.devices()[:1]
        found = deserialize_and_load(executable, leaves, result, execution_devices=here)
    except FileNotFoundError:
        return None
    except Exception:  # whatever a damaged file may lead to
        remove(path)
        return None
    return found


def save(path: Path, compiled: jax.stages.Compiled, structure: bytes) -> None:
    """Write an executable to a file at once, if that can be done.

    Args:
        path: The file.
        compiled: What was compiled `afresh`.
        structure: That of its result, for `restored`.
    """
    from jax.experimental.serialize_executable import serialize

    part = path.with_name(f"{os.getpid()}-{path.name}")
    try:
        executable, given, _ = serialize(compiled)
        whole = pickle.dumps((executable, given.num_leaves, structure))
        part.write_bytes(zlib.compress(whole, _QUICK))
        part.replace(path)
    except Exception:  # a full disk, or a backend that gives no executables away
        remove(part)


def remove(path: Path) -> None:
    """Delete a file, if it is there and can be deleted."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def is_closed(lowered: jax.stages.Lowered) -> bool:
    """Whether a program calls nothing outside of it.

    LAPACK, say, is made ready by lowering: an executable by itself would call what is not there.
    """
    written: Any = io.BytesIO()  # names are there as they are; the text takes five times as long
    module: Any = lowered.compiler_ir()
    module.operation.write_bytecode(written)
    return b"custom_call" not in written.getvalue()


@contextlib.contextmanager
def unswept() -> Iterator[None]:
    """Trace without the garbage collector: of `ntk-fuse`, it takes some 5 % of the first call."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def afresh() -> Iterator[list[str]]:
    """Compile without JAX's cache, and tell of what has been compiled.

    XLA can save an executable that has just been compiled; none that has been loaded, or run.
    """
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    done: list[str] = []

    def listen(event: str, *_: Any, **__: Any) -> None:
        if event == COMPILED:
            done.append(event)

    with _ALONE:  # the setting is one for all threads
        before = getattr(jax.config, _SETTING)
        jax.config.update(_SETTING, False)
        reset_cache()  # it looks at the setting once
        jax.monitoring.register_event_duration_secs_listener(listen)
        try:
            yield done
        finally:
            jax.monitoring.unregister_event_duration_listener(listen)
            jax.config.update(_SETTING, before)
            reset_cache()
