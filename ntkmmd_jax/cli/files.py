"""Samples from files: .npy, .npz and .csv, one row per sample."""

import dataclasses
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_WHOLE = re.compile(r"\s*[+-]?\d+\s*")  # how a whole number is written


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of numbers, with the names of the columns if the file has them."""

    values: np.ndarray  # (n, ...)
    columns: list[str] | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values if dtype is None else self.values.astype(dtype)


class _Ambiguous(ValueError):
    """A first line that may be a header or data."""


def read_sample(path: str | os.PathLike, header: bool | None = None) -> np.ndarray:
    """Read a sample.

    Args:
        path: `name.npy`; `name.npz`, or `name.npz:array` if it holds several; or `name.csv`,
            columns separated by commas.
        header: Whether the first line of a .csv file names its columns. By default it does if it
            does not consist of numbers; a line of numbers that looks like one, as 0,1,2 or years
            over decimals, is an error.
    """
    return read_table(path, header).values


def read_table(path: str | os.PathLike, header: bool | None = None) -> Table:
    """Read a sample with the names of its columns; see `read_sample`."""
    name, _, array = str(path).partition(".npz:")
    file = Path(f"{name}.npz" if array else name)
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    kind = file.suffix.lower()
    if kind not in (".npy", ".npz", ".csv"):
        raise ValueError(f"{file}: unknown kind of file; use .npy, .npz, .csv")
    if header is not None and kind != ".csv":
        raise ValueError(f"{file}: only a .csv file may have a header")
    try:
        if kind == ".csv":
            return _read_csv(file, header)
        return Table(_read_npz(file, array) if kind == ".npz" else _read_npy(file))
    except _Ambiguous:
        raise
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error})") from error
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{file}: not a readable {file.suffix} file ({reason})") from error


def _read_npy(file: Path) -> np.ndarray:
    return np.load(file, allow_pickle=False)


def _read_npz(file: Path, array: str) -> np.ndarray:
    with np.load(file, allow_pickle=False) as arrays:
        if not array and len(arrays.files) != 1:
            raise ValueError(f"it holds {arrays.files}: say which, as {file}:{arrays.files[0]}")
        if array and array not in arrays.files:
            raise ValueError(f"it has no {array!r}, but {arrays.files}")
        return arrays[array or arrays.files[0]]


def _read_csv(file: Path, header: bool | None) -> Table:
    with file.open(encoding="utf-8-sig") as lines:
        rows = _rows(lines)
        number, first = next(rows, (0, []))
        if header is None:
            header = not all(map(_is_number, first))
            if not header and _may_be_header(first, (cells for _, cells in rows)):
                raise _Ambiguous(
                    f"{file}: the first line, {','.join(first)[:40]}, may be names of columns or "
                    "data: say which, with header=True or False (--header or --no-header)"
                )
    values = np.loadtxt(
        file,
        delimiter=",",
        skiprows=number + 1 if header else 0,
        ndmin=2,
        converters=lambda cell: float(cell) if cell.strip() else np.nan,  # an empty cell: missing
        encoding="utf-8-sig",
    )
    return Table(values, [cell.strip().strip('"') for cell in first] if header else None)


def _rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Line numbers from 0 and cells; neither blank lines nor comments, as numpy reads it."""
    for number, line in enumerate(lines):
        content = line.split("#")[0]
        if content.strip():
            yield number, content.rstrip("\r\n").split(",")


def _may_be_header(first: list[str], rows: Iterator[list[str]]) -> bool:
    """Whether a line of numbers counts the columns, or is the only one in whole numbers."""
    cells = [cell for cell in first if cell.strip()]
    if not cells or not all(map(_WHOLE.fullmatch, cells)):
        return False
    numbers, d = [int(cell) for cell in cells], len(cells)
    if d >= 2 and numbers in (list(range(d)), list(range(1, d + 1))):
        return True
    below = next(rows, None)
    if below is None:
        return False
    return not any(_WHOLE.fullmatch(cell) for row in itertools.chain([below], rows) for cell in row)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell.strip()
    return True
