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

Nor need a pool have all labellings: those that are constant on bins (`bins.Bins`) are as good,
and points that fill no bin take places whose label is the same in every row.
"""

from ntkmmd_jax.calibration.groups import Exchangeable, as_groups
from ntkmmd_jax.calibration.nulls import (
    NullStatistics,
    centred,
    gram_null,
    kernel_null,
    score_null,
    symmetric_null,
)
from ntkmmd_jax.calibration.pools import (
    Relabelling,
    check_reach,
    label_pool,
    labellings,
    relabel,
    relabel_bins,
    without,
)
from ntkmmd_jax.calibration.pvalues import (
    check_level,
    least_pvalue,
    pvalue,
    threshold,
)
from ntkmmd_jax.calibration.strata import as_strata, relabel_within

__all__ = [
    "Exchangeable",
    "NullStatistics",
    "Relabelling",
    "as_groups",
    "as_strata",
    "centred",
    "check_level",
    "check_reach",
    "gram_null",
    "kernel_null",
    "label_pool",
    "labellings",
    "least_pvalue",
    "pvalue",
    "relabel",
    "relabel_bins",
    "relabel_within",
    "score_null",
    "symmetric_null",
    "threshold",
    "without",
]
