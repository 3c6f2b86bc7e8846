"""Immutable records that are JAX pytrees.

A record is a frozen dataclass. Fields are leaves (traced) unless declared `static()`, which is
for what fixes shapes or structure. What a record checks, it checks when it is made by name or by
`dataclasses.replace`; JAX takes it apart and rebuilds it without: then leaves may be anything.
"""

import dataclasses
from collections.abc import Iterable
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
    leaves = [field.name for field in fields if not field.metadata.get("static")]
    fixed = [field.name for field in fields if field.metadata.get("static")]
    keys = list(map(GetAttrKey, leaves))

    def flatten(one: Any) -> tuple[list, tuple]:
        return [getattr(one, name) for name in leaves], tuple(getattr(one, name) for name in fixed)

    def flatten_with_keys(one: Any) -> tuple[list, tuple]:
        children, aux = flatten(one)
        return list(zip(keys, children, strict=True)), aux

    def unflatten(aux: tuple, children: Iterable[Any]) -> Any:
        one = object.__new__(made)  # not `made(...)`: no __init__, hence no checks
        vars(one).update(zip((*leaves, *fixed), (*children, *aux), strict=True))
        return one

    jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)
    return made
