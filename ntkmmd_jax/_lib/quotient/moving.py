"""A value on its way from θ to θ + t v, and primitives applied to parts of such values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.quotient.kinks import floating

if TYPE_CHECKING:
    from jax.extend.core import JaxprEqn


@dataclasses.dataclass(frozen=True)
class Moving:
    """A value along the line; of integers and truth values only the two ends."""

    start: jax.Array
    end: jax.Array
    slope: jax.Array | None = None  # (end − start) / t
    tangent: jax.Array | None = None  # ∂_v at the start
    excess: jax.Array | None = None  # slope − tangent


class NoQuotient(NotImplementedError):
    """A primitive through which differences cannot be carried."""


def bind(eqn: JaxprEqn, values: Any) -> list:
    """The outputs of a primitive, with an equation's parameters."""
    params = eqn.primitive.get_bind_params(eqn.params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # older JAX
    out = eqn.primitive.bind(*functions, *values, **params)
    return list(out) if eqn.primitive.multiple_results else [out]


def parts(values: list, part: str) -> list:
    """One part of every value: what does not move has the same ends, and no slope."""
    still = part in ("start", "end")
    return [
        getattr(v, part) if isinstance(v, Moving)
        else v if still or not floating(v) else jnp.zeros_like(v)
        for v in values
    ]  # fmt: skip


def moved(ends: tuple[list, list], slope: list, tangent: list, excess: list) -> list:
    """The outputs of a primitive from lists of their parts."""
    return [Moving(*parts) for parts in zip(*ends, slope, tangent, excess, strict=True)]


def both_ends(eqn: JaxprEqn, values: list) -> tuple[list, list]:
    """The outputs of a primitive at the start and at the end."""
    return bind(eqn, parts(values, "start")), bind(eqn, parts(values, "end"))


def gaps(values: list, t: Any) -> tuple[jax.Array, jax.Array]:
    """a − b at both ends; its small change is not rounded away beside large a and b."""
    (a, b), (da, db) = parts(values, "start"), parts(values, "slope")
    return a - b, (a - b) + t * (da - db)
