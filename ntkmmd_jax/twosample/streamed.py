"""The test of a witness on held-out data too large for memory: only the scores are kept."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_points, check_finite
from ntkmmd_jax._lib.progress import track
from ntkmmd_jax.calibration import check_level, check_reach, labellings
from ntkmmd_jax.twosample.calibrations import Permutation
from ntkmmd_jax.twosample.evidence import Scores
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
    k_places, k_null = jax.random.split(as_key(key))
    shuffler = np.random.default_rng(np.asarray(jax.random.key_data(k_places)))
    scores: dict[str, list[np.ndarray]] = {"x": [], "y": []}
    for pair in track(batches, "held-out batches", show=progress):
        given = {name: batch for name, batch in zip("xy", pair, strict=True) if batch is not None}
        points = [as_points(batch, name) for name, batch in given.items()]
        for name, batch in zip(given, points, strict=True):
            check_finite(batch, name)
        for name, found in zip(given, _scores(shuffler, witness, points), strict=True):
            scores[name].append(found)
    n_x, n_y = (sum(map(len, scores[name])) for name in "xy")
    if min(n_x, n_y) < 1:
        raise ValueError(f"held-out samples of both x and y are needed; got {n_x} and {n_y}")
    check_reach(labellings(n_x, n_y), level, f"a held-out sample of {n_x} + {n_y} points")
    pooled = jnp.concatenate([*scores["x"], *scores["y"]])
    result = dataclasses.replace(
        _calibrate(k_null, pooled, level, n_x, n_permutations), witness=witness
    ).concrete()
    result.warn_if_powerless()
    return result


def _scores(
    shuffler: np.random.Generator, witness: Witness, batches: list[jax.Array]
) -> list[np.ndarray]:
    """The witness at some batches, in random places, lest rounding follow the labels."""
    if not batches:
        return []
    sizes = [len(batch) for batch in batches]
    order = shuffler.permutation(sum(sizes))
    scores = np.empty(len(order), batches[0].dtype)
    scores[order] = witness(jnp.concatenate(batches)[order])
    return np.split(scores, np.cumsum(sizes)[:-1])


@jax.jit(static_argnums=(3, 4))
def _calibrate(
    key: jax.Array, scores: jax.Array, level: Any, n_x: int, n_permutations: int
) -> TwoSampleResult:
    evidence = Scores((scores[:n_x], scores[n_x:]))
    found = Permutation(n_permutations).result(key, evidence, level)
    return dataclasses.replace(found, method="streamed", n_x=n_x, n_y=len(scores) - n_x)
