"""Bins: placed points cut into s bins of one size, each all x or all y; the rest fills none.

    v_k = Σ_{i in bin k} v(z_i),   v_s = Σ_{i in the rest} ±v(z_i)/n,   T = Σ_kl w_k ⟨v_k, v_l⟩ w_l,

so that with sums over bins for points, every labelling that is constant on bins is a weight per
bin, and the rest, whose labels stay, one more vector of weight 1. Sizes are numbers (`Bins`) or, in
a bucket of points, data (`PaddedBins`): then there is room for more bins, and for longer ones.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.padding import number
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.measure import SignedMeasure


class Cut:
    """What both share: what belongs to bins and rest, from what belongs to points."""

    n_x: Any
    n_y: Any
    size: Any  # points of a bin
    x: Any  # bins of x
    y: Any  # bins of y

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def rest(self) -> Any:
        """The weights of the points in no bin, x first: +1/n_X and −1/n_Y."""
        raise NotImplementedError

    @property
    def masses(self) -> Any:
        """The weights of points, summed over every bin, and over the rest: (s + 1,)."""
        raise NotImplementedError

    def cut(self, placed: jax.Array) -> tuple[SignedMeasure, SignedMeasure]:
        """Placed points (n, ...) as bins (s, size, ...) of weight 1 each, and the rest."""
        raise NotImplementedError

    def spread(self, row: jax.Array, places: int) -> jax.Array:
        """The labels (places,) of points from those of bins (s,)."""
        raise NotImplementedError

    def sums(self, values: jax.Array) -> jax.Array:
        """Sums of placed values (n, ...) over the bins, and the weighted one of the rest: s + 1."""
        binned, rest = self.cut(values)
        shape = (*binned.weights.shape, *[1] * (values.ndim - 1))
        total = (binned.weights.reshape(shape) * binned.points).sum(1)
        return jnp.concatenate([total, jnp.tensordot(rest.weights, rest.points, 1)[None]])

    def centred(self, sums: jax.Array) -> jax.Array:
        """Sums (s + 1, ...) as of values with their mean over the bins taken out.

        The weights of all points add up to 0, so no MMD changes, and less cancels.
        """
        mean = sums[:-1].sum(0) / number((self.x + self.y) * self.size)
        masses = jnp.asarray(self.masses, sums.dtype)
        return sums - masses.reshape(-1, *[1] * mean.ndim) * mean


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Bins(Cut):
    """Bins of known sizes."""

    n_x: int
    n_y: int
    size: int = 1  # points of a bin
    x: int = 0  # bins of x
    y: int = 0  # bins of y

    def __len__(self) -> int:
        return self.x + self.y

    @property
    def rest(self) -> np.ndarray:
        """The weights of the points in no bin, x first: +1/n_X and −1/n_Y."""
        left = [self.n_x - self.x * self.size, self.n_y - self.y * self.size]
        return np.repeat([1 / self.n_x, -1 / self.n_y], left)

    @property
    def masses(self) -> np.ndarray:
        """The size of every bin, and the weights of the rest."""
        return np.asarray([*[self.size] * len(self), self.rest.sum()])

    def cut(self, placed: jax.Array) -> tuple[SignedMeasure, SignedMeasure]:
        """By their places."""
        inside = len(self) * self.size
        binned = placed[:inside].reshape(len(self), self.size, *placed.shape[1:])
        ones = jnp.ones(binned.shape[:2], placed.dtype)
        rest = SignedMeasure(placed[inside:], jnp.asarray(self.rest, placed.dtype))
        return SignedMeasure(binned, ones), rest

    def sums(self, values: jax.Array) -> jax.Array:
        """The same without weights."""
        binned, rest = self.cut(values)
        rest = jnp.tensordot(rest.weights, rest.points, 1)
        return jnp.concatenate([binned.points.sum(1), rest[None]])

    def spread(self, row: jax.Array, places: int) -> jax.Array:
        """A label for every point of a bin."""
        del places
        return jnp.concatenate([jnp.repeat(row, self.size), jnp.asarray(self.rest > 0)])


@record
class PaddedBins(Cut):
    """Bins whose sizes are data; those beyond x + y are empty."""

    n_x: Any  # () int, as are the next four
    n_y: Any
    size: Any
    x: Any
    y: Any
    room: int = static()  # for so many bins
    most: int = static()  # for so many points of each

    def __len__(self) -> int:
        return self.room

    @property
    def inside(self) -> Any:
        """Points in bins."""
        return (self.x + self.y) * self.size

    @property
    def rest(self) -> jax.Array:
        """The weights of the points in no bin, x first, then 0: fewer than a bin of each."""
        left_x, left_y = self.n_x - self.x * self.size, self.n_y - self.y * self.size
        at = jnp.arange(2 * self.most)
        of_y = jnp.where(at < left_x + left_y, -1.0 / number(self.n_y), 0.0)
        return jnp.where(at < left_x, 1.0 / number(self.n_x), of_y)

    @property
    def masses(self) -> jax.Array:
        """The size of every bin, 0 of the empty ones, and the weights of the rest."""
        sizes = jnp.where(jnp.arange(self.room) < self.x + self.y, number(self.size), 0.0)
        return jnp.append(sizes, self.rest.sum())

    def cut(self, placed: jax.Array) -> tuple[SignedMeasure, SignedMeasure]:
        """By their places; what fills up bins has weight 0."""
        bins, points = jnp.arange(self.room)[:, None], jnp.arange(self.most)
        there = (bins < self.x + self.y) & (points < self.size)
        binned = placed[jnp.where(there, bins * self.size + points, 0)]
        last = self.n_x + self.n_y - 1
        rest = placed[jnp.minimum(self.inside + jnp.arange(2 * self.most), last)]
        return (
            SignedMeasure(binned, there.astype(placed.dtype)),
            SignedMeasure(rest, self.rest.astype(placed.dtype)),
        )

    def spread(self, row: jax.Array, places: int) -> jax.Array:
        """A label for every point of a bin, x first of the rest; False in the padding."""
        at = jnp.arange(places)
        rest = at - self.inside < self.n_x - self.x * self.size
        return jnp.where(at < self.inside, row[jnp.minimum(at // self.size, self.room - 1)], rest)


def cut_into_bins(n_x: int, n_y: int, bins: int) -> Bins:
    """About so many bins of equal size, of x and of y as many as their shares of the points.

    The smaller sample has an eighth of them at least, or a bin for each of its points. Where bins
    so small would be more than twice as many, points of the larger sample are left to the rest.
    """
    few = min(n_x, n_y)
    size = max(1, min((n_x + n_y) // bins, few // min(few, -(-bins // 8))))
    x, y = n_x // size, n_y // size
    most = 2 * bins
    return Bins(n_x, n_y, size, min(x, most - min(y, bins)), min(y, most - min(x, bins)))


def cut_in_bucket(n_x: Any, n_y: Any, bins: int, least: int, places: int) -> PaddedBins:
    """The same of traced sizes, n points in all, where neither sample is much the smaller.

    Args:
        n_x: Points of x.
        n_y: Points of y.
        bins: About how many.
        least: The least n of the bucket.
        places: The largest n of the bucket.
    """
    size = jnp.maximum((n_x + n_y) // bins, least // bins)
    # The most bins, of the n just too small for a larger size.
    room = ((least // bins + 1) * bins - 1) // (least // bins)
    about = {"room": room, "most": places // bins}
    return PaddedBins(n_x, n_y, size, n_x // size, n_y // size, **about)
