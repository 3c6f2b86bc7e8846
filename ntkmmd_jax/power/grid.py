"""The grid of a sweep: every combination of parameter values, each sent to where it belongs.

`n`, `n_x` and `n_y` are sample sizes; else a parameter goes to the sampler if it takes it; else it
is an option of the tests that have it, or of their `mlp`. Floats are traced, so they never
recompile.
"""

import dataclasses
import inspect
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ntkmmd_jax.networks import Network, mlp
from ntkmmd_jax.power.sampler import Fixed, Sampler
from ntkmmd_jax.twosample import TwoSampleTest

MAX_CELLS = 100_000
_SIZES = ("n", "n_x", "n_y")
_NETWORK = ("widths", "activation", "initialization", "train_readout")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One grid point: what is traced, and what fixes the program."""

    point: dict[str, Any]
    tests: dict[str, TwoSampleTest]
    traced: dict[str, float]  # the sampler's numbers
    fixed: Fixed  # the sampler's other parameters
    sizes: tuple[int, int]


def cells_of(
    tests: dict[str, TwoSampleTest], sampler: Sampler, grid: Mapping[str, Any], n: Any
) -> list[Cell]:
    """The grid's cells in order, each parameter sent to where it belongs."""
    if not callable(sampler) or getattr(sampler, "__hash__", None) is None:
        raise TypeError(
            "sampler must be a function (key, n_x, n_y, ...), or a callable object that can be "
            f"hashed, such as a frozen dataclass; got {sampler!r}"
        )
    if not isinstance(grid, Mapping):
        raise TypeError(f"grid must map parameter names to values; got {grid!r}")
    grid = {name: _values(name, values) for name, values in grid.items()}
    if (count := math.prod(map(len, grid.values()))) > MAX_CELLS:
        lengths = " × ".join(f"{len(values)} of {name}" for name, values in grid.items())
        raise ValueError(
            f"the grid has {count:,} cells ({lengths}), more than {MAX_CELLS:,}: take fewer values"
        )
    to_sampler = _taken_by_sampler(tests, sampler, grid)
    cells = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        n_x, n_y = _pair(point.get("n", n))
        sizes = (_size(point.get("n_x", n_x), "n_x"), _size(point.get("n_y", n_y), "n_y"))
        given = {name: value for name, value in point.items() if name in to_sampler}
        traced = {name: value for name, value in given.items() if isinstance(value, float)}
        fixed = tuple((name, value) for name, value in given.items() if name not in traced)
        options = {
            name: value for name, value in point.items() if name not in (*_SIZES, *to_sampler)
        }
        with_options = {name: _with_options(test, options) for name, test in tests.items()}
        cells.append(Cell(point, with_options, traced, fixed, sizes))
    return cells


def _taken_by_sampler(
    tests: dict[str, TwoSampleTest], sampler: Sampler, grid: dict[str, list[Any]]
) -> set[str]:
    """Which parameters of the grid go to the sampler; refuse those that nothing takes."""
    parameters = list(inspect.signature(sampler).parameters.values())
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    first = {p.name for p in positional[:3]}  # key and sizes, whatever they are called
    takes = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes = [name for name in takes if name not in first]
    to_sampler = set()
    for name in grid:
        if name in _SIZES:
            continue
        if name in takes:
            to_sampler.add(name)
        elif not any(name in _options(test) for test in tests.values()):
            if not anything or name in first:
                raise ValueError(
                    f"nothing takes the grid parameter {name!r}: not the sampler "
                    f"({', '.join(takes) or 'no parameters'}), no option of the tests"
                )
            to_sampler.add(name)
    for name in to_sampler:
        for value in grid[name]:
            try:
                hash(value)  # what is not traced is a key to the compiled program
            except TypeError as error:
                raise ValueError(
                    f"the grid parameter {name!r} goes to the sampler and fixes its program, but "
                    f"{value!r} cannot be told from others ({error}): use numbers, text, tuples"
                ) from error
    return to_sampler


def _options(test: TwoSampleTest) -> set[str]:
    """What a grid may set of a test: its fields, and what its `mlp` is made of."""
    own = {field.name for field in dataclasses.fields(test) if field.init}
    has_network = isinstance(getattr(test, "network", None), Network)
    return own.union(_NETWORK) if has_network else own


def _values(name: str, values: Any) -> list[Any]:
    """The values of a grid parameter in Python types; all numbers are floats if one is."""
    if isinstance(values, set | frozenset | Mapping | Iterator):
        raise ValueError(
            f"the values of the grid parameter {name!r} must be a list, tuple, range or array, "
            f"in order; got {values!r}"
        )
    several = isinstance(values, list | tuple | range) and not hasattr(values, "_fields")
    size = len(values) if several else getattr(values, "size", 1)
    if isinstance(size, int) and size > MAX_CELLS:  # before anything of that length is made
        raise ValueError(f"the grid parameter {name!r} has {size:,} values, beyond {MAX_CELLS:,}")
    values = _python(values)
    values = list(values) if several or isinstance(values, list) else [values]
    if not values:
        raise ValueError(f"the grid parameter {name!r} has no values")
    if any(isinstance(value, float) for value in values):
        whole = (type(value) is int for value in values)
        values = [float(v) if is_int else v for v, is_int in zip(values, whole, strict=True)]
    return [tuple(value) if isinstance(value, list) else value for value in values]


def _python(value: Any) -> Any:
    """Arrays and their numbers as Python's own; what is in a sequence, too."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | range) or type(value) is tuple:
        return [_python(item) for item in value]
    return value


def _pair(n: Any) -> tuple[Any, Any]:
    """One size for both samples, or a size of each."""
    pair = tuple(n) if isinstance(n, tuple | list) else (n, n)
    if len(pair) != 2:
        raise ValueError(f"n must be one size or a pair (n_x, n_y); got {n!r}")
    return _size(pair[0], "n"), _size(pair[1], "n")


def _size(value: Any, name: str) -> int:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(
        value, bool
    )
    if not number or value != value // 1 or value < 2:
        raise ValueError(f"{name} must be a whole number of at least 2; got {value!r}")
    return int(value)


def _with_options(test: TwoSampleTest, options: dict[str, Any]) -> TwoSampleTest:
    options = {name: value for name, value in options.items() if name in _options(test)}
    network = {name: value for name, value in options.items() if name in _NETWORK}
    own = {name: value for name, value in options.items() if name not in _NETWORK}
    if network:
        recipe = getattr(getattr(test, "network", None), "recipe", None)
        if recipe is None or recipe[0] != "mlp":
            raise ValueError(f"{sorted(network)} can be swept for networks made by mlp only")
        own["network"] = mlp(**{**dict(recipe[1]), **network})
    return dataclasses.replace(test, **own)
