"""Samples from files: .npy, .npz, .csv, .tsv and .parquet, one row per sample."""

import dataclasses
import importlib
import importlib.util
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

KINDS = (".npy", ".npz", ".csv", ".tsv", ".parquet")
TEXT = (".csv", ".tsv")  # which may have a header
_READERS = ("pyarrow", "polars", "pandas")  # of .parquet, whichever is installed
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
        path: `name.npy`; `name.npz`, or `name.npz:array` if it holds several; `name.csv`, columns
            separated by commas or, if its first line has one, by semicolons (and then a decimal
            comma is a point); `name.tsv`, by tabs; or `name.parquet`, for which one of pyarrow,
            polars and pandas must be installed.
        header: Whether the first line of a .csv or .tsv file names its columns. By default it does
            if it does not consist of numbers; a line of numbers that looks like one, as 0,1,2 or
            years over decimals, is an error.
    """
    return read_table(path, header).values


def read_table(path: str | os.PathLike, header: bool | None = None) -> Table:
    """Read a sample with the names of its columns; see `read_sample`."""
    name, _, array = str(path).partition(".npz:")
    file = Path(f"{name}.npz" if array else name)
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    kind = file.suffix.lower()
    if kind not in KINDS:
        raise ValueError(f"{file}: unknown kind of file; use {', '.join(KINDS)}")
    if header is not None and kind not in TEXT:
        raise ValueError(f"{file}: only a .csv or .tsv file may have a header")
    try:
        if kind in TEXT:
            return _read_text(file, header, "\t" if kind == ".tsv" else None)
        if kind == ".parquet":
            return _read_parquet(file)
        return Table(_read_npz(file, array) if kind == ".npz" else _read_npy(file))
    except (_Ambiguous, ImportError):
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


def _read_parquet(file: Path) -> Table:
    installed = [name for name in _READERS if importlib.util.find_spec(name) is not None]
    if not installed:
        raise ImportError(
            f"{file}: a .parquet file is read by pyarrow, polars or pandas: install one of them, "
            "or save the sample as .npy or .csv"
        )
    if installed[0] == "pyarrow":
        parquet: Any = importlib.import_module("pyarrow.parquet")
        table = parquet.read_table(file)
        names, columns = table.column_names, [column.to_numpy() for column in table.columns]
    else:
        frame = importlib.import_module(installed[0]).read_parquet(file)
        names, columns = list(frame.columns), [frame[name].to_numpy() for name in frame.columns]
    for name, column in zip(names, columns, strict=True):
        if column.dtype.kind not in "biuf":
            raise ValueError(f"column {name!r} holds no numbers, but {column.dtype}: leave it out")
    return Table(np.stack(columns, axis=1), list(map(str, names)))


def _read_text(file: Path, header: bool | None, delimiter: str | None) -> Table:
    """Numbers in columns; unless it is given, the delimiter is a semicolon if there is one."""
    with file.open(encoding="utf-8-sig") as lines:
        _, content = next(_contents(lines), (0, ""))
    delimiter = delimiter or (";" if ";" in content else ",")
    number_of = _with_decimal_comma if delimiter == ";" else _number
    with file.open(encoding="utf-8-sig") as lines:
        rows = _rows(lines, delimiter)
        number, first = next(rows, (0, []))
        if header is None:
            header = not all(_is_number(cell, number_of) for cell in first)
            if not header and _may_be_header(first, (cells for _, cells in rows)):
                raise _Ambiguous(
                    f"{file}: the first line, {','.join(first)[:40]}, may be names of columns or "
                    "data: say which, with header=True or False (--header or --no-header)"
                )
    values = np.loadtxt(
        file,
        delimiter=delimiter,
        skiprows=number + 1 if header else 0,
        ndmin=2,
        converters=number_of,
        encoding="utf-8-sig",
    )
    return Table(values, [cell.strip().strip('"') for cell in first] if header else None)


def _contents(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Line numbers from 0 and lines; neither blank ones nor comments, as numpy reads it."""
    for number, line in enumerate(lines):
        content = line.split("#")[0]
        if content.strip():
            yield number, content.rstrip("\r\n")


def _rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers from 0 and cells."""
    return ((number, content.split(delimiter)) for number, content in _contents(lines))


def _number(cell: str) -> float:
    return float(cell) if cell.strip() else np.nan  # an empty cell: missing


def _with_decimal_comma(cell: str) -> float:
    return _number(cell.replace(",", "."))


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


def _is_number(cell: str, number_of: Callable[[str], float]) -> bool:
    try:
        number_of(cell)
    except ValueError:
        return False
    return True
