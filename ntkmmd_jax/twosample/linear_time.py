"""The linear-time Gaussian MMD (Gretton et al. 2012, section 6)."""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.calibration import NullStatistics
from ntkmmd_jax.kernels import gaussian_profile
from ntkmmd_jax.pooled import pooled
from ntkmmd_jax.twosample.evidence import (
    Averaged,
    Comparable,
    Gap,
    Keys,
    Permutable,
    Permuted,
    Pool,
    Samples,
)
from ntkmmd_jax.twosample.gaussian import GaussianTest

MEDIAN_PAIRS = 500  # pairs (x, y) beyond which the median is that of the first ones
_SHARED_SEED = 20230203  # of the rows that replicas share; validity rests on no seed


@record
class PairEvidence(Permutable, Averaged, Comparable):
    """Random pairs (x, y), two to a block, and the bandwidths (k,) if they are fixed beforehand."""

    test: "LinearTimeMMD"
    bandwidths: jax.Array | None
    pairs: jax.Array  # (2M, 2, ...): x and y
    n: Any  # () int: the pairs that are real, an even number

    @property
    def witness(self) -> None:
        """None: h compares pairs, not points."""
        return None

    @property
    def _m(self) -> Any:
        """How many blocks are real."""
        return self.n // 2

    def _h(self, pairs: jax.Array) -> jax.Array:
        """h of the blocks, shape (M,); 0 in the padding."""
        bandwidths = self.bandwidths
        if bandwidths is None:
            some = pairs[:MEDIAN_PAIRS]
            points = some.reshape(2 * len(some), *pairs.shape[2:])
            bandwidths = self.test.bandwidths(points, 2 * padding.at_most(self.n, len(some)))

        def k(z1: jax.Array, z2: jax.Array) -> jax.Array:
            flat = (z1 - z2).reshape(len(z1), -1)
            return gaussian_profile(jnp.sum(flat**2, axis=1), bandwidths)

        (x1, y1), (x2, y2) = ((of[:, 0], of[:, 1]) for of in (pairs[::2], pairs[1::2]))
        return padding.cleared((k(x1, x2) + k(y1, y2)) - (k(x1, y2) + k(x2, y1)), self._m)

    def _swapped(self, row: jax.Array) -> jax.Array:
        """h after the swaps that a row of signs, given by its bits, undoes."""
        pairs, blocks = self.pairs, len(self.pairs) // 2
        swapped = jnp.zeros(2 * blocks, bool).at[::2].set(signs(row, blocks) < 0)
        swapped = jnp.expand_dims(swapped, range(1, pairs.ndim))
        return self._h(jnp.where(swapped, pairs[:, ::-1], pairs))

    def _bits(self, key: jax.Array, rows: int) -> jax.Array:
        """So many rows of signs, as bits of 32-bit words: the same with more blocks behind."""
        return jax.random.bits(key, (math.ceil(len(self.pairs) // 2 / 32), rows)).T

    def permuted(self, key: jax.Array, pool: Pool) -> Permuted:
        """The mean of h under B + 1 rows of signs."""
        rows, observed = 1 + pool.n_permutations, jnp.zeros((), jnp.int32)
        k_rows = key
        if pool.shared:  # the rows are the same for all replicas: which of them is observed is not
            observed = (jax.random.bits(key) % rows).astype(jnp.int32)
            k_rows = jax.lax.optimization_barrier(jax.random.key(_SHARED_SEED))
        words = self._bits(k_rows, rows)
        h = self._swapped(words[observed])
        if pool.chunk is not None:
            later = self._bits(jax.random.fold_in(key, pool.chunk), rows)
            words = jnp.where(pool.chunk == 0, words, later)
        values = jax.lax.map(lambda row: padding.mean(signs(row, len(h)) * h, self._m), words)
        tolerance = 4 * jnp.finfo(h.dtype).eps * padding.mean(jnp.abs(h), self._m)
        return Permuted(NullStatistics(values, tolerance), observed)

    def gap(self, key: jax.Array) -> Gap:
        """The mean of h and its standard error."""
        (row,) = self._bits(key, 1)
        h = self._swapped(row)
        h = signs(row, len(h)) * h
        mean = padding.mean(h, self._m)
        variance = padding.mean((h - mean) ** 2, self._m) / padding.number(self._m - 1)
        return Gap(mean, jnp.sqrt(variance))  # of the mean

    def statistic(self) -> jax.Array:
        """The mean of h."""
        return padding.mean(self._h(self.pairs), self._m)


@record
class LinearTimeMMD(GaussianTest):
    """The linear-time MMD: the mean of h over disjoint blocks of two pairs (x₁,y₁), (x₂,y₂).

        h = k(x₁,x₂) + k(y₁,y₂) − k(x₁,y₂) − k(x₂,y₁)

    Under H0 the members of each pair are exchangeable, and swapping x₁ with y₁ turns h into
    k(y₁,x₂) + k(x₁,y₂) − k(y₁,y₂) − k(x₂,x₁) = −h. So the signs of the m blocks are independent
    and fair whatever the |h| are, and flipping them at random permutes the labels, in linear time:
    calibration "permutation", exact. Pairs are swapped at random before anything is computed, and
    the signs that undo it are the observed row of B + 1, so that rounding knows no labels. The
    rows of a shared pool are the same for all replicas, and any of them may be the observed one.

    "normal" takes mean(h) √m / sd(h) of the m blocks as standard normal, a limit: its level of 5 %
    is 9.5 % at n = 8 per sample, 6.7 % at 20, 5.6 to 6.1 % at 40 and 60, and 5 % from 100 on.

    Pairs and blocks are formed at random. Of samples of unequal size the larger loses its excess,
    chosen at random, and an odd pair is left out. The median is that of the first 500 pairs, a
    set that no swap changes. A statistic without a witness.

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> x = np.random.default_rng(0).normal(size=(40, 2))
        >>> ntk.LinearTimeMMD()(0, x, x[:30] + 2).concrete().reject
        True
    """

    normal_from: ClassVar[int] = 100
    null_order: ClassVar[float] = 0.5  # a mean of independent terms
    null_power: ClassVar[float] = 0.5

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "gmmd-lin"

    @property
    def pads_up_to(self) -> int:
        """In linear time a program is soon run."""
        return 65_536

    @property
    def evidence_type(self) -> type[PairEvidence]:
        """Pairs, whose signs flip."""
        return PairEvidence

    def keys(self, key: jax.Array) -> Keys:
        """For the pairs and for the flips."""
        k_pair, k_flip = jax.random.split(key)
        return Keys(key, key, k_pair, k_flip)

    def evidence(
        self, key: jax.Array, prepared: jax.Array | None, train: Samples, held: Samples
    ) -> PairEvidence:
        """Pair at random."""
        samples = pooled(held)
        points, n_x, n_y = samples.points, samples.n_x, samples.n_y
        order = padding.grouped_order(jax.random.bits(key, (len(points),)), n_x, n_y)
        n = padding.at_most(n_x, n_y) // 2 * 2
        room = n if isinstance(n, int) else len(points) // 4 * 2
        rows = padding.filled(jnp.arange(room), n)
        return PairEvidence(self, prepared, points[order[jnp.stack([rows, n_x + rows], 1)]], n)

    def reach(self, n_x: int, n_y: int) -> tuple[int, str]:
        """Each block has a sign."""
        m = min(n_x, n_y) // 2
        return 2 ** min(m, 60), f"{m} blocks of two pairs (x, y)"

    def check_samples(self, n_x: int, n_y: int, features: tuple[int, ...] | None = None) -> None:
        """Refuse samples without two blocks."""
        if min(n_x, n_y) < 4:
            raise ValueError(f"gmmd-lin needs 4 samples of each; got n_x = {n_x}, n_y = {n_y}")


def signs(words: jax.Array, m: int) -> jax.Array:
    """±1, as the bits of 32-bit words have it, shape (m,)."""
    bits = (words[:, None] >> jnp.arange(32, dtype=words.dtype)) & 1
    return 2 * bits.reshape(-1)[:m].astype(float) - 1
