"""What a sweep is, in plain values: everything that its counts depend on.

Functions are described by what they compute, not by their names. Two closures, two activations or
two optimizers of one name have different jaxprs, or other constants in them; the same function has
the same jaxpr in every process, on any number of devices. Its fingerprint is a hash of both.
"""

import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from ntkmmd_jax._lib.files import fields_of, plain
from ntkmmd_jax.networks import Network
from ntkmmd_jax.power.grid import Cell
from ntkmmd_jax.power.sampler import Sampler, draw, numbers_of
from ntkmmd_jax.twosample import TwoSampleTest

_HOST = ("pure_callback", "io_callback")  # Python behind them, which no jaxpr shows
_SMALL = 16  # numbers that are written out; more are hashed


class Undescribed(ValueError):
    """What a jaxpr does not show."""


def fingerprint(function: Callable[..., Any], *arguments: Any) -> str:
    """A hash of the jaxpr of a function of these arguments (or shapes), its constants included."""
    return _digest(jax.make_jaxpr(function)(*arguments), {}).hex()[:16]


def _digest(value: Any, known: dict[int, bytes]) -> bytes:
    """The sha256 of a jaxpr, an array or a parameter, parts before wholes; jaxprs only once."""
    if isinstance(value, ClosedJaxpr | Jaxpr):
        if id(value) not in known:
            known[id(value)] = _hash(*_jaxpr_parts(value, known))
        return known[id(value)]
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        numbers = numbers_of(value)
        return _hash(str(numbers.dtype), str(numbers.shape), numbers.tobytes())
    if isinstance(value, tuple | list):
        return _hash("sequence", *(_digest(item, known) for item in value))
    if isinstance(value, Mapping):
        items = sorted(value.items(), key=lambda item: str(item[0]))
        return _hash("mapping", *(_digest(item, known) for item in items))
    if isinstance(value, set | frozenset):  # in the order of their hashes, another in each process
        return _hash("set", *sorted(_digest(item, known) for item in value))
    return _hash(_without_addresses(repr(value)))


def _jaxpr_parts(value: ClosedJaxpr | Jaxpr, known: dict[int, bytes]) -> list[str | bytes]:
    """Inputs, equations and outputs of a jaxpr, its variables numbered in order; its constants."""
    jaxpr, consts = (value.jaxpr, value.consts) if isinstance(value, ClosedJaxpr) else (value, ())
    numbers: dict[Any, int] = {}

    def atom(variable: Any) -> str | bytes:
        if isinstance(variable, Literal):
            return _hash(str(variable.aval), _digest(np.asarray(variable.val), known))
        return f"{numbers.setdefault(variable, len(numbers))}:{variable.aval}"

    parts: list[str | bytes] = [atom(v) for v in (*jaxpr.constvars, *jaxpr.invars)]
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in _HOST:
            raise Undescribed(f"calls back to Python ({name}), where it cannot be described")
        parts += [name, _digest(equation.params, known)]
        parts += [atom(v) for v in (*equation.invars, *equation.outvars)]
    parts += [atom(v) for v in jaxpr.outvars]
    return parts + [_digest(const, known) for const in consts]


def _hash(*parts: str | bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        part = part.encode() if isinstance(part, str) else part
        digest.update(len(part).to_bytes(8, "little") + part)  # no part runs into the next
    return digest.digest()


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-fA-F]+", "0x", text)


def configuration(
    key: jax.Array,
    tests: dict[str, TwoSampleTest],
    sampler: Sampler,
    cells: list[Cell],
    samples: list[tuple],
    n_runs: int,
) -> dict[str, Any]:
    """What a sweep is: names, numbers and, for every cell, the programs of sampler and tests.

    Args:
        key: The key of the sweep.
        tests: The tests by name, before the grid's options.
        sampler: Where the data come from.
        cells: The grid's cells.
        samples: The shapes of x and y in every cell.
        n_runs: Replicas per cell.
    """
    programs = {"sampler": [], "tests": {name: [] for name in tests}}
    places: dict[Any, int] = {}  # of the programs, by what they are traced from
    described = []
    for cell, shapes in zip(cells, samples, strict=True):
        leaves, structure = jax.tree.flatten((cell.tests, cell.traced))
        traced_from = (cell.sizes, cell.fixed, structure, tuple(map(jax.typeof, leaves)))
        if traced_from not in places:
            places[traced_from] = len(places)
            of_sampler, of_tests = _programs(key, sampler, cell, shapes)
            programs["sampler"].append(of_sampler)
            for name, program in of_tests.items():
                programs["tests"][name].append(program)
        point = plain(cell.point, _described)
        sizes, place = list(cell.sizes), places[traced_from]
        described.append({"point": point, "sizes": sizes, "program": place})
    return {
        "jax": jax.__version__,
        "precision": str(jnp.result_type(float)),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "sampler": _name(sampler),
        "n_runs": n_runs,
        "cells": described,
        "tests": plain(tests, _described),
        "programs": programs,
    }


def _programs(
    key: jax.Array, sampler: Sampler, cell: Cell, samples: tuple
) -> tuple[str, dict[str, str]]:
    """The fingerprints of the sampler and of every test at the shapes of a cell."""

    def verdict(test: TwoSampleTest, key: jax.Array, x: jax.Array, y: jax.Array) -> tuple:
        found = test(key, x, y)
        return found.pvalue, found.reject

    def described(what: str, *traced: Any) -> str:
        try:
            return fingerprint(*traced)
        except Undescribed as error:
            raise ValueError(
                f"a checkpoint must know its sweep again, but {what} {error}. "
                "Write it in JAX, or sweep without a checkpoint"
            ) from error

    sample = functools.partial(draw, sampler, cell.sizes, cell.fixed)
    return described("the sampler", sample, key, cell.traced), {
        name: described(f"the test {name!r}", verdict, test, key, *samples)
        for name, test in cell.tests.items()
    }


def _described(value: Any) -> Any:
    """What no JSON holds, for people to read; functions are told apart by `programs`."""
    if isinstance(value, Network):
        return value.recipe or [_name(value.init), _name(value.apply), *value.frozen]
    if isinstance(value, jax.Array | np.generic | np.ndarray):
        numbers = numbers_of(value)
        small = numbers.size <= _SMALL
        return numbers.tolist() if small else f"{numbers.shape} {_digest(value, {}).hex()[:16]}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__name__, **plain(fields_of(value), _described)}
    return _name(value)


def _name(function: Any) -> str:
    if isinstance(function, functools.partial):
        return f"partial({_name(function.func)})"
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return _without_addresses(str(name))
