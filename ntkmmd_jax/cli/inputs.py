"""What the command line is given, read and checked before anything is computed."""

import dataclasses
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import numpy as np
import typer

# What commands share: kinds of files, and options.
FILES = ".npy, .npz[:array], .csv, .tsv or .parquet"
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether text files begin with column names"),
]
Method = Annotated[
    str | None, typer.Option(help="Which test, ntk-fuse by default; `ntkmmd info` lists them")
]
Standardize = Annotated[
    bool | None,
    typer.Option(
        "--standardize/--no-standardize",
        help="Give coordinates pooled mean 0 and spread 1; by default, if there is a network",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="An option of the method, as learning_rate=0.01"),
]

LAPACK = ("hotelling", "me", "scf")  # methods that call it as they are
MOST_VALUES = 10_000  # of one grid parameter
_LEAST = {"n": 2, "n_x": 2, "n_y": 2, "dim": 1}  # whole numbers in a grid
_FLAGS = {"level": "--level", "n_permutations": "--permutations", "key": "--seed"}
_FLAGS |= {"method": "--method", "x": "X", "y": "Y", "standardize": "--standardize"}
_OBJECTS = ("network", "optimizer", "pilot")  # of Python, unless the default is a name


def read_samples(
    x: str | None, y: str | None, demo: bool, seed: int, header: bool | None
) -> tuple[Any, Any]:
    """The two samples: of two files, or of the demonstration."""
    from ntkmmd_jax import datasets
    from ntkmmd_jax._lib.keys import as_key

    if demo:
        if x is not None or header is not None:
            raise ValueError("--demo brings its own data: leave X, Y and --header out")
        return datasets.covariance_shift(as_key(seed), 200, 200, rho=0.12)
    if x is None or y is None:
        raise ValueError("give two files, X and Y, or --demo for built-in data")
    of_x, of_y = read_files([x, y], header)
    return of_x, of_y


def take_column(
    x: Any, y: Any, name: str | None, flag: str
) -> tuple[Any, Any, tuple[Any, Any] | None]:
    """Both tables without a column, and that column of each; as they are, without a name."""
    if name is None:
        return x, y, None
    rest, taken = [], []
    for table in (x, y):
        columns = getattr(table, "columns", None) or []
        if name not in columns:
            known = ", ".join(columns) or "columns without names: a header says them"
            raise ValueError(f"{flag} {name}: there is no such column; there are {known}")
        at = columns.index(name)
        taken.append(table.values[:, at])
        kept = [column for column in columns if column != name]
        rest.append(type(table)(np.delete(table.values, at, axis=1), kept))
    return rest[0], rest[1], (taken[0], taken[1])


def parse_permutations(text: str) -> int | str:
    """A whole number, or "adaptive"."""
    if text == "adaptive":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--permutations is a whole number, or adaptive; got {text!r}") from None


def read_files(paths: list[str], header: bool | None) -> list[Any]:
    """The tables of some files; `header` is said of those that are text."""
    from ntkmmd_jax.cli.files import TEXT, read_table

    is_text = [path.lower().endswith(TEXT) for path in paths]
    if header is not None and not any(is_text):
        raise ValueError("--header and --no-header are for .csv and .tsv files: there is none")
    return [
        read_table(path, header if text else None)
        for path, text in zip(paths, is_text, strict=True)
    ]


