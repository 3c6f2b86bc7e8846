"""Labellings: pools of them, places for the points, and how many there are."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.bins import Bins, Cut
from ntkmmd_jax.measure import label_weights


@record
class Relabelling:
    """A pool of labellings, and the place of the observed one in it."""

    labels: jax.Array  # (B + 1, n) bool: True for x; of bins, (B + 1, s)
    order: jax.Array  # (n,) which pooled point (x first) stands at each place
    observed: jax.Array  # () int: the row that labels the points as they were observed
    n_x: Any  # () int
    n_y: Any  # () int; places beyond n_X + n_Y are padding
    bins: Cut | None = None  # None: every point has a label of its own
    of_x: jax.Array | None = None  # (B + 1,) points labelled x, where rows differ in it: groups
    balance: jax.Array | None = None  # (B + 1,) of groups: n_X n_Y over what it is on average

    @property
    def n(self) -> Any:
        """Points that are relabelled."""
        return self.n_x + self.n_y

    @property
    def sizes(self) -> tuple[Any, Any]:
        """Points labelled x and y, to reckon with; of groups, in every row, shape (B + 1,)."""
        if self.of_x is None:
            return padding.number(self.n_x), padding.number(self.n_y)
        return padding.number(self.of_x), padding.number(self.n - self.of_x)

    @property
    def weights(self) -> jax.Array:
        """The signed weights of every labelling, (B + 1, n); of bins and rest, (B + 1, s + 1)."""
        if self.of_x is not None:
            n_x, n_y = self.sizes
            return jnp.where(self.labels, 1 / n_x[:, None], -1 / n_y[:, None])
        if self.bins is None:
            return label_weights(self.labels, self.n_x, self.n_y)
        n_x, n_y = self.sizes
        weights = jnp.where(self.labels, 1.0 / n_x, -1.0 / n_y)
        return jnp.concatenate([weights, jnp.ones_like(weights[:, :1])], axis=1)

    def balanced(self, mmd2: jax.Array) -> jax.Array:
        """MMD² (..., B + 1) of every labelling; of groups, n_X n_Y MMD² up to a constant.

        For MMD² itself is the larger under H0 the less even a labelling is.
        """
        return mmd2 if self.balance is None else self.balance * mmd2

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
    """All statistics but the observed one, shape (B,).

    Args:
        statistics: Of all labellings, shape (B + 1,).
        observed: Which of them is that of the labels as they are.
    """
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
    bins: Cut | None = None,
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
        places: Of traced sizes: so many, n_X + n_Y of them with points.
    """
    k_pool, k_place = jax.random.split(key)
    if shared:
        # The barrier keeps the compiler from evaluating a constant pool by its slow interpreter.
        k_pool = jax.lax.optimization_barrier(_shared_key(pool))
    places = int(n_x + n_y) if places is None else places
    s_x, s = (n_x, n_x + n_y) if bins is None else (bins.x, bins.x + bins.y)
    room = places if bins is None else len(bins)
    labels = label_pool(k_pool, s_x, s, n_permutations + 1, places=room)
    # One draw of bits for all, as in `random_orders`: each use of the generator takes long to
    # compile. The remainder is uniform to 1 in 2^32 / B.
    bits = jax.random.bits(k_place, (1 + places,))
    if observed is None:
        observed = (bits[0] % (n_permutations + 1)).astype(jnp.int32)
    row = labels[observed]
    if bins is not None:
        row = bins.spread(row, places)
    order = arranged(row, padding.grouped_order(bits[1:], n_x, n_y), n_x)
    return Relabelling(labels, padding.filled(order, n_x + n_y), observed, n_x, n_y, bins=bins)


def arranged(row: jax.Array, random: jax.Array, n_x: Any) -> jax.Array:
    """Which point stands at each place: those of `random`, x first, fill the row's in order."""
    seen = jnp.cumsum(row)  # x places up to and including each place
    return random[jnp.where(row, seen - 1, n_x + jnp.arange(len(row)) - seen)]


def relabel_bins(key: jax.Array, bins: Bins, n_permutations: int) -> Relabelling:
    """Place bins whose sums are there already; `order` says which bin, x first, stands where.

    Args:
        key: For the pool, the arrangement and the observed row.
        bins: How points are cut.
        n_permutations: B; the pool has B + 1 rows.
    """
    placed = relabel(key, bins.x, bins.y, n_permutations)
    return dataclasses.replace(placed, n_x=bins.n_x, n_y=bins.n_y, bins=bins)


def _shared_key(pool: int) -> jax.Array:
    # Validity rests on no seed.
    return jax.random.wrap_key_data(jnp.asarray([pool, 20230203], jnp.uint32))


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
    """Raise if a null law of so many equally likely values has no tail as small as the level.

    Args:
        values: How many, as `labellings` counts them.
        level: α; one that is traced is not checked.
        where: What is relabelled, for the message.
        advice: What to do about it, likewise.
    """
    if isinstance(level, int | float | np.number) and values < (1 - 1e-6) / level:
        raise ValueError(
            f"{where} can be relabelled in {values} different ways only, so that a p-value is "
            f"below 1/{values} = {1 / values:.2g} by luck alone, and level {level} cannot be "
            f"reached: {advice}, or a larger level"
        )
