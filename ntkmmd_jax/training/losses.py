"""Losses of a witness h on a signed measure, by name: Σ_i |w_i| ℓ(h(z_i), sign w_i).

    linear     ℓ = −s h              the paper's: its gradient at θ0 is the exact witness
    l2         ℓ = ½ (h − s)²        least squares
    logistic   ℓ = log(1 + e^{−s h})

with s = +1 on x and −1 on y. At h = 0 the gradient of the first two is −w, of the third −w/2.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Loss = Callable[[jax.Array, jax.Array], jax.Array]  # h(z_i) and w_i, both (n,), to a number


def linear(h: jax.Array, weights: jax.Array) -> jax.Array:
    """−Σ w_i h(z_i)."""
    return -jnp.vdot(weights, h)


def l2(h: jax.Array, weights: jax.Array) -> jax.Array:
    """½ Σ |w_i| (h(z_i) − s_i)²."""
    return 0.5 * jnp.vdot(jnp.abs(weights), (h - jnp.sign(weights)) ** 2)


def logistic(h: jax.Array, weights: jax.Array) -> jax.Array:
    """Σ |w_i| log(1 + exp(−s_i h(z_i)))."""
    return jnp.vdot(jnp.abs(weights), jax.nn.softplus(-jnp.sign(weights) * h))


LOSSES: dict[str, Loss] = {"linear": linear, "l2": l2, "logistic": logistic}


def named_loss(name: str) -> Loss:
    """The loss of a name."""
    if name not in LOSSES:
        raise ValueError(f"unknown loss {name!r}; use one of {tuple(LOSSES)}")
    return LOSSES[name]
