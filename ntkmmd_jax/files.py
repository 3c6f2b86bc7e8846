"""Samples from files: .npy, .npz and .csv, one row per sample."""

import os
from pathlib import Path

import numpy as np


def read_sample(path: str | os.PathLike) -> np.ndarray:
    """Read a sample.

    Args:
        path: `name.npy`; `name.npz`, or `name.npz:array` if it holds several; or `name.csv`, with
            or without a header line, columns separated by commas.
    """
    name, _, array = str(path).partition(".npz:")
    file = Path(f"{name}.npz" if array else name)
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv}
    if file.suffix.lower() not in readers:
        raise ValueError(f"{file}: unknown kind of file; use {', '.join(readers)}")
    try:
        return readers[file.suffix.lower()](file, array)
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error})") from error
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{file}: not a readable {file.suffix} file ({reason})") from error


def _read_npy(file: Path, array: str) -> np.ndarray:
    return np.load(file, allow_pickle=False)


def _read_npz(file: Path, array: str) -> np.ndarray:
    with np.load(file, allow_pickle=False) as arrays:
        if not array and len(arrays.files) != 1:
            raise ValueError(f"it holds {arrays.files}: say which, as {file}:{arrays.files[0]}")
        if array and array not in arrays.files:
            raise ValueError(f"it has no {array!r}, but {arrays.files}")
        return arrays[array or arrays.files[0]]


def _read_csv(file: Path, array: str) -> np.ndarray:
    with file.open(encoding="utf-8-sig") as lines:
        first = next((line for line in lines if line.strip()), "")
    return np.loadtxt(
        file,
        delimiter=",",
        skiprows=0 if all(map(_is_number, first.split(","))) else 1,
        ndmin=2,
        converters=lambda cell: float(cell) if cell.strip() else np.nan,  # an empty cell: missing
        encoding="utf-8-sig",
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell.strip()
    return True
