"""The signed measure p̂ − q̂: points z_i with weights +1/n_X on x and −1/n_Y on y.

Unequal sizes, minibatches, permuted labels, "only the first k samples" and padding (weight 0)
are all just other weights on static shapes, so everything vmaps.

The statistics are integrals against it, from scores and from the kernel matrix:

    T̂_NTK = Σ_ij w_i K(z_i, z_j) w_j = Σ_i w_i g(z_i)       one measure (biased; or unbiased)
    T̂_a   = Σ_ij w'_i K(z'_i, z_j) w_j = Σ_i w'_i g(z'_i)   test measure w', training measure w
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.padding import cleared, number
from ntkmmd_jax._lib.precision import pinned
from ntkmmd_jax._lib.records import record
from ntkmmd_jax._lib.tiles import tiled


@record
class SignedMeasure:
    """Points with signed weights; `Σ w_i f(z_i)` is the integral of f against p̂ − q̂.

    Example:
        >>> SignedMeasure(jnp.ones((3, 2)), jnp.array([0.5, 0.5, -1.0]))
        SignedMeasure(points=float32[3,2], weights=float32[3])
    """

    points: jax.Array  # (n, ...)
    weights: jax.Array  # (n,)

    def batched(self, size: int) -> "SignedMeasure":
        """Cut into batches of `size`: points (k, size, ...), the last one padded at weight 0."""
        return SignedMeasure(tiled(self.points, size), tiled(self.weights, size, fill=0))


@record
class Visits:
    """Which points of a measure the steps of SGD visit, and at which weights."""

    indices: jax.Array  # (steps, batch) int; within a step of a scan, (batch,)
    weights: jax.Array  # likewise

    def of(self, points: jax.Array) -> SignedMeasure:
        """The points that are visited, with their weights."""
        return SignedMeasure(points[self.indices], self.weights)

    def batched(self, size: int) -> "Visits":
        """Cut into batches of `size`, the last one filled up at weight 0."""
        return Visits(tiled(self.indices, size), tiled(self.weights, size, fill=0))

    def grouped(self, steps: int) -> "Visits":
        """So many steps as one, (k, steps · batch), the first one filled up at weight 0."""
        missing = -len(self.weights) % steps
        filled = jax.tree.map(lambda leaf: jnp.pad(leaf, ((missing, 0), (0, 0))), self)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, steps * leaf.shape[1]), filled)


def label_weights(labels: jax.Array, n_x: Any, n_y: Any) -> jax.Array:
    """Weights of points labelled True for x and False for y: +1/n_X and −1/n_Y.

    Labels are (..., N); beyond the n_X + n_Y points that there are, weights are 0.
    """
    weights = jnp.where(labels, 1.0 / number(n_x), -1.0 / number(n_y))
    return cleared(weights, n_x + n_y, axis=labels.ndim - 1)


def signed_measure(x: jax.Array, y: jax.Array) -> SignedMeasure:
    """The measure p̂ − q̂ of two samples, x first.

    Args:
        x: Sample of p, shape (n_X, ...).
        y: Sample of q, shape (n_Y, ...).

    Example:
        >>> signed_measure(jnp.ones((2, 3)), jnp.zeros((1, 3))).weights.tolist()
        [0.5, 0.5, -1.0]
    """
    n_x, n_y = len(x), len(y)
    labels = jnp.arange(n_x + n_y) < n_x
    return SignedMeasure(jnp.concatenate([x, y]), label_weights(labels, n_x, n_y).astype(x.dtype))


def interleaved(n_x: int, n_y: int) -> np.ndarray:
    """An order in which x and y alternate in proportion, each in the order it came."""
    position = np.concatenate([(np.arange(n) + 0.5) / n for n in (n_x, n_y)])
    return np.argsort(position, kind="stable")


def split_sizes(n_x: int, n_y: int, fraction: float | tuple[float, float]) -> tuple[int, int]:
    """How many of x and of y to train on, at least one of each on either side."""
    fractions = fraction if isinstance(fraction, tuple) else (fraction, fraction)
    if not all(0 < f < 1 for f in fractions):
        raise ValueError(f"train_fraction must lie in (0, 1); got {fraction}")
    if min(n_x, n_y) < 2:
        raise ValueError(
            f"too few samples to split into training and test: n_x = {n_x}, n_y = {n_y}; "
            "each sample needs at least 2"
        )
    sizes = [min(max(round(f * n), 1), n - 1) for f, n in zip(fractions, (n_x, n_y), strict=True)]
    return sizes[0], sizes[1]


def held_out(n_x: int, n_y: int, fraction: float | tuple[float, float]) -> tuple[int, int]:
    """How many of x and of y a split leaves for the test."""
    m_x, m_y = split_sizes(n_x, n_y, fraction)
    return n_x - m_x, n_y - m_y


def split(
    key: jax.Array, x: jax.Array, y: jax.Array, fraction: float | tuple[float, float]
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    """Split each sample at random into training and test: ((x₁, y₁), (x₂, y₂))."""
    m_x, m_y = split_sizes(len(x), len(y), fraction)
    order_x, order_y = random_orders(key, len(x), len(y))
    x, y = x[order_x], y[order_y]
    return (x[:m_x], y[:m_y]), (x[m_x:], y[m_y:])


def random_orders(key: jax.Array, *sizes: int) -> list[jax.Array]:
    """Independent, uniformly random orders of sets of the given sizes, from one draw of bits.

    One draw, because every use of the generator costs a third of a second to compile.
    """
    bits = jax.random.bits(key, (sum(sizes),))
    return [jnp.argsort(part) for part in jnp.split(bits, np.cumsum(sizes)[:-1])]


@pinned
def mean_gap(scores: jax.Array, weights: jax.Array) -> jax.Array:
    """Σ w_i g(z_i): the mean score on x minus that on y. T̂_net and T̂_a,net if g is trained."""
    return jnp.vdot(weights, scores)


def mmd2(kernel: jax.Array, weights: jax.Array) -> jax.Array:
    """wᵀ K w, the biased squared MMD, for weights (n,) or a batch of them (b, n)."""
    return asymmetric_mmd2(kernel, weights, weights)


@pinned
def asymmetric_mmd2(kernel: jax.Array, test: jax.Array, train: jax.Array) -> jax.Array:
    """w'ᵀ K w of test weights (…, n') and training weights (…, n) with K (n', n)."""
    return jnp.sum((test @ kernel) * train, axis=-1)


@pinned
def unbiased_mmd2(kernel: jax.Array, labels: jax.Array, n: Any = None) -> jax.Array:
    """The unbiased squared MMD: without the diagonal, normalised by 1/n(n−1).

    Args:
        kernel: K of the pooled sample, shape (n, n); 0 where there is padding.
        labels: True on x and False on y, shape (..., n).
        n: How many points are real; all, by default.
    """
    x = labels.astype(kernel.dtype)
    y = cleared(1 - x, len(kernel) if n is None else n, axis=labels.ndim - 1)
    n_x, n_y = x.sum(-1), y.sum(-1)
    diagonal, columns = jnp.diagonal(kernel), kernel.sum(0)
    xx = asymmetric_mmd2(kernel, x, x)
    xy = x @ columns - xx
    yy = columns.sum() - xx - 2 * xy
    return (
        (xx - x @ diagonal) / (n_x * (n_x - 1))
        + (yy - y @ diagonal) / (n_y * (n_y - 1))
        - 2 * xy / (n_x * n_y)
    )
