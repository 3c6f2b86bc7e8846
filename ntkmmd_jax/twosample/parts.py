"""T of many pairs of samples, without a pass over the points of both for every pair.

A chart holds one reference against many windows, and finds its threshold from many pairs out of the
same frames. Where T is a function of v_x − v_y, what every sample has by itself, or of weights and
a table of fixed points, a test says so here; any other is asked for its `statistic` each time.
"""

from typing import Any

import jax

Prepared = Any  # what a test fixes without a look at labels, a pytree: θ0, bandwidths, or None


class OfParts:
    """What a test may know of T beside its value for two samples: nothing, unless it says so."""

    def tabled(self, prepared: Prepared, points: jax.Array) -> Any:
        """T of any weights of fixed points, a function (weights, n_X, n_Y), or None."""
        del prepared, points

    def moved(self, prepared: Prepared, sample: jax.Array) -> Any:
        """What a sample adds to T, whatever the other, for `apart`; or None."""
        del prepared, sample

    def apart(self, prepared: Prepared, x: Any, y: Any, n_x: Any, n_y: Any) -> jax.Array:
        """T of two samples of n_X and n_Y points, from what they `moved`."""
        raise NotImplementedError
