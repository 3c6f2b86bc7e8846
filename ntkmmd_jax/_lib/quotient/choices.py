"""Kinks and jumps: a linear map L of the values, which at the end of the line is another one, L'.

    d = L' d_x + (L' x − L x)/t,   r = L' r_x + (L' j_x − L j_x) + (L' x − L x)/t.

Unless the choice has changed, the brackets are exactly 0. Nothing else is divided by t.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.quotient.kinks import LINEAR, floating
from ntkmmd_jax._lib.quotient.moving import Moving, NoQuotient, bind, both_ends, gaps, moved, parts

if TYPE_CHECKING:
    from jax.extend.core import JaxprEqn


def chosen(ends: tuple[list, list], before: Callable, after: Callable, rise: list, t: Any) -> list:
    """A linear map of the values' parts that is `before` L, `after` L'; `rise` is L' x − L x."""
    slope, excess = after("slope"), after("excess")
    tangent, turned = before("tangent"), after("tangent")
    for i, height in enumerate(rise):
        jump = jnp.where(height == 0, 0, height / t)
        slope[i] += jump
        excess[i] += jump + (turned[i] - tangent[i])
    return moved(ends, slope, tangent, excess)


def linear(eqn: JaxprEqn, values: list, t: Any) -> list:
    """Linear in the real values; integers and truth values that move make it another map."""

    def at(side: str) -> Callable:
        choice = [_is_choice(v) for v in values]
        sided = [getattr(v, side) if c else v for v, c in zip(values, choice, strict=True)]
        return lambda part: bind(eqn, parts(sided, part))

    if not any(map(floating, eqn.invars)):
        return step(eqn, values, t)  # a truth value read as a number
    before, after = at("start"), at("end")
    ends = before("start"), after("end")
    if not any(map(_is_choice, values)):
        return chosen(ends, before, before, [], t)
    pairs = zip(after("start"), ends[0], strict=True)
    rise = [jnp.where(new == old, 0, new - old) for new, old in pairs]  # 0 too for inf and inf
    return chosen(ends, before, after, rise, t)


def _is_choice(value: Any) -> bool:
    return isinstance(value, Moving) and value.slope is None


def larger(eqn: JaxprEqn, values: list, t: Any) -> list:
    """max and min of two; equal ones share the derivative, as JAX has it."""
    sign = 1 if eqn.primitive.name == "max" else -1

    def at(gap: jax.Array) -> Callable:
        def pick(part: str) -> list:
            a, b = parts(values, part)
            return [jnp.where(sign * gap > 0, a, jnp.where(sign * gap < 0, b, (a + b) / 2))]

        return pick

    before, after = map(at, gaps(values, t))
    ends = both_ends(eqn, values)
    return chosen(ends, before, after, [after("start")[0] - ends[0][0]], t)


def largest(eqn: JaxprEqn, values: list, t: Any) -> list:
    """max and min over axes; equal ones share the derivative, as JAX has it."""
    (x,), axes = values, eqn.params["axes"]
    extreme = jnp.max if eqn.primitive.name == "reduce_max" else jnp.min
    gap = x.start - extreme(x.start, axes, keepdims=True)
    gap_after = gap + t * x.slope

    def mean(of: jax.Array, gap: jax.Array) -> list:
        return [jnp.mean(of, axes, where=gap == extreme(gap, axes, keepdims=True))]

    def at(gap: jax.Array) -> Callable:
        return lambda part: mean(getattr(x, part), gap)

    rise = mean(gap, gap_after)
    return chosen(both_ends(eqn, values), at(gap), at(gap_after), rise, t)


def absolute(eqn: JaxprEqn, values: list, t: Any) -> list:
    """|x|, which is linear on either side of 0."""
    (x,) = values

    def at(side: jax.Array) -> Callable:
        return lambda part: [jnp.sign(side) * getattr(x, part)]

    ends, after = both_ends(eqn, values), at(x.end)
    return chosen(ends, at(x.start), after, [after("start")[0] - ends[0][0]], t)


def step(eqn: JaxprEqn, values: list, t: Any) -> list:
    """Constant but for jumps."""
    ends = both_ends(eqn, values)
    rise = [b - a for a, b in zip(*ends, strict=True)]
    flat = lambda _: [jnp.zeros_like(a) for a in rise]  # noqa: E731
    return chosen(ends, flat, flat, rise, t)


def stopped(eqn: JaxprEqn, values: list, t: Any) -> list:
    """Moves, but JAX's derivative is told not to see it."""
    (x,) = values
    return [Moving(x.start, x.end, x.slope, jnp.zeros_like(x.slope), x.slope)]


def _clamped(eqn: JaxprEqn, low: jax.Array, x: jax.Array, high: jax.Array) -> jax.Array:
    return jnp.where(x <= low, low, jnp.where(x >= high, high, x))


def _pooled(eqn: JaxprEqn, x: jax.Array) -> jax.Array:
    """The maximum over windows as a chain of choices: the first of equal ones, as JAX has it."""
    params = eqn.params
    if any(step != 1 for name in params if "dilation" in name for step in params[name]):
        raise NoQuotient(f"the primitive {eqn.primitive.name!r} with dilation")
    x = jax.lax.pad(x, jnp.array(-jnp.inf, x.dtype), [(*ends, 0) for ends in params["padding"]])
    strides = params["window_strides"]
    reach = np.subtract(x.shape, params["window_dimensions"]) // strides * strides + 1
    views = [
        jax.lax.slice(x, first.tolist(), (first + reach).tolist(), strides)
        for first in map(np.array, np.ndindex(*params["window_dimensions"]))
    ]
    return functools.reduce(lambda a, b: jnp.where(a >= b, a, b), views)


def _pooled_gradient(eqn: JaxprEqn, source: jax.Array, x: jax.Array) -> jax.Array:
    if eqn.params["select_prim"].name != "ge":
        raise NoQuotient("the gradient of a minimum over windows")
    return jax.vjp(functools.partial(_pooled, eqn), x)[1](source)[0]


RULES = {
    **dict.fromkeys(LINEAR, linear),
    **dict.fromkeys(("max", "min"), larger),
    **dict.fromkeys(("reduce_max", "reduce_min"), largest),
    **dict.fromkeys(("sign", "floor", "ceil", "round"), step),
    "abs": absolute,
    "stop_gradient": stopped,
}
# Primitives that can be written by others.
WRITTEN = {
    "clamp": _clamped,
    "reduce_window_max": _pooled,
    "select_and_scatter_add": _pooled_gradient,
}
