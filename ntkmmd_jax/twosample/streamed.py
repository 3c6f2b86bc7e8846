"""The test of a witness on held-out data too large for memory: only the scores are kept."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax.calibration import check_level
from ntkmmd_jax.keys import as_key
from ntkmmd_jax.measure import as_points, check_finite
from ntkmmd_jax.progress import track
from ntkmmd_jax.twosample.contract import score_result
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.witness import Witness


def streamed_test(
    key: Any,
    witness: Witness,
    batches: Iterable[tuple[Any, Any]],
    *,
    level: float = 0.05,
    n_permutations: int = 400,
    progress: bool = True,
) -> TwoSampleResult:
    """Calibrate a witness on batches that it was not trained on: the test-only bootstrap.

    Args:
        key: An int seed or a JAX key.
        witness: Trained or exact, as `streaming.accumulate(...).witness()` gives it.
        batches: Pairs (x batch, y batch) of held-out samples; either may be None.
        level: The probability of a false rejection.
        n_permutations: Label permutations behind the p-value.
        progress: Whether to show a progress bar on a terminal.
    """
    check_level(level, n_permutations)
    scores: dict[str, list[np.ndarray]] = {"x": [], "y": []}
    for pair in track(batches, "held-out batches", show=progress):
        for name, batch in zip("xy", pair, strict=True):
            if batch is not None:
                points = as_points(batch, name)
                check_finite(points, name)
                scores[name].append(np.asarray(witness(points)))
    n_x, n_y = (sum(map(len, scores[name])) for name in "xy")
    if min(n_x, n_y) < 1:
        raise ValueError(f"held-out samples of both x and y are needed; got {n_x} and {n_y}")
    pooled = jnp.concatenate([*scores["x"], *scores["y"]])
    result = _calibrate(as_key(key), pooled, level, n_x, n_permutations)
    return dataclasses.replace(result, witness=witness).concrete()


@jax.jit(static_argnums=(3, 4))
def _calibrate(
    key: jax.Array, scores: jax.Array, level: Any, n_x: int, n_permutations: int
) -> TwoSampleResult:
    return score_result(
        key,
        scores,
        level,
        of_x=n_x,
        n_permutations=n_permutations,
        method="streamed",
        n_x=n_x,
        n_y=len(scores) - n_x,
    )
