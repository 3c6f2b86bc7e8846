"""The payoff of a block: one point of a sample against c of the other. A pair has c = 1.

A witness g of everything before gives the block the gap s_i = ± (g(z_i) − mean of the other c) if
z_i were the one that stands alone (+ if that is an x), i = 0 to c. With a scale ŝ the payoff is

    F = exp(s_0 / ŝ) / mean_i exp(s_i / ŝ) − 1,   of a pair  F = tanh(s_0 / ŝ).

**Proof that F is fair.** Under H0 the c + 1 points of a block are exchangeable, given all blocks
before it. g, ŝ and the fraction λ come from those alone. So given the *set* of points in the block
each of them is equally likely to be the one that stands alone, and the mean of F over these c + 1
cases is 0. Hence E[1 + λF | before] = 1 and W_t = Π (1 + λ_t F_t), of factors ≥ 1 − λ > 0, is a
martingale with mean 1, as is the mean of several, and P(sup W ≥ 1/α) ≤ α (Ville 1939). It may even
depend on the sets of points of all blocks, those to come included, as long as it does not see which
one stands alone: so standardising may look at pooled points.

Rounding must not see it either, or ties would be told apart by where they stand: the one that
stands alone takes a random `place` in its block.
"""

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record


@record
class Block:
    """One point of a sample and c of the other; those beyond `size` are padding."""

    points: jax.Array  # (c + 1, ...)
    place: jax.Array  # () where the one that stands alone is, from 0 to size
    sign: jax.Array  # () +1 if that is an x, −1 if it is a y
    size: jax.Array  # () how many others there are, at least 1

    @property
    def present(self) -> jax.Array:
        """Which points are no padding, (c + 1,) bool."""
        return jnp.arange(len(self.points)) <= self.size

    @property
    def weights(self) -> jax.Array:
        """± 1 of the one, ∓ 1/size of the others, 0 of padding: a signed measure, (c + 1,)."""
        alone = jnp.arange(len(self.points)) == self.place
        others = jnp.where(self.present, -1 / self.size.astype(self.sign.dtype), 0)
        return self.sign * jnp.where(alone, 1.0, others)


def placed(points: jax.Array, place: jax.Array) -> jax.Array:
    """Points (c + 1, ...), of which the first stands alone, with that one at its place."""
    index = jnp.arange(len(points))
    return points[jnp.where(index == place, 0, jnp.where(index == 0, place, index))]


def gaps(block: Block, scores: jax.Array) -> jax.Array:
    """s_i of scores (k, c + 1), of the same shape; 0 of padding."""
    size, present = block.size.astype(scores.dtype), block.present
    mean = jnp.sum(jnp.where(present, scores, 0), axis=1, keepdims=True) / (size + 1)
    return jnp.where(present, block.sign * (1 + 1 / size) * (scores - mean), 0)


def payoff(block: Block, gaps: jax.Array, scale: jax.Array) -> jax.Array:
    """F of every witness, shape (k,); 0 where there is no scale yet."""
    known = scale != 0  # and one that is not a number is not passed over
    exponents = gaps / jnp.where(known, scale, 1)[:, None]
    shares = jax.nn.softmax(jnp.where(block.present, exponents, -jnp.inf), axis=1)
    fair = (block.size + 1).astype(gaps.dtype) * shares[:, block.place] - 1
    return jnp.where(known, fair, 0)


def mean_square(block: Block, gaps: jax.Array) -> jax.Array:
    """The mean of s_i² over the block, shape (k,): the same whichever point stands alone."""
    return jnp.sum(gaps**2, axis=1) / (block.size + 1).astype(gaps.dtype)
