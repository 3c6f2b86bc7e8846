"""How well a reference knows the mean of T, by the influence of its frames on it.

A test that learned beforehand has T on a scale that other frames gave it, and not on that of the
frames it is held against. Of windows of w of n frames, each against r of the others, the mean of T
moves with the share of the windows that a frame j is in; with that of the references too, where it
counts w/r as much. So

    Var(mean of T) = Σ_j I_j² / n²,   I_j = w (1 + w/r) (E[T | j in the window] − E[T | j not]),

where j stands for cells as long as frames remember, and the difference for a slope on how many
frames of a cell there are. What chance adds to the squares of slopes over so many windows is known,
and subtracted.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.padding import number

_CELLS = 1024  # at most, of as many frames each as it takes


def spread_of_mean(
    values: jax.Array, windows: jax.Array, n: Any, block: jax.Array, other: int
) -> jax.Array:
    """The standard deviation that the mean of T has between references like this one.

    Args:
        values: T of windows, (draws,).
        windows: Which frames they have, (draws, w).
        n: Frames of the reference.
        block: As many of them remember each other.
        other: r, the frames that each is held against.
    """
    draws, small = windows.shape
    length = jnp.maximum(block, -(-n // _CELLS))
    at = jnp.arange(draws)[:, None], windows // length
    counts = jnp.zeros((draws, _CELLS), values.dtype).at[at].add(1)
    counts, values = counts - counts.mean(0), values - values.mean()
    variances = jnp.mean(counts**2, axis=0)
    seen = variances > 0
    variances = jnp.where(seen, variances, 1)
    slopes = values @ counts / (draws * variances)
    chance = jnp.mean(values**2) / (draws * variances)
    squares = jnp.sum(jnp.where(seen, slopes**2 - chance, 0))
    share = small * (1 + small / other) * number(length) / number(n)
    return share * jnp.sqrt(jnp.maximum(squares, 0))
