"""Several tests of one pair of samples: those that learn alike learn once.

C2ST-S and C2ST-L are two scores of one classifier, and training it is nearly all of their work; XLA
does not find out by itself that two loops are one. With one key the results are those that each
test gives by itself.

Tests that call LAPACK come one after the other. On a CPU each of two batches of calls holds a
thread of XLA's pool while others do its work: on two cores nobody is left (jaxlib 0.10.2).
"""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax.pooled import pooled
from ntkmmd_jax.twosample.calibrations import Permuting
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.result import TwoSampleResult


def together(
    tests: Sequence[TwoSampleTest], key: jax.Array, x: jax.Array, y: jax.Array
) -> list[TwoSampleResult]:
    """The results of all tests, in their order, as `test(key, x, y)` gives them."""
    learners = [_learner(test) for test in tests]
    learned: dict[Hashable, Any] = {}
    found = []
    for test, learner in zip(tests, learners, strict=True):
        if learner is None or learners.count(learner) == 1:
            found.append(test(key, x, y))
            if test.uses_lapack:
                x, y = _after(found[-1], x), _after(found[-1], y)
            continue
        test.check_sizes(len(x), len(y), x.shape[1:])
        keys = test.keys(key)
        if learner not in learned:
            learned[learner] = test.gathered(keys, pooled((x, y)))
        evidence = dataclasses.replace(learned[learner], test=test)
        result = test.concluded(keys.null, evidence)
        found.append(dataclasses.replace(result, n_x=len(x), n_y=len(y)))
    return found


def _learner(test: TwoSampleTest) -> Hashable:
    """What makes its evidence, if that is made of points as they are, by the test's own θ0."""
    plain = isinstance(test.calibrated_by, Permuting) and not test.standardize
    return test.learner if plain else None


def _after(result: TwoSampleResult, points: jax.Array) -> jax.Array:
    """The same points, for a program that must have the result first: no p-value is above 1."""
    return jnp.where(result.pvalue > 2, jnp.zeros((), points.dtype), points)
