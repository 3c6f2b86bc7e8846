"""Ranks of coordinates: u = (rank − ½) / n, and the normal scores Φ⁻¹(u); ties at their middle.

They know neither units nor heavy tails, and are symmetric in the points without any rounding: the
rank of a point does not depend on the order in which the points stand.
"""

import numpy as np
from jax.scipy.special import ndtri


def ranks(values: np.ndarray) -> np.ndarray:
    """u of every entry in its column (n, d), in (0, 1)."""
    found = np.empty(values.shape, np.float32)
    for i, column in enumerate(values.T):
        ordered = np.sort(column)
        below, up_to = (np.searchsorted(ordered, column, side) for side in ("left", "right"))
        found[:, i] = (below + up_to) / (2 * len(values))
    return found


def scores_of(u: np.ndarray) -> np.ndarray:
    """Φ⁻¹(u) of ranks."""
    return np.asarray(ndtri(u))


def normal_scores(values: np.ndarray) -> np.ndarray:
    """The normal quantile of the rank of every entry in its column (n, d)."""
    return scores_of(ranks(values))
