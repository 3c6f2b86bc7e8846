"""Which networks have kinks: read from the jaxpr, whatever function it is.

Along θ0 + s t v a network without kinks is smooth in s, and a quadrature rule integrates its
derivative. Across a kink (relu, max pooling, a `where` on what moves) it does not: `quotient.py`
then takes differences primitive by primitive, by the four kinds of them that stand here.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Linear in their floating operands together; integers and truth values say which map it is.
LINEAR = _names(
    "add add_any sub neg reshape transpose broadcast_in_dim squeeze expand_dims reduce_sum slice "
    "dynamic_slice dynamic_update_slice pad concatenate split gather scatter scatter-add select_n "
    "convert_element_type copy copy_p rev cumsum reduce_window_sum real imag conj complex "
    "reduce_precision sharding_constraint optimization_barrier pvary"
)
BILINEAR = _names("mul dot_general conv_general_dilated")
ELEMENTWISE = _names(
    "exp exp2 log log1p expm1 tanh logistic sin cos tan asin acos atan sinh cosh asinh acosh atanh "
    "erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e sqrt rsqrt cbrt integer_pow square "
    "custom_jvp_call"  # the smooth ones, see below
)
SMOOTH = ELEMENTWISE | _names(
    "div atan2 pow polygamma igamma igammac reduce_prod cumprod cumlogsumexp fft cholesky "
    "triangular_solve"
)
CALLS = _names(
    "jit pjit closed_call core_call checkpoint remat remat2 custom_jvp_call custom_vjp_call "
    "custom_vjp_call_jaxpr"
)
# Functions with a derivative of their own that are smooth, though a max or abs stands inside.
SMOOTH_CALLS = _names("softplus logaddexp logaddexp2")


def has_kinks(function: Callable, at: Any) -> bool:
    """Whether a function of a pytree may fail to be smooth: a primitive on the way is not.

    A primitive that is not known counts as a kink. What passes `stop_gradient` counts as still:
    the shift by the maximum in a softmax.
    """
    jaxpr = jax.make_jaxpr(function)(at).jaxpr
    return _moving_outputs(jaxpr, [True] * len(jaxpr.invars)) is None


def floating(value: Any) -> bool:
    """Whether a value or variable is of real or complex numbers."""
    dtype = getattr(getattr(value, "aval", value), "dtype", None)
    return jnp.issubdtype(jnp.result_type(value) if dtype is None else dtype, jnp.inexact)


def inner_jaxpr(eqn: JaxprEqn) -> tuple[Jaxpr, list]:
    """The jaxpr that a call stands for, and its constants."""
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr", eqn.params.get("fun_jaxpr")))
    return (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, [])


def is_smooth(eqn: JaxprEqn) -> bool:
    """Whether an equation is a smooth function of all that it is given."""
    name = eqn.primitive.name
    if name == "custom_jvp_call":
        return inner_jaxpr(eqn)[0].debug_info.func_name in SMOOTH_CALLS
    if name == "scan":
        jaxpr, _ = inner_jaxpr(eqn)
        moves = _moving_outputs(jaxpr, [floating(v) for v in jaxpr.invars])
        return moves is not None and all(
            floating(v) for v, moved in zip(jaxpr.outvars, moves, strict=True) if moved
        )
    return name in SMOOTH


def _moving_outputs(jaxpr: Jaxpr, moving: list[bool]) -> list[bool] | None:
    """Which outputs of a jaxpr move with these inputs; None if there is a kink on the way."""
    moves = dict(zip(jaxpr.invars, moving, strict=True))

    def read(variable: Any) -> bool:
        return not isinstance(variable, Literal) and moves.get(variable, False)

    for eqn in jaxpr.eqns:
        carried = [read(v) for v in eqn.invars]
        name, outputs = eqn.primitive.name, [True] * len(eqn.outvars)
        if not any(carried) or name == "stop_gradient":
            outputs = [False] * len(eqn.outvars)
        elif name in CALLS and not is_smooth(eqn):
            outputs = _moving_outputs(inner_jaxpr(eqn)[0], carried)
        elif any(map(floating, eqn.outvars)):
            moving = [v for v, moved in zip(eqn.invars, carried, strict=True) if moved]
            steps = not all(map(floating, moving))
            if steps or not (name in LINEAR or name in BILINEAR or is_smooth(eqn)):
                return None
        if outputs is None:
            return None
        moves.update(zip(eqn.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]
