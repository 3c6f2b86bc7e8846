"""Immutable records that are JAX pytrees.

A record is a frozen dataclass. Fields are leaves (traced) unless declared `static()`, which is
for what fixes shapes or structure.
"""

import dataclasses
from typing import Any, dataclass_transform

import jax


def static(**options: Any) -> Any:
    """Declare a field that fixes shapes or structure, and is therefore no leaf."""
    return dataclasses.field(metadata={"static": True}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
def record(cls: type) -> type:
    """Make a class a frozen dataclass and register it as a pytree."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, eq=False)(cls))
