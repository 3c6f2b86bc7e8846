"""Tests within strata and of pairs: `calibration.strata` says why, and which labellings."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.points import as_samples
from ntkmmd_jax.calibration import as_strata, check_reach
from ntkmmd_jax.twosample.calibrations import Full
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.result import TwoSampleResult

_POINTS = 8192  # whose kernel matrix is held


def stratified_test(
    test: TwoSampleTest, key: Any, x: Any, y: Any, strata: tuple[Any, Any]
) -> TwoSampleResult:
    """A test of all data, with labels permuted within strata.

    Args:
        test: One that permutes the labels of all points.
        key: A JAX key, or an int seed.
        x: Anything array-like, one row per sample.
        y: Likewise, with the same features.
        strata: The stratum of every point of x, and of y: numbers, words, dates.
    """
    x, y = as_samples(x, y)
    whole = test.split_at is None and isinstance(test.calibrated_by, Full)
    if not (test.stratifies and whole):
        raise ValueError(
            f"{test.described} does not permute the labels of all points, so that it has no "
            "strata: use ntk-fuse, ntk-symmetric, gmmd, mmd-fuse, mmd-agg or a PermutationTest"
        )
    if len(x) + len(y) > _POINTS:
        raise ValueError(
            f"strata are for at most {_POINTS} points, each labelled by itself; got "
            f"{len(x)} + {len(y)}"
        )
    found, ways = as_strata(*strata, len(x), len(y))
    check_reach(ways, test.level, f"{len(x)} + {len(y)} points in {found.max() + 1} strata")
    return test.answer(key, x, y, jnp.asarray(found))


def pairs(n_x: int, n_y: int) -> tuple[np.ndarray, np.ndarray]:
    """The strata of paired samples: every pair is one."""
    if n_x != n_y:
        raise ValueError(f"paired samples have as many points; got {n_x} and {n_y}")
    return np.arange(n_x), np.arange(n_y)
