"""Differences carried through a function like tangents, one primitive after the other.

Every value on the way is known at both ends of the line, a and a', by its slope d = (a' − a)/t, its
tangent j at the start and its excess r = d − j. Sums pass all of them on; a product has
d = d_a b' + a d_b; a smooth function averages its derivatives over its own segment; and what
chooses (max, `where`, an index) is in `choices`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.quotient import choices
from ntkmmd_jax._lib.quotient.kinks import (
    BILINEAR,
    CALLS,
    ELEMENTWISE,
    floating,
    inner_jaxpr,
    is_smooth,
)
from ntkmmd_jax._lib.quotient.moving import Moving, NoQuotient, bind, both_ends, gaps, moved, parts
from ntkmmd_jax._lib.quotient.quadrature import bend, displaced, mean_slope

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, JaxprEqn

_NODES = 5  # a step of one primitive: cheap beside a pass through the whole network


def carried(function: Callable, at: Any, direction: Any, time: Any, part: str) -> Any:
    """One part of the outputs of a function from `at` to `at` + t v, as a pytree like them."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(at)
    leaves = zip(jax.tree.leaves(at), jax.tree.leaves(direction), strict=True)
    inputs = [Moving(a, a + time * v, v, v, jnp.zeros_like(v)) for a, v in leaves]
    outputs = _run(closed.jaxpr, closed.consts, inputs, time)
    return jax.tree.unflatten(jax.tree.structure(shape), parts(outputs, part))


def _run(jaxpr: Jaxpr, consts: list, inputs: list, t: Any) -> list:
    """Evaluate a jaxpr on values that move and values that do not."""
    from jax.extend.core import Literal  # here: with it comes all of Pallas

    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for eqn in jaxpr.eqns:
        values = [read(v) for v in eqn.invars]
        moves = any(isinstance(value, Moving) for value in values)
        outputs = _rule(eqn)(eqn, values, t) if moves else bind(eqn, values)
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


def _ends(eqn: JaxprEqn, values: list, t: Any) -> list:
    """Comparisons and whatever else gives no real number."""
    start, end = both_ends(eqn, values)
    if eqn.primitive.name in ("gt", "ge", "lt", "le") and floating(eqn.invars[0]):
        end = bind(eqn, [gaps(values, t)[1], jnp.zeros_like(parts(values, "start")[0])])
    return [Moving(*both) for both in zip(start, end, strict=True)]


def _call(eqn: JaxprEqn, values: list, t: Any) -> list:
    """A function within the function, by its own jaxpr."""
    jaxpr, consts = inner_jaxpr(eqn)
    outputs = _run(jaxpr, consts, values, t)
    if eqn.primitive.name == "custom_jvp_call":  # at a tie its own derivative counts: relu's is 0
        function, moving = _of_moving(eqn, values)
        own = jax.jvp(function, (parts(moving, "start"),), (parts(moving, "tangent"),))[1]
        for i, out in enumerate(outputs):
            if isinstance(out, Moving) and out.slope is not None:
                excess = out.excess + (out.tangent - own[i])
                outputs[i] = dataclasses.replace(out, tangent=own[i], excess=excess)
    return outputs


def _of_moving(eqn: JaxprEqn, values: list) -> tuple[Callable, list]:
    """A primitive as a function of its real values that move, and these."""
    places = [i for i, v in enumerate(values) if isinstance(v, Moving) and v.slope is not None]
    still = parts(values, "start")

    def function(given: list) -> list:
        put = dict(zip(places, given, strict=True))
        return bind(eqn, [put.get(i, v) for i, v in enumerate(still)])

    return function, [values[i] for i in places]


def _written(function: Callable) -> Callable:
    """The rule of a primitive that can be written by others."""

    def rule(eqn: JaxprEqn, values: list, t: Any) -> list:
        closed = jax.make_jaxpr(lambda *values: function(eqn, *values))(*parts(values, "start"))
        return _run(closed.jaxpr, closed.consts, values, t)

    return rule


def _smooth(eqn: JaxprEqn, values: list, t: Any) -> list:
    """d = ∫ ∂_d f(a + s t d) ds and r = ∂_r f(a) + t ∫ (1 − s) ∂²_d f(a + s t d) ds.

    Between values far apart the plain difference is exact, and the nodes are too few.
    """
    function, moving = _of_moving(eqn, values)
    a, d, j, r = (parts(moving, part) for part in ("start", "slope", "tangent", "excess"))
    along = lambda direction: jax.jvp(function, (a,), (direction,))[1]  # noqa: E731
    ends, tangent = both_ends(eqn, values), along(j)
    slope = mean_slope(function, a, d, t, _NODES)
    excess = displaced(along(r), bend(function, a, d, t, _NODES), 1)
    if len(moving) == 1 and eqn.primitive.name in ELEMENTWISE:
        far = _far(moving[0].start, moving[0].end) & _far(ends[0][0], ends[1][0])
        plain = (ends[1][0] - ends[0][0]) / t
        excess = [jnp.where(far, plain - tangent[0], excess[0])]
        slope = [jnp.where(far, plain, slope[0])]
    return moved(ends, slope, tangent, excess)


def _far(start: jax.Array, end: jax.Array) -> jax.Array:
    """Whether two values are so far apart that their difference keeps its digits."""
    return 8 * jnp.abs(end - start) > jnp.abs(start) + jnp.abs(end)


def _bilinear(eqn: JaxprEqn, values: list, t: Any) -> list:
    """d = d_a b' + a d_b and r = r_a b + a r_b + t d_a d_b."""
    times = lambda a, b: bind(eqn, [a, b])[0]  # noqa: E731
    (a, b), (a0, b0), (_, b1) = values, parts(values, "start"), parts(values, "end")
    start = times(a0, b0)
    slope = tangent = excess = jnp.zeros_like(start)
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
    (a, b), (_, b1) = parts(values, "start"), parts(values, "end")
    (da, db), (ja, jb), (ra, rb) = (parts(values, p) for p in ("slope", "tangent", "excess"))
    ends = both_ends(eqn, values)
    q, j = ends[0][0], (ja - a / b * jb) / b
    return moved(ends, [(da - q * db) / b1], [j], [(ra - q * rb - t * j * db) / b1])


_RULES = {
    **choices.RULES,
    **{name: _written(function) for name, function in choices.WRITTEN.items()},
    **dict.fromkeys(BILINEAR, _bilinear),
    "div": _divide,
}
