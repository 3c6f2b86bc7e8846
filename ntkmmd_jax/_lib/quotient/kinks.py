"""Which networks have kinks: read from the jaxpr, whatever function it is.

Along θ0 + s t v a network without kinks is smooth in s, and a quadrature rule integrates its
derivative. Across a kink (relu, max pooling, a `where` on what moves) it does not: `quotient.py`
then takes differences primitive by primitive, by the four kinds of them that stand here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, JaxprEqn


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


class Path(enum.IntEnum):
    """How a value follows the parameters."""

    STILL = 0
    SMOOTH = 1  # of truth values and integers: moves, but nothing real has been made of it
    KINKED = 2


def has_kinks(function: Callable, at: Any) -> bool:
    """Whether a function of a pytree may fail to be smooth: a primitive on the way is not.

    A primitive that is not known counts as a kink. What passes `stop_gradient` counts as still:
    the shift by the maximum in a softmax.
    """
    jaxpr = jax.make_jaxpr(function)(at).jaxpr
    return Path.KINKED in _paths(jaxpr, [Path.SMOOTH] * len(jaxpr.invars))


def floating(value: Any) -> bool:
    """Whether a value or variable is of real or complex numbers."""
    dtype = getattr(getattr(value, "aval", value), "dtype", None)
    return jnp.issubdtype(jnp.result_type(value) if dtype is None else dtype, jnp.inexact)


def inner_jaxpr(eqn: JaxprEqn) -> tuple[Jaxpr, list]:
    """The jaxpr that a call stands for, and its constants."""
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr")
    inner = next(eqn.params[name] for name in names if name in eqn.params)
    return (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, [])


def is_smooth(eqn: JaxprEqn) -> bool:
    """Whether an equation is a smooth function of all that it is given."""
    name = eqn.primitive.name
    if name == "custom_jvp_call":
        return inner_jaxpr(eqn)[0].debug_info.func_name in SMOOTH_CALLS
    if name == "scan":
        jaxpr, _ = inner_jaxpr(eqn)
        paths = _paths(jaxpr, [Path(int(floating(v))) for v in jaxpr.invars])
        outputs = zip(jaxpr.outvars, paths, strict=True)
        turns = any(path and not floating(v) for v, path in outputs)
        return Path.KINKED not in paths and not turns
    return name in SMOOTH


def _paths(jaxpr: Jaxpr, inputs: list[Path]) -> list[Path]:
    """The paths of a jaxpr's outputs, from those of its inputs."""
    from jax.extend.core import Literal  # here: with it comes all of Pallas

    paths: dict[Any, Path] = dict(zip(jaxpr.invars, inputs, strict=True))

    def read(variable: Any) -> Path:
        still = isinstance(variable, Literal) or variable not in paths
        return Path.STILL if still else paths[variable]

    for eqn in jaxpr.eqns:
        name, given = eqn.primitive.name, [read(v) for v in eqn.invars]
        out = [max(given, default=Path.STILL)] * len(eqn.outvars)
        if name == "stop_gradient":
            out = [Path.STILL]
        elif Path.SMOOTH in given or Path.KINKED in given:
            if name in CALLS and not is_smooth(eqn):
                out = _paths(inner_jaxpr(eqn)[0], given)
            elif any(map(floating, eqn.outvars)):
                moving = [v for v, path in zip(eqn.invars, given, strict=True) if path]
                known = name in LINEAR or name in BILINEAR or is_smooth(eqn)
                if not (known and all(map(floating, moving))):
                    out = [Path.KINKED] * len(eqn.outvars)
        paths.update(zip(eqn.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]
