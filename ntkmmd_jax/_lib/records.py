"""Immutable records that are JAX pytrees.

A record is a frozen dataclass. Fields are leaves (traced) unless declared `static()`, which is
for what fixes shapes or structure. What a record checks, it checks when it is made by name or by
`dataclasses.replace`; JAX takes it apart and rebuilds it without: then leaves may be anything.
"""

import dataclasses
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

import jax
from jax.tree_util import GetAttrKey

T = TypeVar("T")


def static(**options: Any) -> Any:
    """Declare a field that fixes shapes or structure, and is therefore no leaf."""
    return dataclasses.field(metadata={"static": True}, **options)


@dataclass_transform(
    frozen_default=True, eq_default=False, field_specifiers=(static, dataclasses.field)
)
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass and register it as a pytree."""
    made: Any = dataclasses.dataclass(frozen=True, eq=False)(cls)
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


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple]:
    """The attributes of these names, as a tuple: `attrgetter` gives one only from two names on."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)
