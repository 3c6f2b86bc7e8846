"""The grid of a sweep: every combination of parameter values, each sent to where it belongs.

A parameter goes to the sampler if it takes it; `n`, `n_x` and `n_y` are sample sizes; else it is an
option of the tests that have it, or of their `mlp`. Floats are traced, so they never recompile.
"""

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ntkmmd_jax.networks import Network, mlp
from ntkmmd_jax.twosample import TwoSampleTest

Sampler = Callable[..., tuple[jax.Array, jax.Array]]
_SIZES = ("n", "n_x", "n_y")
_NETWORK = ("widths", "activation", "initialization", "train_readout")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One grid point: what is traced, and what fixes the program."""

    point: dict[str, Any]
    tests: dict[str, TwoSampleTest]
    traced: dict[str, float]  # the sampler's numbers
    fixed: tuple[tuple[str, Any], ...]  # the sampler's other parameters
    sizes: tuple[int, int]


def cells_of(
    tests: dict[str, TwoSampleTest], sampler: Sampler, grid: Mapping[str, Any], n: Any
) -> list[Cell]:
    """The grid's cells in order, each parameter sent to where it belongs."""
    grid = {name: _values(name, values) for name, values in grid.items()}
    takes = inspect.signature(sampler).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    cells = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        sizes = dict(zip(("n_x", "n_y"), n if isinstance(n, tuple) else (n, n), strict=True))
        traced, fixed, options = {}, {}, {}
        for name, value in point.items():
            if name in takes:
                (traced if isinstance(value, float) else fixed)[name] = value
            elif name in _SIZES:
                sizes |= {"n_x": value, "n_y": value} if name == "n" else {name: value}
            elif name in _NETWORK or any(hasattr(test, name) for test in tests.values()):
                options[name] = value
            elif anything:
                (traced if isinstance(value, float) else fixed)[name] = value
            else:
                raise ValueError(
                    f"nothing takes the grid parameter {name!r}: not the sampler "
                    f"({', '.join(list(takes)[3:]) or 'no parameters'}), no option of the tests"
                )
        with_options = {name: _with_options(test, options) for name, test in tests.items()}
        pair = (int(sizes["n_x"]), int(sizes["n_y"]))
        cells.append(Cell(point, with_options, traced, tuple(fixed.items()), pair))
    return cells


def _values(name: str, values: Any) -> list[Any]:
    """The values of a grid parameter in Python types; all floats if one is."""
    values = np.asarray(values).tolist() if isinstance(values, np.ndarray | jax.Array) else values
    values = list(values) if isinstance(values, list | tuple | range) else [values]
    if not values:
        raise ValueError(f"the grid parameter {name!r} has no values")
    if any(isinstance(value, float) for value in values):
        values = [float(value) for value in values]
    return values


def _with_options(test: TwoSampleTest, options: dict[str, Any]) -> TwoSampleTest:
    own = {name: value for name, value in options.items() if name not in _NETWORK}
    own = {name: value for name, value in own.items() if hasattr(test, name)}
    network = {name: value for name, value in options.items() if name in _NETWORK}
    if network and isinstance(getattr(test, "network", None), Network):
        recipe = test.network.recipe
        if recipe is None or recipe[0] != "mlp":
            raise ValueError(f"{sorted(network)} can be swept for networks made by mlp only")
        own["network"] = mlp(**{**dict(recipe[1]), **network})
    return dataclasses.replace(test, **own)
