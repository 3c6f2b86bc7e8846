"""Tests within strata, of pairs and of groups: `calibration.strata` and `.groups` say why."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.points import as_samples
from ntkmmd_jax.calibration import Exchangeable, as_groups, as_strata, check_reach, labellings
from ntkmmd_jax.twosample.calibrations import Permuting
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.result import TwoSampleResult

_POINTS = 8192  # whose kernel matrix is held


def stratified_test(
    test: TwoSampleTest, key: Any, x: Any, y: Any, strata: Any = None, groups: Any = None
) -> TwoSampleResult:
    """A test of all data, with labels permuted within strata, or those of whole groups.

    Args:
        test: One that permutes the labels of all points.
        key: A JAX key, or an int seed.
        x: Anything array-like, one row per sample.
        y: Likewise, with the same features.
        strata: The stratum of every point of x, and of y: numbers, words, dates.
        groups: The group of every point of x, and of y; no group is in both. With strata, groups
            change labels within them.
    """
    x, y = as_samples(x, y)
    whole = test.split_at is None and isinstance(test.calibrated_by, Permuting)
    if not (test.stratifies and whole):
        raise ValueError(
            f"{test.described} does not permute the labels of all points, so that it has no strata "
            "and no groups: use ntk-fuse, ntk-symmetric, gmmd, mmd-fuse, mmd-agg or a "
            "PermutationTest"
        )
    if len(x) + len(y) > _POINTS:
        raise ValueError(
            f"strata and groups are for at most {_POINTS} points; got {len(x)} + {len(y)}"
        )
    if groups is None:
        found, ways = as_strata(*strata, len(x), len(y))
        check_reach(ways, test.level, f"{len(x)} + {len(y)} points in {found.max() + 1} strata")
        return test.answer(key, x, y, Exchangeable(jnp.asarray(found)))
    within, ways = as_groups(*groups, len(x), len(y), strata)
    of_x, all_of = within.of_x or 0, len(within.strata)
    where = f"{of_x} + {all_of - of_x} groups" + (" within strata" if strata is not None else "")
    enough = (g for g in range(1, 10**4) if labellings(g, g, even=True) * test.level >= 1)
    advice = f"take more groups ({next(enough, 10**4)} of each are enough without strata)"
    check_reach(ways, test.level, where, advice)
    return test.answer(key, x, y, within)


def pairs(n_x: int, n_y: int) -> tuple[np.ndarray, np.ndarray]:
    """The strata of paired samples: every pair is one."""
    if n_x != n_y:
        raise ValueError(f"paired samples have as many points; got {n_x} and {n_y}")
    return np.arange(n_x), np.arange(n_y)
