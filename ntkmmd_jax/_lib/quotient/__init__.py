"""Difference quotients along a straight line, with nothing that cancels, across kinks too.

    q = (f(θ + t v) − f(θ)) / t,   and its remainder   r = q − ∂_v f(θ).

They are carried through the function, one primitive after the other (`differences`). What has a
primitive that does not allow it is taken for an integral of derivatives (`quadrature`), by a rule
of three nodes, which across a kink (`kinks`) is wrong: then there is a warning.
"""

from collections.abc import Callable
from typing import Any

from ntkmmd_jax._lib.quotient import quadrature
from ntkmmd_jax._lib.quotient.differences import NoQuotient, carried
from ntkmmd_jax._lib.quotient.kinks import has_kinks
from ntkmmd_jax._lib.quotient.quadrature import displaced, gauss_legendre
from ntkmmd_jax._lib.telling import warn

__all__ = ["NoQuotient", "displaced", "gauss_legendre", "has_kinks", "quotient", "remainder"]


def quotient(function: Callable, at: Any, direction: Any, time: Any, nodes: int = 3) -> Any:
    """(f(at + t v) − f(at)) / t of a function of a pytree.

    Args:
        function: Takes a pytree, gives a pytree.
        at: Where it starts.
        direction: v, of the same structure.
        time: t, a number or traced.
        nodes: Of the quadrature; 1 stands for t = 0, and there what counts is JAX's derivative, at
            kinks too.
    """
    if nodes > 1:
        try:
            return carried(function, at, direction, time, "slope")
        except NoQuotient as error:
            _warn(error, function, at)
    return quadrature.mean_slope(function, at, direction, time, nodes)


def remainder(function: Callable, at: Any, direction: Any, time: Any) -> Any:
    """(f(at + t v) − f(at)) / t − ∂_v f(at), the derivative being JAX's."""
    try:
        return carried(function, at, direction, time, "excess")
    except NoQuotient as error:
        _warn(error, function, at)
    return quadrature.bend(function, at, direction, time)


def _warn(error: NoQuotient, function: Callable, at: Any) -> None:
    if has_kinks(function, at):
        warn(
            f"the network may have kinks, and the difference quotient cannot pass {error}: three "
            "derivatives are averaged instead, which across a kink is off by some percent",
        )
