"""The statistics of every labelling of a pool, from what belongs to the placed points."""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.precision import pinned
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.calibration.pools import Relabelling
from ntkmmd_jax.measure import asymmetric_mmd2, mmd2, unbiased_mmd2

_TILE = 4096  # points whose labels are held as floats at once


@record
class NullStatistics:
    """The statistic under every labelling of a pool."""

    values: jax.Array  # (B + 1,)
    tolerance: jax.Array  # () values that differ by no more are equal but for rounding: a tie


@pinned
def score_null(relabelling: Relabelling, scores: jax.Array) -> NullStatistics:
    """Σ w_i g(z_i) under every labelling, for scores (n,) of the placed points.

    The test-only bootstrap: the witness g knows nothing of these points.

    Args:
        relabelling: The pool, and the places of the points.
        scores: g at the placed points, shape (n,).
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


def tie_tolerance(values: jax.Array) -> jax.Array:
    """By how much values may differ and be a tie, where no more is known than their size."""
    return 16 * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values))


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
    """T̂_a with rows and columns relabelled together.

    Args:
        test: The pool of the test points.
        train: That of the training points, with the same observed row.
        kernel: K of the placed points, shape (n_test, n_train).
    """
    kernel = centred(kernel, test.n, train.n)
    values = asymmetric_mmd2(kernel, test.weights, train.weights)
    return NullStatistics(values, _rounding(kernel, 4, test.n, train.n))


def symmetric_null(
    relabelling: Relabelling, kernel: jax.Array, *, unbiased: bool
) -> NullStatistics:
    """T̂_NTK, biased or unbiased, under every labelling.

    Args:
        relabelling: The pool, and the places of the points.
        kernel: K of the placed points, shape (n, n).
        unbiased: Whether its diagonal is left out.
    """
    n = relabelling.n
    kernel = centred(kernel, n, n)
    if unbiased:
        values = unbiased_mmd2(kernel, relabelling.labels, n)
    else:
        values = mmd2(kernel, relabelling.weights)
    return NullStatistics(relabelling.balanced(values), _rounding(kernel, 4, n, n))


def gram_null(relabelling: Relabelling, gram: jax.Array, *, unbiased: bool) -> NullStatistics:
    """T̂_NTK of every labelling of bins, from the centred Gram matrix (s + 1, s + 1) of their sums.

    Unbiased, pairs within a bin and the rest are left out: bins are independent of each other. With
    one bin a point these are the pairs of a point with itself.

    Args:
        relabelling: The pool of bins.
        gram: ⟨v_k, v_l⟩ of the placed bins and the rest, centred, shape (s + 1, s + 1).
        unbiased: Whether pairs within a bin are left out.
    """
    bins = relabelling.bins
    assert bins is not None
    s, per_point = bins.x + bins.y, gram[:-1, :-1] / padding.number(bins.size) ** 2
    if unbiased:
        values = unbiased_mmd2(per_point, relabelling.labels, s)
    else:
        values = mmd2(gram, relabelling.weights)
    return NullStatistics(values, _rounding(per_point, 4, s, s))
