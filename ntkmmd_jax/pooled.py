"""Two samples in one array: sizes are data, shapes are buckets.

    points = x_1, …, x_{n_X}, y_1, …, y_{n_Y}, padding,   (N, ...)

with n_X and n_Y traced: samples of many sizes share one compiled program. Padding has weight 0 in
every measure and every labelling, and no place among the points that are relabelled, so that the
test is that of the n_X + n_Y points: with the same key, the same split, the same labellings and,
but for rounding, the same statistics. Rounding knows no labels here either (see `calibration`):
what stands in the padding of placed points is a copy of the last of them.

Where sizes are Python ints, nothing is padded or masked.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.measure import SignedMeasure, interleaved, label_weights, split_sizes


@record
class Pooled:
    """n_X points of x, n_Y of y, and padding."""

    points: jax.Array  # (N, ...)
    n_x: Any  # () int
    n_y: Any  # () int
    within: Any = None  # `calibration.Exchangeable`, where not all labels may change places

    @property
    def n(self) -> Any:
        """Points that are real."""
        return self.n_x + self.n_y

    @property
    def is_plain(self) -> bool:
        """Whether there is no padding, and all labels may change places."""
        return self.within is None and padding.is_full(len(self.points), self.n)

    @property
    def measure(self) -> SignedMeasure:
        """p̂ − q̂."""
        labels = jnp.arange(len(self.points)) < self.n_x
        weights = label_weights(labels, self.n_x, self.n_y)
        return SignedMeasure(self.points, weights.astype(self.points.dtype))

    @property
    def means(self) -> tuple[jax.Array, jax.Array]:
        """x̄ and ȳ."""
        if padding.is_full(len(self.points), self.n):
            return self.points[: self.n_x].mean(0), self.points[self.n_x :].mean(0)
        x = padding.cleared(self.points, self.n_x)
        y = padding.cleared(self.points - x, self.n)
        return x.sum(0) / padding.number(self.n_x), y.sum(0) / padding.number(self.n_y)

    @property
    def residuals(self) -> jax.Array:
        """Every point without the mean of its own sample, (N, ...); 0 in the padding."""
        x, y = self.means
        labels = jnp.arange(len(self.points)) < self.n_x
        labels = jnp.expand_dims(labels, range(1, self.points.ndim))
        return padding.cleared(self.points - jnp.where(labels, x, y), self.n)

    @property
    def in_turn(self) -> jax.Array:
        """The order in which x and y alternate in proportion, as `interleaved` has it, (N,)."""
        n_x, n_y, places = self.n_x, self.n_y, jnp.arange(len(self.points))
        if padding.is_full(len(places), self.n):
            return jnp.asarray(interleaved(n_x, n_y))
        # (i + ½) / n of each, over a common denominator.
        x, y = (2 * places + 1) * n_y, (2 * (places - n_x) + 1) * n_x
        last = jnp.iinfo(places.dtype).max
        return jnp.argsort(jnp.where(places < n_x, x, jnp.where(places < self.n, y, last)))

    def first(self, most: int) -> "Pooled":
        """The first points of each sample, up to so many."""
        k_x, k_y = (padding.at_most(n, most) for n in (self.n_x, self.n_y))
        full = padding.is_full(len(self.points), self.n)
        room = k_x + k_y if full else min(2 * most, len(self.points))
        return Pooled(self.points[_chosen(self.n_x, 0, k_x, 0, k_y, room)], k_x, k_y)

    @property
    def both(self) -> tuple[jax.Array, jax.Array]:
        """x and y, of known sizes."""
        if not padding.is_full(len(self.points), self.n):
            raise TypeError(f"x and y are not apart in a bucket of {len(self.points)} places")
        return self.points[: self.n_x], self.points[self.n_x :]


def pooled(samples: Any) -> Pooled:
    """x and y, as a pair, with what is exchangeable as a triple, or pooled already."""
    if isinstance(samples, Pooled):
        return samples
    x, y, *within = samples
    return Pooled(jnp.concatenate([x, y]), len(x), len(y), *within)


def in_bucket(x: Any, y: Any) -> Pooled:
    """x and y on the host, padded to the size of their bucket with copies of the last point."""
    x, y = np.asarray(x), np.asarray(y)
    n = len(x) + len(y)
    filler = np.broadcast_to(y[-1:], (padding.bucket(n) - n, *y.shape[1:]))
    sizes = (np.asarray(len(sample), jnp.result_type(int)) for sample in (x, y))
    # Put, and no more: `jnp.asarray` would run a program.
    return Pooled(*map(jax.device_put, (np.concatenate([x, y, filler]), *sizes)))


def split_pooled(
    key: jax.Array, samples: Pooled, fraction: float | tuple[float, float]
) -> tuple[Pooled, Pooled]:
    """Split each sample at random into training and test, as `measure.split` does."""
    places = len(samples.points)
    n_x, n_y = samples.n_x, samples.n_y
    m_x, m_y = (_trained(places, fraction, i)[n] for i, n in enumerate((n_x, n_y)))
    order = padding.grouped_order(jax.random.bits(key, (places,)), n_x, n_y)

    def part(first_x: Any, k_x: Any, first_y: Any, k_y: Any, room: int) -> Pooled:
        chosen = _chosen(n_x, first_x, k_x, first_y, k_y, room)
        return Pooled(samples.points[order[chosen]], k_x, k_y)

    fractions = fraction if isinstance(fraction, tuple) else (fraction, fraction)
    room = min(places, int(max(fractions) * places) + 2)
    rest = min(places, int((1 - min(fractions)) * places) + 2)
    return part(0, m_x, 0, m_y, room), part(m_x, n_x - m_x, m_y, n_y - m_y, rest)


def _chosen(n_x: Any, first_x: Any, k_x: Any, first_y: Any, k_y: Any, room: int) -> jax.Array:
    """Where k_X points of x and k_Y of y stand, from the first ones on; the last again and again.

    Shape (room,).
    """
    at = jnp.arange(room)
    chosen = jnp.where(at < k_x, first_x + at, n_x + first_y + at - k_x)
    return padding.filled(chosen, k_x + k_y)


def _trained(places: int, fraction: float | tuple[float, float], which: int) -> jax.Array:
    """How many of n points to train on, as a table over n, which is traced."""
    sizes = [0, 0, *(split_sizes(n, n, fraction)[which] for n in range(2, places + 1))]
    return jnp.asarray(sizes, int)