def check_outputs(
    plot: Path | None,
    save: Path | None,
    state: Path | None = None,
    report: Path | None = None,
) -> None:
    """Refuse, before there is a result to lose, paths that nothing can be written to."""
    given = (("--plot", plot), ("--save", save), ("--state", state), ("--report", report))
    for flag, path in given:
        if path is None:
            continue
        folder = path.parent
        if path.is_dir():
            raise ValueError(f"{flag} {path}: is a folder; give the name of a file")
        if not folder.is_dir():
            raise ValueError(f"{flag} {path}: there is no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise ValueError(f"{flag} {path}: cannot be written to")
    if plot is not None and plot.suffix:
        from ntkmmd_jax import plotting

        known = plotting.Figure().canvas.get_supported_filetypes()
        if plot.suffix[1:].lower() not in known:
            raise ValueError(f"--plot {plot}: unknown kind of picture; use .png, .pdf or .svg")


def parse_options(texts: Iterable[str], method: str | None) -> dict[str, Any]:
    """Options of a method, as NAME=VALUE with a JSON value or a word."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"--option takes NAME=VALUE; got {text!r}")
        if name in options:
            raise ValueError(f"--option {name} is given twice")
        if name in _FLAGS:
            raise ValueError(f"--option {text}: use {_FLAGS[name]} for that")
        try:
            parsed = json.loads(value)
        except json.JSONDecodeError:
            parsed = value
        options[name] = tuple(parsed) if isinstance(parsed, list) else parsed
    if options:
        from ntkmmd_jax.twosample import default_method

        _check_options(options, method or default_method(options))
    return options


def _check_options(options: dict[str, Any], method: str) -> None:
    """Refuse values that are of another kind than the option's default."""
    import ntkmmd_jax as ntk

    defaults = {field.name: field.default for field in dataclasses.fields(ntk.make_test(method))}
    for name, value in options.items():
        default = defaults.get(name)  # unknown names are for `make_test` to refuse
        said = f"--option {name}={value}"
        if name in _OBJECTS and name in defaults and not isinstance(default, str):
            raise ValueError(f"{said}: takes an object of Python, not to be had by a command line")
        if isinstance(default, bool) and not isinstance(value, bool):
            raise ValueError(f"{said}: takes true or false")
        if isinstance(default, int | float) and isinstance(value, str | dict):
            raise ValueError(f"{said}: takes a number")


def parse_image(text: str | None) -> tuple[int, ...] | None:
    """The shape of images: 28x28, or 32x32x3."""
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) not in (2, 3) or not all(side.isdecimal() and int(side) for side in sides):
        raise ValueError(f"--image takes HxW or HxWxC, as 28x28; got {text!r}")
    return tuple(map(int, sides))


def parse_grid(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Grid parameters: `rho=0:0.16:5` is five values from 0 to 0.16; `dim=2,100` are two."""
    grid: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name and equals and values):
            raise ValueError(f"--grid takes NAME=start:stop:count or NAME=a,b,c; got {text!r}")
        if name in grid:
            raise ValueError(f"--grid {name} is given twice")
        try:
            grid[name] = _values(values)
            _check_values(name, grid[name])
        except ValueError as error:
            raise ValueError(f"--grid {text!r}: {error}") from error
    return grid


def _values(text: str) -> list[Any]:
    parts = text.split(":")
    if len(parts) != 3:
        return [_value(value) for value in text.split(",")]
    start, stop, count = float(parts[0]), float(parts[1]), int(parts[2])
    if not 1 <= count <= MOST_VALUES:
        raise ValueError(f"the count must lie between 1 and {MOST_VALUES:,}; got {count}")
    return [start + (stop - start) * i / max(count - 1, 1) for i in range(count)]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise ValueError(f'{text!r} is no number; a word goes in quotes, as "{text}"') from None


def _check_values(name: str, values: list[Any]) -> None:
    for value in values:
        if not isinstance(value, int | float | str):
            raise ValueError(f"values are numbers or words; got {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"values must be finite; got {value}")
        if name in _LEAST and not (_is_whole(value) and value >= _LEAST[name]):
            raise ValueError(f"{name} must be a whole number of at least {_LEAST[name]}")


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def parse_sizes(text: str) -> int | tuple[int, int]:
    """Sample sizes: one of both, or n_x,n_y."""
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if len(sizes) not in (1, 2) or min(sizes) < 2:
        raise ValueError(f"--n takes one size or n_x,n_y, each of at least 2; got {text!r}")
    return (sizes[0], sizes[1]) if len(sizes) == 2 else sizes[0]
