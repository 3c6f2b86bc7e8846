"""Null samples, p-value and threshold, by permuting labels.

The null law comes from a pool of B + 1 labellings of the n test points, each with n_X points
labelled x. The observed labelling takes a uniformly random place J in the pool: the x points fill
the x places of row J, the y points its y places, in uniformly random order. Under H0 the points
are exchangeable, so their arrangement is uniform and independent of J, and the rank of row J among
the B + 1 statistics is uniform: the level is exact for *every* pool, however it was made. Ties
count against rejection, so with them it is at most α.

That holds of the numbers as they are computed, if everything is computed from the arranged points:
rounding then depends on places, which know no labels. Hence all functions below take what belongs
to `relabelling.placed(points)`. Arranged afterwards, rounding that follows the labels would speak:
at a scale of the data of 1e-7, where the kernel is little else, an NTK test rejects 16 % at 5 %.

By default each call draws its own pool: B independent, uniform permutations. Since any pool is
valid, sweeps may let all replicas share one (`shared=True`), made once per batch, while arrangement
and J stay fresh for each: given the pool, replicas are independent and the level is exact.
Labellings are drawn without sorting, and all B + 1 statistics are one matrix product.

Nor need a pool have all labellings: those that are constant on bins (`measure.Bins`) are as good,
and points that fill no bin take places whose label is the same in every row.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.precision import pinned
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.measure import Bins, asymmetric_mmd2, label_weights, mmd2, unbiased_mmd2

_TILE = 4096  # points whose labels are held as floats at once


@record
class Relabelling:
    """A pool of labellings, and the place of the observed one in it."""

    labels: jax.Array  # (B + 1, n) bool: True for x; of bins, (B + 1, s)
    order: jax.Array  # (n,) which pooled point (x first) stands at each place
    observed: jax.Array  # () int: the row that labels the points as they were observed
    n_x: Any  # () int
    n_y: Any  # () int; places beyond n_X + n_Y are padding
    bins: Bins | None = static(default=None)  # None: every point has a label of its own

    @property
    def n(self) -> Any:
        """Points that are relabelled."""
        return self.n_x + self.n_y

    @property
    def weights(self) -> jax.Array:
        """The signed weights of every labelling, (B + 1, n); of bins and rest, (B + 1, s + 1)."""
        if self.bins is None:
            return label_weights(self.labels, self.n_x, self.n_y)
        weights = jnp.where(self.labels, 1.0 / self.n_x, -1.0 / self.n_y)
        return jnp.concatenate([weights, jnp.ones_like(weights[:, :1])], axis=1)

    def sums(self, values: jax.Array) -> jax.Array:
        """Placed values (n, ...) with their mean taken out; of bins and rest, their sums."""
        if self.bins is not None:
            return self.bins.centred(self.bins.sums(values))
        return padding.cleared(values - padding.mean(values, self.n), self.n)

    def placed(self, points: jax.Array) -> jax.Array:
        """The pooled points (n, ...), x first, as they stand at their places."""
        return points[self.order]

    def null(self, statistics: jax.Array) -> jax.Array:
        """The null sample: the statistics (B + 1,) of all labellings but the observed one."""
        return without(statistics, self.observed)


def without(statistics: jax.Array, observed: Any) -> jax.Array:
    """All statistics (B + 1,) but the observed one, shape (B,)."""
    rows = jnp.arange(len(statistics) - 1)
    return statistics[jnp.where(rows < observed, rows, rows + 1)]


def label_pool(
    key: jax.Array, n_x: Any, n: Any, size: int, *, places: int | None = None
) -> jax.Array:
    """Draw labellings, uniform over those with n_X of n True, shape (size, n).

    Selection sampling: walk over the points and label one x with probability (x still needed) /
    (points still to come). No sort, one pass, all labellings at once.

    Args:
        key: For all of them.
        n_x: How many are labelled x.
        n: How many there are.
        size: Labellings.
        places: Of a traced n, the shape is (size, places), False beyond n.
    """
    block, room = 512, int(n) if places is None else places

    def choose(needed: jax.Array, step: tuple) -> tuple[jax.Array, jax.Array]:
        position, u = step
        chosen = u * (n - position).astype(u.dtype) < needed
        if not padding.is_full(room, n):
            chosen &= position < n
        return needed - chosen.astype(u.dtype), chosen

    def choose_block(needed: jax.Array, at: tuple) -> tuple[jax.Array, jax.Array]:
        start, k_block = at
        u = jax.random.uniform(k_block, (min(block, room), size))
        return jax.lax.scan(choose, needed, (start + jnp.arange(len(u)), u))

    needed = jnp.broadcast_to(jnp.asarray(n_x, float), size)
    if room <= block:
        return choose_block(needed, (0, key))[1].T
    starts = jnp.arange(0, room, block)
    keys = jax.random.split(key, len(starts))
    if not padding.is_full(room, n):  # a traced n of one block, which has the key itself
        alone = jnp.where(n <= block, jax.random.key_data(key), jax.random.key_data(keys[0]))
        keys = keys.at[0].set(jax.random.wrap_key_data(alone))
    _, chosen = jax.lax.scan(choose_block, needed, (starts, keys))
    return chosen.reshape(-1, size)[:room].T


def relabel(
    key: jax.Array,
    n_x: Any,
    n_y: Any,
    n_permutations: int,
    *,
    observed: jax.Array | None = None,
    shared: bool = False,
    pool: int = 0,
    bins: Bins | None = None,
    places: int | None = None,
) -> Relabelling:
    """Place n_X + n_Y points into the pool of labellings.

    Args:
        key: For the pool, the arrangement of the points and, unless given, the observed row.
        n_x: Points labelled x.
        n_y: Points labelled y.
        n_permutations: B; the pool has B + 1 rows.
        observed: The observed row, to relabel two sets of points together.
        shared: Take the pool that all replicas share, instead of a fresh one.
        pool: Which shared pool; two sets that are relabelled together need different ones.
        bins: Label bins instead of points: places 0 … s·size − 1 are those of the bins, one after
            the other, and the rest stands behind them, x first, its labels the same in every row.
        places: Of traced sizes: so many, n_X + n_Y of them with points; no bins.
    """
    k_pool, k_place = jax.random.split(key)
    if shared:
        # The barrier keeps the compiler from evaluating a constant pool by its slow interpreter.
        k_pool = jax.lax.optimization_barrier(_shared_key(pool))
    places = int(n_x + n_y) if places is None else places
    s_x, s = (n_x, n_x + n_y) if bins is None else (bins.x, len(bins))
    room = places if bins is None else len(bins)
    labels = label_pool(k_pool, s_x, s, n_permutations + 1, places=room)
    # One draw of bits for all, as in `random_orders`: each use of the generator takes long to
    # compile. The remainder is uniform to 1 in 2^32 / B.
    bits = jax.random.bits(k_place, (1 + places,))
    if observed is None:
        observed = (bits[0] % (n_permutations + 1)).astype(jnp.int32)
    row = labels[observed]
    if bins is not None:
        row = jnp.concatenate([jnp.repeat(row, bins.size), jnp.asarray(bins.rest > 0)])
    seen = jnp.cumsum(row)  # x places up to and including each place
    random = padding.grouped_order(bits[1:], n_x, n_y)
    order = random[jnp.where(row, seen - 1, n_x + jnp.arange(places) - seen)]
    return Relabelling(labels, padding.filled(order, n_x + n_y), observed, n_x, n_y, bins=bins)


def relabel_bins(key: jax.Array, bins: Bins, n_permutations: int) -> Relabelling:
    """Place bins whose sums are there already; `order` says which bin, x first, stands where."""
    placed = relabel(key, bins.x, bins.y, n_permutations)
    return dataclasses.replace(placed, n_x=bins.n_x, n_y=bins.n_y, bins=bins)


@record
class NullStatistics:
    """The statistic under every labelling of a pool."""

    values: jax.Array  # (B + 1,)
    tolerance: jax.Array  # () values that differ by no more are equal but for rounding: a tie


def _shared_key(pool: int) -> jax.Array:
    # Validity rests on no seed.
    return jax.random.wrap_key_data(jnp.asarray([pool, 20230203], jnp.uint32))


@pinned
def score_null(relabelling: Relabelling, scores: jax.Array) -> NullStatistics:
    """Σ w_i g(z_i) under every labelling, for scores (n,) of the placed points.

    The test-only bootstrap: the witness g knows nothing of these points.
    """
    n_x, n_y, n = padding.number(relabelling.n_x), padding.number(relabelling.n_y), relabelling.n
    # The weights sum to 0, so the mean drops out; without it, sums do not cancel.
    centred_scores = padding.cleared(scores - padding.mean(scores, n), n)
    tolerance = _rounding(centred_scores, 2, n)
    if relabelling.bins is not None:
        values = relabelling.weights @ relabelling.bins.sums(centred_scores)
        return NullStatistics(values, tolerance)
    values = (1 / n_x + 1 / n_y) * _label_sums(relabelling.labels, centred_scores)
    return NullStatistics(values, tolerance)


def _label_sums(labels: jax.Array, values: jax.Array) -> jax.Array:
    """labels @ values, with only a block of the labels as floats at a time."""

    def sums(start: Any, size: int) -> jax.Array:
        block = jax.lax.dynamic_slice_in_dim(labels, start, size, axis=1)
        return block.astype(values.dtype) @ jax.lax.dynamic_slice_in_dim(values, start, size)

    whole, rest = divmod(len(values), _TILE)
    total = sums(whole * _TILE, rest)
    if whole == 0:
        return total
    return jax.lax.fori_loop(0, whole, lambda i, total: total + sums(i * _TILE, _TILE), total)


def _rounding(terms: jax.Array, mass: float, *real: Any) -> jax.Array:
    """Rounding error of a weighted sum of terms with total absolute weight `mass`.

    Along each axis some of the terms are real, and those of the padding are 0.
    """
    size = jnp.mean(jnp.abs(terms))
    for length, n in zip(terms.shape, real, strict=False):
        if not padding.is_full(length, n):
            size *= length / jnp.asarray(n, terms.dtype)
    return 4 * jnp.finfo(terms.dtype).eps * mass * size


def centred(kernel: jax.Array, rows: Any = None, columns: Any = None) -> jax.Array:
    """K with row and column means taken out: every MMD stays the same, and less cancels.

    Args:
        kernel: K, shape (N, M).
        rows: How many rows are real; all, by default. The others become 0.
        columns: Likewise.
    """
    rows = kernel.shape[0] if rows is None else rows
    columns = kernel.shape[1] if columns is None else columns
    over_rows, over_columns = padding.mean(kernel, rows), padding.mean(kernel, columns, 1)
    kernel = kernel - over_columns[:, None] - over_rows + padding.mean(over_rows, columns)
    return padding.cleared(padding.cleared(kernel, rows), columns, axis=1)


def kernel_null(test: Relabelling, train: Relabelling, kernel: jax.Array) -> NullStatistics:
    """T̂_a with rows and columns relabelled together, K (n_test, n_train) that of placed points."""
    kernel = centred(kernel, test.n, train.n)
    values = asymmetric_mmd2(kernel, test.weights, train.weights)
    return NullStatistics(values, _rounding(kernel, 4, test.n, train.n))


def symmetric_null(
    relabelling: Relabelling, kernel: jax.Array, *, unbiased: bool
) -> NullStatistics:
    """T̂_NTK, biased or unbiased, under every labelling, from the kernel of the placed points."""
    n = relabelling.n
    kernel = centred(kernel, n, n)
    if unbiased:
        values = unbiased_mmd2(kernel, relabelling.labels, n)
    else:
        values = mmd2(kernel, relabelling.weights)
    return NullStatistics(values, _rounding(kernel, 4, n, n))


def gram_null(relabelling: Relabelling, gram: jax.Array, *, unbiased: bool) -> NullStatistics:
    """T̂_NTK of every labelling of bins, from the centred Gram matrix (s + 1, s + 1) of their sums.

    Unbiased, pairs within a bin and the rest are left out: bins are independent of each other. With
    one bin a point these are the pairs of a point with itself.
    """
    bins = relabelling.bins
    assert bins is not None
    per_point = gram[:-1, :-1] / bins.size**2
    if unbiased:
        values = unbiased_mmd2(per_point, relabelling.labels)
    else:
        values = mmd2(gram, relabelling.weights)
    return NullStatistics(values, _rounding(per_point, 4))


def pvalue(statistic: jax.Array, null: jax.Array, tolerance: Any = 0.0) -> jax.Array:
    """(1 + #{null ≥ T}) / (1 + B): never 0, and NaN if the statistic is."""
    exceeding = jnp.sum(~(null < statistic - tolerance))  # NaN in the null counts as exceeding
    return jnp.where(jnp.isnan(statistic), jnp.nan, _fractions(len(null))[exceeding])


def least_pvalue(values: jax.Array, tolerance: Any = 0.0) -> jax.Array:
    """The smallest p-value that any of B + 1 labellings would have, were it the observed one."""
    tied = jnp.sum(~(values < jnp.max(values) - tolerance))
    return _fractions(len(values) - 1)[tied - 1]


def threshold(null: jax.Array, level: Any, tolerance: Any = 0.0) -> jax.Array:
    """The order statistic for which `statistic > threshold` says `pvalue <= level`."""
    allowed = jnp.sum(_fractions(len(null))[:-1] <= level)  # reject iff fewer than that exceed T
    descending = -jnp.sort(-jnp.where(jnp.isnan(null), jnp.inf, null))
    return jnp.where(allowed > 0, descending[allowed - 1], jnp.inf) + tolerance


def _fractions(b: int) -> jax.Array:
    """1/(1+B), …, 1, each rounded once, so that a p-value that equals the level compares equal."""
    return jnp.asarray(np.arange(1, b + 2) / (b + 1), jnp.result_type(float))


def labellings(n_x: int, n_y: int, *, even: bool = False) -> int:
    """How many values a statistic can take if n_X + n_Y points are relabelled, up to some 10⁸.

    Args:
        n_x: Points labelled x.
        n_y: Points labelled y.
        even: Whether it stays the same when x and y change places, as every MMD² does: with
            n_X = n_Y, labellings then come in pairs of one value.
    """
    some = math.comb(n_x + n_y, min(n_x, n_y, 20))  # all, or a part that is many
    return some // (2 if even and n_x == n_y else 1)


def check_reach(values: int, level: Any, where: str, advice: str = "take more samples") -> None:
    """Raise if a null law of so many equally likely values has no tail as small as the level."""
    if isinstance(level, int | float | np.number) and values < (1 - 1e-6) / level:
        raise ValueError(
            f"{where} can be relabelled in {values} different ways only, so that a p-value is "
            f"below 1/{values} = {1 / values:.2g} by luck alone, and level {level} cannot be "
            f"reached: {advice}, or a larger level"
        )


def check_level(level: Any, n_permutations: int | None = None) -> None:
    """Raise if a level lies outside (0, 1), or if B permutations cannot reach it."""
    if n_permutations is not None:
        whole("n_permutations", n_permutations)
    if not isinstance(level, int | float | np.number):  # traced, or a batch: checked by its maker
        return
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1); got {level}")
    if n_permutations is not None and 1 / (1 + n_permutations) > level * (1 + 1e-6):
        needed = math.ceil(1 / level - 1e-6) - 1
        raise ValueError(
            f"n_permutations = {n_permutations} cannot reach level {level}: the smallest p-value "
            f"is 1/{1 + n_permutations}; use at least {needed} permutations"
        )
