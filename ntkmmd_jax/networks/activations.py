"""Activations of our networks: by name or any function, on each unit alone."""

import functools
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import jax.scipy.special

Activation = str | Callable[[jax.Array], jax.Array]


def activation_fn(activation: Activation) -> Callable[[jax.Array], jax.Array]:
    """The function of a name in `jax.nn` (softplus, relu, …), `erf` or `sin`; or a callable."""
    if callable(activation):
        return activation
    extra = {"erf": jax.scipy.special.erf, "sin": jnp.sin, "softplus": softplus}
    function: Any = extra.get(activation) or getattr(jax.nn, str(activation), None)
    if callable(function):
        return cast(Callable[[jax.Array], jax.Array], function)
    raise ValueError(f"unknown activation {activation!r}; use a name in jax.nn or a callable")


# Known to act on each unit alone. To try them takes a backend, which no import must start.
_ALONE = ("softplus", "relu", "tanh", "sigmoid", "gelu", "silu", "elu", "erf", "sin")


@functools.cache
def check_activation(activation: Activation) -> None:
    """Refuse an activation that does not act on each unit alone, such as softmax."""
    if activation in _ALONE:
        return
    sigma = activation_fn(activation)
    with jax.ensure_compile_time_eval():
        u = jnp.asarray([[-1.3, 0.4, 2.1]])
        try:
            whole = sigma(u)
            alone = jnp.concatenate([sigma(u[:, i : i + 1]) for i in range(3)], axis=1)
            same = whole.shape == u.shape and bool(jnp.allclose(whole, alone, rtol=1e-3, atol=1e-6))
        except (TypeError, ValueError) as error:
            raise ValueError(f"activation {activation!r} fails on an array: {error}") from error
    if not same:
        raise ValueError(
            f"activation {activation!r} mixes the units of a layer: use one that acts on each alone"
        )


@jax.custom_jvp
def softplus(u: jax.Array) -> jax.Array:
    """log(1 + exp(u)), with the logistic function for its derivative; JAX's costs three times that.

    Training and the exact witness need only the derivative.
    """
    return jax.nn.softplus(u)


softplus.defjvps(lambda tangent, _, u: jax.nn.sigmoid(u) * tangent)
