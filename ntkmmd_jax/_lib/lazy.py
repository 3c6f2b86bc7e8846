"""Packages whose names are imported when they are asked for (PEP 562).

A first p-value needs a fraction of this library, and waits for all that is imported. A package
lists its names by the modules that they live in: once for those who read code, below
`if TYPE_CHECKING`, and once for Python. `tests/test_import.py` holds the two against each other.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package. Its own modules are names, too.

    Args:
        package: Its name.
        homes: Names by the module that they live in, "module": "name name …".
    """
    found = {name: home for home, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in found:
            value = getattr(importlib.import_module(found[name]), name)
            setattr(sys.modules[package], name, value)  # and is not asked for again
            return value
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    def names() -> list[str]:
        room = vars(sys.modules[package])
        return sorted({*room, *room["__all__"]})

    return get, names
