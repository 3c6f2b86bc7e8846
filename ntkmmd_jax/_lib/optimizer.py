"""A step of an optax optimizer."""

from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    import optax


def updates(optimizer: "optax.GradientTransformation", gradient: Any, state: Any, at: Any) -> tuple:
    """What to add to the parameters, and the next state.

    optax counts its steps in integers and raises floats to them, so strict dtype promotion, which
    a user or our tests may have set, ends here.
    """
    with jax.numpy_dtype_promotion("standard"):
        return optimizer.update(gradient, state, at)
