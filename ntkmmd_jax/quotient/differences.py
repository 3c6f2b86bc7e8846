"""Differences carried through a function like tangents, one primitive after the other.

Every value on the way is known at both ends of the line, a and a', by its slope d = (a' − a)/t, its
tangent j at the start and its excess r = d − j. Sums pass all of them on; a product has
d = d_a b' + a d_b; a smooth function averages its derivatives over its own segment; and what
chooses (max, `where`, an index) is a linear map L of the values, but at the end another one, L':

    d = L' d_x + (L' x − L x)/t,   r = L' r_x + (L' j_x − L j_x) + (L' x − L x)/t.

Unless the choice has changed, the brackets are exactly 0. Nothing else is divided by t.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from ntkmmd_jax.quotient.kinks import (
    BILINEAR,
    CALLS,
    ELEMENTWISE,
    LINEAR,
    floating,
    inner_jaxpr,
    is_smooth,
)
from ntkmmd_jax.quotient.quadrature import bend, displaced, mean_slope


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


def carried(function: Callable, at: Any, direction: Any, time: Any, part: str) -> Any:
    """One part of the outputs of a function from `at` to `at` + t v, as a pytree like them."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(at)
    leaves = zip(jax.tree.leaves(at), jax.tree.leaves(direction), strict=True)
    inputs = [Moving(a, a + time * v, v, v, jnp.zeros_like(v)) for a, v in leaves]
    outputs = _run(closed.jaxpr, closed.consts, inputs, time)
    return jax.tree.unflatten(jax.tree.structure(shape), _parts(outputs, part))


def _run(jaxpr: Jaxpr, consts: list, inputs: list, t: Any) -> list:
    """Evaluate a jaxpr on values that move and values that do not."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for eqn in jaxpr.eqns:
        values = [read(v) for v in eqn.invars]
        moves = any(isinstance(value, Moving) for value in values)
        outputs = _rule(eqn)(eqn, values, t) if moves else _bind(eqn, values)
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _rule(eqn: JaxprEqn) -> Callable:
    """The function that takes a primitive's values, some of them moving, to its outputs."""
    name = eqn.primitive.name
    if name in CALLS and not is_smooth(eqn):
        return _call
    if not any(map(floating, eqn.outvars)):
        return _ends
    if name in _RULES:
        return _RULES[name]
    if is_smooth(eqn):
        return _smooth
    raise NoQuotient(f"the primitive {name!r}")


