"""Where data files are: the folder `NTKMMD_DATA`, or the user's cache."""

import os
from collections.abc import Sequence
from pathlib import Path

from ntkmmd_jax._lib.cache import cache_folder


def folders() -> list[Path]:
    """The folders that are searched, in order."""
    named = os.environ.get("NTKMMD_DATA")
    return [Path(named), cache_folder()] if named else [cache_folder()]


def find(names: Sequence[str], kind: str) -> Path:
    """The first file of one of these names, in a folder or in its subfolder `kind`.

    Args:
        names: File names, in order of preference; the error speaks of the first.
        kind: What it belongs to, as "mnist".
    """
    places = [place for folder in folders() for place in (folder / kind, folder)]
    for place in places:
        for name in names:
            if (place / name).is_file():
                return place / name
    raise FileNotFoundError(
        f"{names[0]} is in none of {', '.join(map(str, places))}: put it there, or let the "
        "environment variable NTKMMD_DATA name the folder that has it"
    )
