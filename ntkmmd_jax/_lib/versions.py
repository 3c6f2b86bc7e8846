"""Versions of what a number rests on, to be said beside it."""

import importlib.metadata
import platform

_NAMES = ("ntkmmd-jax", "jax", "jaxlib", "flax", "optax", "neural-tangents", "numpy")


def versions() -> dict[str, str]:
    """Python, the library and what it computes with, name to version."""
    found = {name: importlib.metadata.version(name) for name in _NAMES}
    return {"python": platform.python_version(), **found}
