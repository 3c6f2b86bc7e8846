"""Compiled programs kept on disk, so that the next process loads what this one compiled.

XLA compiles for seconds what runs for milliseconds. JAX can keep programs in a folder, under a hash
of the program, the options and flags of the compiler, its version and the kind of device; here it
is told to, in the user's cache folder, with bounds on what is kept; tests keep whole executables
beside them (`executables`). A cache is a convenience: where there is no room for one, everything
works without.
"""

import os
import shutil
import stat
import warnings
from pathlib import Path
from typing import Any

import jax

from ntkmmd_jax._lib.telling import warn

_BYTES = 2**30  # kept from one session to the next; some 100 KB a method and size
_ROOM = 2**27  # bytes that must be free: a cache is the last thing to fill a disk
_BLOCK = 4096
_TROUBLE = "Error (reading|writing) persistent compilation cache entry"  # JAX's own words


def cache(*, clear: bool = False) -> Path | None:
    """Keep compiled programs in the user's cache folder, and use those that are there.

    One line at the top of a notebook; the command line does it by itself. The folder is
    `ntkmmd_jax/programs` in `$XDG_CACHE_HOME`, or in `~/.cache`; it holds at most 1 GiB, of which
    the oldest goes first. A cache that JAX has been given already (`JAX_COMPILATION_CACHE_DIR`, or
    `jax_compilation_cache_dir`) is left as it is, and so is one that has been forbidden
    (`JAX_ENABLE_COMPILATION_CACHE=0`).

    Args:
        clear: Whether to begin with an empty folder. Only programs of this folder are deleted.

    Returns:
        The folder that is in use; None where there is none. If that is for want of a folder that
        can be written and belongs to this user alone, or of room, a warning gives the reason.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> folder = ntk.cache()
    """
    config: Any = jax.config  # whose names no type checker knows
    if clear:
        forget()
    if not config.jax_enable_compilation_cache:
        return None
    try:
        folder = programs_folder()
        if (given := config.jax_compilation_cache_dir) not in (None, str(folder)):
            return Path(given)
        _make(folder)
        _prune()
    except (OSError, RuntimeError) as error:  # the latter if a user has no home
        warn(f"compiled programs are not kept: {error}", RuntimeWarning)
        return None
    # What goes wrong later (a disk that has filled up) costs a compilation, not a message each.
    warnings.filterwarnings("ignore", _TROUBLE, UserWarning)
    config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many small, not one big
    return folder


def in_use() -> Path | None:
    """The folder, while programs are kept there and nobody else may write to it."""
    config: Any = jax.config
    try:
        folder = programs_folder()
        used = config.jax_enable_compilation_cache and config.jax_compilation_cache_dir
        return folder if used == str(folder) and _is_mine(folder.stat()) else None
    except (OSError, RuntimeError):  # the latter if a user has no home
        return None


def programs_folder() -> Path:
    """Where `cache` keeps programs."""
    return cache_folder() / "programs"


def cache_folder() -> Path:
    """Our folder in the user's cache, for programs and for data."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ntkmmd_jax"


def kept() -> list[os.DirEntry[str]]:
    """The programs in the folder, the oldest first."""
    try:
        with os.scandir(programs_folder()) as entries:
            found = [entry for entry in entries if entry.name.endswith("-cache")]
        return sorted(found, key=lambda entry: entry.stat().st_mtime)
    except (OSError, RuntimeError):  # no folder, or one that another process is clearing
        return []


def forget() -> None:
    """Delete the programs in the folder."""
    for entry in kept():
        Path(entry).unlink(missing_ok=True)


def _make(folder: Path) -> None:
    """Make the folder, or say by an OSError why it will not do."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_mine(folder.stat()):
        raise PermissionError(f"others may write to {folder}, and so run programs as you")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written to")
    if (free := shutil.disk_usage(folder).free) < _ROOM:
        raise OSError(f"the disk of {folder} has {free / 2**20:.0f} MiB left, below 128")


def _is_mine(found: os.stat_result) -> bool:
    """Programs are run: whoever may write where they are may run what they like as this user."""
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return mine and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _prune() -> None:
    """Drop the oldest programs beyond the bound, and those that a full disk has cut.

    A disk takes whole blocks as long as it has them, so that what was cut ends with one. Of the
    programs that are whole, one in 4,096 does so too: it is compiled again.
    """
    total = 0
    for entry in reversed(kept()):
        size = entry.stat().st_size
        total += size
        if total > _BYTES or size % _BLOCK == 0:
            Path(entry).unlink(missing_ok=True)
