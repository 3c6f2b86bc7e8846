"""The contract of every test: an immutable pytree, called as `test(key, x, y) -> TwoSampleResult`.

Pure, jittable and vmappable. What fixes shapes or structure is static; numbers such as the
learning rate and the level are traced, so a sweep over them compiles once.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax import calibration
from ntkmmd_jax.calibration import NullStatistics, Relabelling
from ntkmmd_jax.keys import as_key
from ntkmmd_jax.measure import as_samples
from ntkmmd_jax.network_check import check_network
from ntkmmd_jax.twosample.result import TwoSampleResult


class TwoSampleTest:
    """Base of the tests: checks shapes in Python, then runs one jitted program."""

    uses_lapack = False  # whether the program calls LAPACK on a CPU (see `sweep`)

    def __call__(self, key: Any, x: Any, y: Any) -> TwoSampleResult:
        """Test whether x (n_X, ...) and y (n_Y, ...) come from the same distribution.

        Args:
            key: A JAX key, or an int seed.
            x: Anything array-like, one row per sample.
            y: Likewise, with the same features.
        """
        x, y = as_samples(x, y)
        self.check_sizes(len(x), len(y))
        if (network := getattr(self, "network", None)) is not None:
            check_network(network, x.shape[1:])
        result = _run(self, as_key(key), x, y)
        result.warn_if_powerless()
        return result

    def check_sizes(self, n_x: int, n_y: int) -> None:
        """Refuse sizes at which the level cannot be reached; warn where a limit law fails."""

    def run(self, key: jax.Array, x: jax.Array, y: jax.Array) -> TwoSampleResult:
        """The test itself, on checked arrays; every test defines it."""
        raise NotImplementedError


def check_calibration(test: TwoSampleTest, allowed: tuple[str, ...], where: str = "") -> None:
    """Refuse a calibration that does not apply to a test, and say which do."""
    if test.calibration not in allowed:
        name = " ".join([type(test).__name__, *filter(None, [where])])
        raise ValueError(
            f"calibration {test.calibration!r} does not apply to {name}; use one of {allowed}"
        )


@jax.jit
def _run(test: TwoSampleTest, key: jax.Array, x: jax.Array, y: jax.Array) -> TwoSampleResult:
    return test.run(key, x, y)


def permutation_result(
    relabelling: Relabelling, null: NullStatistics, level: Any, **rest: Any
) -> TwoSampleResult:
    """The result of a permutation test, from its statistic under every labelling of the pool."""
    statistic, sample = null.values[relabelling.observed], relabelling.null(null.values)
    least = calibration.least_pvalue(null.values, null.tolerance)
    return null_result(statistic, sample, level, null.tolerance, least=least, **rest)


def null_result(
    statistic: jax.Array, null: jax.Array, level: Any, tolerance: Any = 0.0, **rest: Any
) -> TwoSampleResult:
    """The result of a test with a sample of its null law."""
    return TwoSampleResult(
        statistic,
        calibration.pvalue(statistic, null, tolerance),
        calibration.threshold(null, level, tolerance),
        null,
        jnp.asarray(level, statistic.dtype),
        **rest,
    )


def score_result(
    key: jax.Array,
    score: Callable[[jax.Array], jax.Array],
    points: jax.Array,
    level: Any,
    *,
    of_x: int,
    n_permutations: int,
    shared_pool: bool = False,
    **rest: Any,
) -> TwoSampleResult:
    """The test-only bootstrap: permute labels of held-out points, the first `of_x` of them x's."""
    of_y = len(points) - of_x
    relabelling = calibration.relabel(key, of_x, of_y, n_permutations, shared=shared_pool)
    null = calibration.score_null(relabelling, score(relabelling.placed(points)))
    return permutation_result(relabelling, null, level, **rest)


def analytic_result(
    statistic: jax.Array, pvalue: jax.Array, threshold: jax.Array, level: Any, **rest: Any
) -> TwoSampleResult:
    """The result of a test whose null law is a formula: its null sample is empty."""
    dtype = statistic.dtype
    level = jnp.asarray(level, dtype)
    # Within a rounding error of the threshold, the p-value decides.
    below = jnp.minimum(threshold, jnp.nextafter(statistic, jnp.full_like(statistic, -jnp.inf)))
    threshold = jnp.where(pvalue <= level, below, jnp.fmax(threshold, statistic))
    return TwoSampleResult(statistic, pvalue, threshold, jnp.zeros(0, dtype), level, **rest)
