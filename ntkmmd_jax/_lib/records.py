"""Immutable records that are JAX pytrees.

A record is a frozen dataclass. Fields are leaves (traced) unless declared `static()`, which is
for what fixes shapes or structure. What a record checks, it checks when it is made by name or by
`dataclasses.replace`; JAX takes it apart and rebuilds it without: then leaves may be anything.
Its `repr` is short: arrays by type and shape, and nothing that is as it is by default.
"""

import dataclasses
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.tree_util import GetAttrKey

from ntkmmd_jax._lib.help import with_help

T = TypeVar("T")
_LISTED = 8  # numbers of a container that are shown
_WORDS = 120  # characters of a part that are shown


def static(**options: Any) -> Any:
    """Declare a field that fixes shapes or structure, and is therefore no leaf.

    Args:
        **options: As for `dataclasses.field`: `default`, `default_factory`, `kw_only`, ….

    Example:
        >>> @record
        ... class Grid:
        ...     points: Any
        ...     size: int = static(default=8)
        >>> jax.tree.leaves(Grid(1.0))
        [1.0]
    """
    return dataclasses.field(metadata={"static": True}, **options)


@dataclass_transform(
    frozen_default=True, eq_default=False, field_specifiers=(static, dataclasses.field)
)
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass and register it as a pytree.

    Args:
        cls: A class with annotated fields: leaves, or `static()`.

    Example:
        >>> import jax
        >>> import ntkmmd_jax as ntk
        >>> @ntk.record
        ... class Line:
        ...     slope: float
        ...     degree: int = ntk.static(default=1)
        >>> jax.tree.map(lambda leaf: 2 * leaf, Line(3.0))
        Line(slope=6)
    """
    made: Any = dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
    if made.__repr__ is object.__repr__:
        made.__repr__ = shown
    with_help(made)
    fields = dataclasses.fields(made)
    leaves = tuple(field.name for field in fields if not field.metadata.get("static"))
    fixed = tuple(field.name for field in fields if field.metadata.get("static"))
    names, keys = leaves + fixed, tuple(map(GetAttrKey, leaves))
    values_of, fixed_of = _getter(leaves), _getter(fixed)

    def flatten(one: Any) -> tuple[tuple, tuple]:
        return values_of(one), fixed_of(one)

    def flatten_with_keys(one: Any) -> tuple[list, tuple]:
        children, aux = flatten(one)
        return list(zip(keys, children, strict=True)), aux

    def unflatten(aux: tuple, children: Iterable[Any]) -> Any:
        one = object.__new__(made)  # not `made(...)`: no __init__, hence no checks
        vars(one).update(zip(names, (*children, *aux), strict=True))
        return one

    jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)
    made._record = made
    return made


def check_record(one: Any) -> None:
    """Refuse an object of a subclass of a record that is none itself, which JAX does not know."""
    cls = type(one)
    if vars(cls).get("_record") is not cls:
        raise TypeError(
            f"{cls.__name__} is a subclass of a record, and no record itself: write @ntk.record "
            f"above `class {cls.__name__}`"
        )


def shown(self: Any) -> str:
    """A dataclass in one line: what is not as it is by default, arrays by type and shape."""
    fields = [f for f in dataclasses.fields(self) if f.repr and not _is_default(self, f)]
    told = (f"{field.name}={brief(getattr(self, field.name))}" for field in fields)
    return f"{type(self).__name__}({', '.join(told)})"


def brief(value: Any) -> str:
    """A value in a few words, whatever it is."""
    if isinstance(value, bool | int | str | None):
        return repr(value)
    if isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
        return _brief_array(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple | list | dict) and value:
        leaves = jax.tree.leaves(value)
        if sum(map(np.size, leaves)) > _LISTED or any(map(callable, leaves)):
            return f"<{len(leaves)} leaves>"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{name!r}: {brief(item)}' for name, item in value.items())}}}"
        return f"({', '.join(map(brief, value))}{',' * (len(value) == 1)})"
    if callable(value) and not dataclasses.is_dataclass(value):
        return getattr(value, "__name__", type(value).__name__)
    said = repr(value)
    plain = len(said) <= _WORDS and "\n" not in said and " at 0x" not in said
    return said if plain else f"{type(value).__name__}(…)"


def _brief_array(value: Any) -> str:
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return "key" if value.ndim == 0 else f"{value.shape} keys"
    on_host = isinstance(value, np.ndarray | np.generic)
    concrete = isinstance(value, jax.Array) and not isinstance(value, Tracer)
    if value.ndim == 0 and (on_host or (concrete and value.is_fully_addressable)):
        return brief(value.item())
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def _is_default(one: Any, field: dataclasses.Field) -> bool:
    """Whether a field is as it is by default, as far as plain values tell."""
    value, factory = getattr(one, field.name), field.default_factory
    default = field.default if factory is dataclasses.MISSING else factory()
    if value is default:
        return True
    items = value if isinstance(value, tuple) else (value,)
    return all(isinstance(item, bool | int | float | str) for item in items) and value == default


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple]:
    """The attributes of these names, as a tuple: `attrgetter` gives one only from two names on."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)