def _bind(eqn: JaxprEqn, values: Any) -> list:
    params = eqn.primitive.get_bind_params(eqn.params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # older JAX
    out = eqn.primitive.bind(*functions, *values, **params)
    return list(out) if eqn.primitive.multiple_results else [out]


def _parts(values: list, part: str) -> list:
    """One part of every value: what does not move has the same ends, and no slope."""
    still = part in ("start", "end")
    return [
        getattr(v, part) if isinstance(v, Moving)
        else v if still or not floating(v) else jnp.zeros_like(v)
        for v in values
    ]  # fmt: skip


def _moving(ends: tuple[list, list], slope: list, tangent: list, excess: list) -> list:
    return [Moving(*parts) for parts in zip(*ends, slope, tangent, excess, strict=True)]


def _both_ends(eqn: JaxprEqn, values: list) -> tuple[list, list]:
    return _bind(eqn, _parts(values, "start")), _bind(eqn, _parts(values, "end"))


def _ends(eqn: JaxprEqn, values: list, t: Any) -> list:
    """Comparisons and whatever else gives no real number."""
    start, end = _both_ends(eqn, values)
    if eqn.primitive.name in ("gt", "ge", "lt", "le") and floating(eqn.invars[0]):
        end = _bind(eqn, [_gap(values, t)[1], jnp.zeros_like(_parts(values, "start")[0])])
    return [Moving(*both) for both in zip(start, end, strict=True)]


def _gap(values: list, t: Any) -> tuple[jax.Array, jax.Array]:
    """a − b at both ends; its small change is not rounded away beside large a and b."""
    (a, b), (da, db) = _parts(values, "start"), _parts(values, "slope")
    return a - b, (a - b) + t * (da - db)


def _call(eqn: JaxprEqn, values: list, t: Any) -> list:
    jaxpr, consts = inner_jaxpr(eqn)
    outputs = _run(jaxpr, consts, values, t)
    if eqn.primitive.name == "custom_jvp_call":  # at a tie its own derivative counts: relu's is 0
        starts, tangents = _parts(values, "start"), _parts(values, "tangent")
        own = jax.jvp(lambda *values: _bind(eqn, values), starts, tangents)[1]
        for i, out in enumerate(outputs):
            if isinstance(out, Moving):
                excess = out.excess + (out.tangent - own[i])
                outputs[i] = dataclasses.replace(out, tangent=own[i], excess=excess)
    return outputs


def _smooth(eqn: JaxprEqn, values: list, t: Any) -> list:
    """d = ∫ ∂_d f(a + s t d) ds and r = ∂_r f(a) + t ∫ (1 − s) ∂²_d f(a + s t d) ds.

    On a long segment the plain difference is exact and three nodes are not.
    """
    places = [i for i, v in enumerate(values) if isinstance(v, Moving)]
    moving = [values[i] for i in places]

    def function(given: list) -> list:
        put = dict(zip(places, given, strict=True))
        return _bind(eqn, [put.get(i, v) for i, v in enumerate(values)])

    a, d, j, r = (_parts(moving, part) for part in ("start", "slope", "tangent", "excess"))
    along = lambda direction: jax.jvp(function, (a,), (direction,))[1]  # noqa: E731
    ends, tangent, slope = _both_ends(eqn, values), along(j), mean_slope(function, a, d, t)
    excess = displaced(along(r), bend(function, a, d, t), 1)
    if len(moving) == 1 and eqn.primitive.name in ELEMENTWISE:
        far = _far(moving[0].start, moving[0].end) & _far(ends[0][0], ends[1][0])
        plain = (ends[1][0] - ends[0][0]) / t
        excess = [jnp.where(far, plain - tangent[0], excess[0])]
        slope = [jnp.where(far, plain, slope[0])]
    return _moving(ends, slope, tangent, excess)


def _far(start: jax.Array, end: jax.Array) -> jax.Array:
    """Whether two values are so far apart that their difference keeps its digits."""
    return 8 * jnp.abs(end - start) > jnp.abs(start) + jnp.abs(end)


def _bilinear(eqn: JaxprEqn, values: list, t: Any) -> list:
    """d = d_a b' + a d_b and r = r_a b + a r_b + t d_a d_b."""
    times = lambda a, b: _bind(eqn, [a, b])[0]  # noqa: E731
    (a, b), (a0, b0), (_, b1) = values, _parts(values, "start"), _parts(values, "end")
    start, slope, tangent, excess = times(a0, b0), 0, 0, 0
    if isinstance(a, Moving):
        slope += times(a.slope, b1)
        tangent += times(a.tangent, b0)
        excess += times(a.excess, b0)
    if isinstance(b, Moving):
        slope += times(a0, b.slope)
        tangent += times(a0, b.tangent)
        excess += times(a0, b.excess)
    if isinstance(a, Moving) and isinstance(b, Moving):
        excess += t * times(a.slope, b.slope)
    return [Moving(start, start + t * slope, slope, tangent, excess)]


def _divide(eqn: JaxprEqn, values: list, t: Any) -> list:
    """q = a/b has d = (d_a − q d_b)/b', however far b moves: the shares of a tie jump to 1/2."""
    parts = ("start", "end", "slope", "tangent", "excess")
    (a, b), (_, b1), (da, db), (ja, jb), (ra, rb) = (_parts(values, part) for part in parts)
    ends = _both_ends(eqn, values)
    q, j = ends[0][0], (ja - a / b * jb) / b
    return _moving(ends, [(da - q * db) / b1], [j], [(ra - q * rb - t * j * db) / b1])


def _chosen(ends: tuple[list, list], before: Callable, after: Callable, rise: list, t: Any) -> list:
    """A linear map of the values' parts that is `before` L, `after` L'; `rise` is L' x − L x."""
    slope, excess = after("slope"), after("excess")
    tangent, turned = before("tangent"), after("tangent")
    for i, gap in enumerate(rise):
        jump = jnp.where(gap == 0, 0, gap / t)
        slope[i] += jump
        excess[i] += jump + (turned[i] - tangent[i])
    return _moving(ends, slope, tangent, excess)


def _linear(eqn: JaxprEqn, values: list, t: Any) -> list:
    """Linear in the real values; integers and truth values that move make it another map."""

    def at(side: str) -> Callable:
        choice = [_is_choice(v) for v in values]
        sided = [getattr(v, side) if c else v for v, c in zip(values, choice, strict=True)]
        return lambda part: _bind(eqn, _parts(sided, part))

    if not any(map(floating, eqn.invars)):
        return _step(eqn, values, t)  # a truth value read as a number
    before, after = at("start"), at("end")
    ends = before("start"), after("end")
    if not any(map(_is_choice, values)):
        return _chosen(ends, before, before, [], t)
    pairs = zip(after("start"), ends[0], strict=True)
    rise = [jnp.where(new == old, 0, new - old) for new, old in pairs]  # 0 too for inf and inf
    return _chosen(ends, before, after, rise, t)


def _is_choice(value: Any) -> bool:
    return isinstance(value, Moving) and value.slope is None


def _larger(eqn: JaxprEqn, values: list, t: Any) -> list:
    """max and min of two; equal ones share the derivative, as JAX has it."""
    sign = 1 if eqn.primitive.name == "max" else -1

    def at(gap: jax.Array) -> Callable:
        def pick(part: str) -> list:
            a, b = _parts(values, part)
            return [jnp.where(sign * gap > 0, a, jnp.where(sign * gap < 0, b, (a + b) / 2))]

        return pick

    before, after = map(at, _gap(values, t))
    ends = _both_ends(eqn, values)
    return _chosen(ends, before, after, [after("start")[0] - ends[0][0]], t)


def _largest(eqn: JaxprEqn, values: list, t: Any) -> list:
    """max and min over axes; equal ones share the derivative, as JAX has it."""
    (x,), axes = values, eqn.params["axes"]
    extreme = jnp.max if eqn.primitive.name == "reduce_max" else jnp.min
    gap = x.start - extreme(x.start, axes, keepdims=True)
    gap_after = gap + t * x.slope

    def mean(of: jax.Array, gap: jax.Array) -> list:
        return [jnp.mean(of, axes, where=gap == extreme(gap, axes, keepdims=True))]

    before, after = (
        functools.partial(lambda gap, part: mean(getattr(x, part), gap), gaps)
        for gaps in (gap, gap_after)
    )
    return _chosen(_both_ends(eqn, values), before, after, mean(gap, gap_after), t)


def _absolute(eqn: JaxprEqn, values: list, t: Any) -> list:
    (x,) = values
    before, after = (
        functools.partial(lambda sign, part: [sign * getattr(x, part)], jnp.sign(side))
        for side in (x.start, x.end)
    )
    return _chosen(
        _both_ends(eqn, values), before, after, [after("start")[0] - jnp.abs(x.start)], t
    )


def _step(eqn: JaxprEqn, values: list, t: Any) -> list:
    """Constant but for jumps."""
    ends = _both_ends(eqn, values)
    rise = [b - a for a, b in zip(*ends, strict=True)]
    flat = lambda _: [jnp.zeros_like(a) for a in rise]  # noqa: E731
    return _chosen(ends, flat, flat, rise, t)


def _stopped(eqn: JaxprEqn, values: list, t: Any) -> list:
    """Moves, but JAX's derivative is told not to see it."""
    (x,) = values
    return [Moving(x.start, x.end, x.slope, jnp.zeros_like(x.slope), x.slope)]


def _expanded(function: Callable) -> Callable:
    """The rule of a primitive that can be written by others."""

    def rule(eqn: JaxprEqn, values: list, t: Any) -> list:
        closed = jax.make_jaxpr(lambda *values: function(eqn, *values))(*_parts(values, "start"))
        return _run(closed.jaxpr, closed.consts, values, t)

    return rule


def _clamped(eqn: JaxprEqn, low: jax.Array, x: jax.Array, high: jax.Array) -> jax.Array:
    return jnp.where(x <= low, low, jnp.where(x >= high, high, x))


def _pooled(eqn: JaxprEqn, x: jax.Array) -> jax.Array:
    """The maximum over windows as a chain of choices: the first of equal ones, as JAX has it."""
    params = eqn.params
    if any(step != 1 for name in params if "dilation" in name for step in params[name]):
        raise NoQuotient(f"the primitive {eqn.primitive.name!r} with dilation")
    x = jax.lax.pad(x, jnp.array(-jnp.inf, x.dtype), [(*ends, 0) for ends in params["padding"]])
    strides = params["window_strides"]
    room = np.subtract(x.shape, params["window_dimensions"])
    views = [
        jax.lax.slice(x, first, first + room // strides * strides + 1, strides)
        for first in map(np.array, np.ndindex(*params["window_dimensions"]))
    ]
    return functools.reduce(lambda a, b: jnp.where(a >= b, a, b), views)


def _pooled_gradient(eqn: JaxprEqn, source: jax.Array, x: jax.Array) -> jax.Array:
    if eqn.params["select_prim"].name != "ge":
        raise NoQuotient("the gradient of a minimum over windows")
    return jax.vjp(functools.partial(_pooled, eqn), x)[1](source)[0]


_RULES = {
    **dict.fromkeys(LINEAR, _linear),
    **dict.fromkeys(BILINEAR, _bilinear),
    **dict.fromkeys(("max", "min"), _larger),
    **dict.fromkeys(("reduce_max", "reduce_min"), _largest),
    **dict.fromkeys(("sign", "floor", "ceil", "round"), _step),
    "abs": _absolute,
    "div": _divide,
    "stop_gradient": _stopped,
    "clamp": _expanded(_clamped),
    "reduce_window_max": _expanded(_pooled),
    "select_and_scatter_add": _expanded(_pooled_gradient),
}
