"""All that a compiled program depends on beside itself, in one digest.

The same Python call compiles to the same program where these are the same: our own source, the
versions of what it is written in, the settings of JAX and of the compiler, and the machine. An edit
of a file counts by its size and time, so that no file is read.
"""

import functools
import hashlib
import os
import platform
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxlib.version import __version__ as JAXLIB

from ntkmmd_jax._lib.precision import chosen
from ntkmmd_jax._version import __version__

PACKAGE = Path(__file__).parent.parent
_OTHERS = ("flax", "optax", "neural_tangents")  # which a program may have been traced through
_SEPARATOR = "flax_fix_rng_separator"
_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "NPROC")


def digest(*parts: Any) -> str:
    """The digest of a program that is told apart by `parts`, here and now.

    Args:
        *parts: Bytes, or what has a `repr` by value.
    """
    found = hashlib.sha256()
    for part in (*parts, *_fixed(), *_settings()):
        said = part if isinstance(part, bytes) else repr(part).encode()
        found.update(len(said).to_bytes(8, "little") + said)  # no part runs into the next
    return found.hexdigest()


def _settings() -> tuple:
    """What a user may change from call to call."""
    config: Any = jax.config
    # Where and when programs are kept makes no other program.
    values = sorted(item for item in config.values.items() if "cache" not in item[0])
    flags = tuple(os.environ.get(name) for name in _FLAGS)
    return (values, chosen(), flags, separates())


def separates() -> bool:
    """Flax's setting that makes other draws of a key; flax itself need not be imported."""
    flax = sys.modules.get("flax.configurations")
    if flax is not None:
        return bool(getattr(flax.config, _SEPARATOR, False))
    return os.environ.get(_SEPARATOR.upper(), "").lower() in ("y", "yes", "t", "true", "on", "1")


@functools.cache
def _fixed() -> tuple:
    """What stays as long as the process runs."""
    versions = (__version__, jax.__version__, JAXLIB, np.__version__, sys.version)
    return (versions, source(PACKAGE), tuple(map(_origin, _OTHERS)), *_machine())


def source(folder: Path) -> tuple:
    """Where the files of a package are, their sizes and the times of their last change."""
    found = []
    for inner, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                stat = os.stat(os.path.join(inner, name))
                found.append((inner, name, stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def _origin(name: str) -> tuple:
    """The installation of a library, which need not be imported."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return (name,)
    stat = os.stat(spec.origin)
    return (spec.origin, stat.st_size, stat.st_mtime_ns)


def _machine() -> tuple:
    """Its devices, and what its processor can do: a home may be shared by many machines."""
    devices = jax.devices()
    client = devices[0].client
    kinds = tuple(device.device_kind for device in devices)
    backend = (client.platform, client.platform_version, kinds)
    mine = getattr(os, "sched_getaffinity", None)  # not on macOS
    cores = len(mine(0)) if mine else os.cpu_count()
    return backend, platform.uname().machine, cores, _processor()


def _processor() -> bytes:
    """Model and instructions of the first processor, as Linux tells them; elsewhere its name."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            lines = file.read(2**13).split(b"\n\n")[0].splitlines()
    except OSError:
        return platform.processor().encode()
    changing = (b"cpu MHz", b"bogomips", b"BogoMIPS", b"core id", b"apicid", b"initial apicid")
    return b"\n".join(line for line in lines if not line.startswith(changing))
