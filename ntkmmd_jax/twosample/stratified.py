"""Tests within strata, of pairs and of groups: `calibration.strata` and `.groups` say why."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.points import as_samples
from ntkmmd_jax._lib.telling import warn
from ntkmmd_jax.calibration import Exchangeable, as_groups, as_strata, check_reach, labellings
from ntkmmd_jax.twosample.calibrations import Permuting
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.result import TwoSampleResult

_POINTS = 8192  # whose kernel matrix is held
_LARGER, _CHANCE = 1.5, 2.5  # groups so many times, and standard errors, larger are worth a warning


def stratified_test(
    test: TwoSampleTest,
    key: Any,
    x: Any,
    y: Any,
    strata: tuple[Any, Any] | None = None,
    groups: tuple[Any, Any] | None = None,
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
    sizes = len(x), len(y)
    whole = test.split_at is None and isinstance(test.calibrated_by, Permuting)
    if not (test.stratifies and whole):
        raise ValueError(
            f"{test.described} does not permute the labels of all points, so that it has no strata "
            "and no groups: use ntk-fuse, ntk-symmetric, gmmd, mmd-fuse, mmd-agg or a "
            "PermutationTest"
        )
    if sum(sizes) > _POINTS:
        raise ValueError(
            f"strata and groups are for at most {_POINTS} points; got {sizes[0]} + {sizes[1]}"
        )
    if groups is not None:
        return test.answer(key, x, y, _whole_groups(test.level, groups, sizes, strata))
    assert strata is not None
    found, ways = as_strata(*strata, *sizes)
    where = f"{sizes[0]} + {sizes[1]} points in {found.max() + 1} strata"
    check_reach(ways, test.level, where)
    return test.answer(key, x, y, Exchangeable(jnp.asarray(found)))


def _whole_groups(
    level: Any, groups: tuple[Any, Any], sizes: tuple[int, int], strata: tuple[Any, Any] | None
) -> Exchangeable:
    """Groups that have enough labellings for the level."""
    found, ways = as_groups(*groups, *sizes, strata)
    of_x = found.of_x or 0
    where = f"{of_x} + {len(found.strata) - of_x} groups"
    if strata is not None:
        where += f" in {int(found.strata.max()) + 1} strata"
    advice = "take more groups"
    if isinstance(level, float):
        enough = (g for g in itertools.count(2) if labellings(g, g, even=True) * level >= 1)
        advice += f" ({next(enough)} of each are enough, without strata)"
    check_reach(ways, level, where, advice)
    _warn_of_sizes(np.bincount(np.asarray(found.groups)), of_x)
    return found


def _warn_of_sizes(sizes: np.ndarray, of_x: int) -> None:
    """Warn where the groups of one sample are so much the larger that it can be no chance."""
    means = sizes[:of_x].mean(), sizes[of_x:].mean()
    spread = sizes.std(ddof=1) * np.sqrt(1 / of_x + 1 / (len(sizes) - of_x))
    if max(means) > _LARGER * min(means) and abs(means[0] - means[1]) > _CHANCE * spread:
        warn(
            f"groups of x have {means[0]:.3g} points on average and those of y {means[1]:.3g}: "
            "with their sizes they are not exchangeable, and the level need not hold. Take as many "
            "points of every group, or give the size as a stratum if it repeats",
        )


def pairs(n_x: int, n_y: int) -> tuple[np.ndarray, np.ndarray]:
    """The strata of paired samples: every pair is one."""
    if n_x != n_y:
        raise ValueError(f"paired samples have as many points; got {n_x} and {n_y}")
    return np.arange(n_x), np.arange(n_y)
