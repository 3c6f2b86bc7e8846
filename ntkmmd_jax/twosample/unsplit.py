"""The symmetric test of a stream: T_NTK of all its points, calibrated by labellings of its bins.

    T = wᵀ G w,   G_kl = ⟨v_k, v_l⟩ of the sums that `training.binned` has made of the stream.

The bins of x and of y are sums over equally many points, each by the same tree of the same program,
so that under H0 they are exchangeable to the last bit; what fills no bin keeps its labels. A stream
so short that its points are all there is tested as `NTKMMD(train_fraction=None)` tests a sample.
When to stop the stream must not depend on what it says: the p-value is that of its length.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax.bins import Bins
from ntkmmd_jax.calibration import Relabelling, labellings
from ntkmmd_jax.kernels import gram_of_sums
from ntkmmd_jax.networks import Params
from ntkmmd_jax.training.binned import BinnedStream
from ntkmmd_jax.twosample.evidence import Permuted
from ntkmmd_jax.twosample.ntk import NTKMMD
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.twosample.verdicts import permuted_result

_WEIGHTS = 8192  # of the network, whose products are taken at once


def unsplit_test(test: NTKMMD, key: Any, stream: BinnedStream) -> TwoSampleResult:
    """Test all points of a stream.

    Args:
        test: Without a split, with the level and the number of permutations.
        key: An int seed or a JAX key.
        stream: As it stands after its last batch.
    """
    key = as_key(key)
    stream.check_seen()
    if stream.is_short:
        test.check_sizes(stream.n_x, stream.n_y)
        return _of_points(test, key, stream.params, stream.x.points, stream.y.points)
    bins, rows, rest = stream.in_bins()
    _check_bins(stream, bins, test.level)
    relabelling = _relabel(key, bins, test)
    placed = [*(rows[i] for i in np.asarray(relabelling.order)), rest]
    found = of_gram(test, relabelling, _gram(placed, bins))
    return dataclasses.replace(found, witness=stream.witness_of(bins, rows, rest))


@jit
def _of_points(
    test: NTKMMD, key: jax.Array, params: Params, x: jax.Array, y: jax.Array
) -> TwoSampleResult:
    """The test in memory, from a θ0 that is given."""
    keys = test.keys(key)
    evidence = test.evidence(keys.evidence, params, (x, y), (x, y))
    found = test.calibrated_by.result(keys.null, evidence, test.level)
    return dataclasses.replace(found, method=test.method, n_x=len(x), n_y=len(y))


@jit(static_argnums=1)
def _relabel(key: jax.Array, bins: Bins, test: NTKMMD) -> Relabelling:
    return calibration.relabel_bins(test.keys(key).null, bins, test.n_permutations)


def _gram(placed: list[np.ndarray], bins: Bins) -> jax.Array:
    """The centred Gram matrix of s + 1 vectors, some weights of the network at a time."""
    dtype, p = placed[0].dtype, len(placed[0])
    total = jnp.zeros((len(placed), len(placed)), dtype)
    for start in range(0, p, _WEIGHTS):
        part = np.zeros((len(placed), min(p, _WEIGHTS)), dtype)  # filled up at 0: one shape
        for row, vector in zip(part, placed, strict=True):
            row[: p - start] = vector[start : start + _WEIGHTS]
        total = _add_products(total, part, bins)
    return total


@jit(static_argnums=2, donate_argnums=0)
def _add_products(total: jax.Array, part: jax.Array, bins: Bins) -> jax.Array:
    return total + gram_of_sums(part, bins)


@jit
def of_gram(test: NTKMMD, relabelling: Relabelling, gram: jax.Array) -> TwoSampleResult:
    """The verdict from the centred Gram matrix of bins and rest, (s + 1, s + 1)."""
    bins = relabelling.bins
    assert bins is not None
    null = calibration.gram_null(relabelling, gram, unbiased=test.unbiased)
    found = permuted_result(Permuted(null, relabelling.observed), test.level)
    return dataclasses.replace(found, method=test.method, n_x=bins.n_x, n_y=bins.n_y)


def _check_bins(stream: BinnedStream, bins: Bins, level: Any) -> None:
    """Refuse bins with too few labellings, and say how many points would do."""
    few, many = sorted([("x", bins.x), ("y", bins.y)], key=lambda one: one[1])
    enough = (a for a in range(1, many[1] + 1) if labellings(a, many[1], even=True) * level >= 1)
    advice = f"begin the stream with more than {stream.bins} bins"
    if (needed := next(enough, None)) is not None:
        advice = f"take {needed * bins.size} points of {few[0]}, {advice}"
    where = f"a stream of {bins.n_x} + {bins.n_y} points, {bins.x} + {bins.y} bins of {bins.size},"
    calibration.check_reach(labellings(bins.x, bins.y, even=True), level, where, advice)
