"""Tests of data too large for memory, batch by batch: with a split, and of all data without.

With one, a witness is calibrated on held-out batches, of which only the scores are kept. Without,
gradients are summed over bins on the way (`training.binned`), and the labels of bins permuted.
"""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_array, as_points, check_finite
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import track, working
from ntkmmd_jax.bins import Bins
from ntkmmd_jax.calibration import check_level, check_reach, labellings
from ntkmmd_jax.networks import Network, NetworkLike, as_network, check_network
from ntkmmd_jax.networks.modules import is_module
from ntkmmd_jax.training import binned
from ntkmmd_jax.twosample.binned import bins_of
from ntkmmd_jax.twosample.calibrations import Permutation
from ntkmmd_jax.twosample.evidence import Scores
from ntkmmd_jax.twosample.ntk import NTKMMD
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.twosample.unsplit import unsplit_test
from ntkmmd_jax.witness import Witness

Batches = Iterable[tuple[Any, Any]]  # pairs (x batch, y batch); either may be None


def streamed_test(
    key: Any,
    witness: NetworkLike | Witness | binned.BinnedStream,
    batches: Batches | None = None,
    *,
    level: float = 0.05,
    n_permutations: int = 400,
    progress: bool = True,
) -> TwoSampleResult:
    """Test a stream of batches, seen once.

    Three calls, by what they are given:

        streamed_test(key, network, batches)   all data, no split: θ0 is drawn, T_NTK tested
        streamed_test(key, stream)             the same of a stream of `binned.init / step`
        streamed_test(key, witness, batches)   a witness, on batches that it was not trained on

    Args:
        key: An int seed or a JAX key.
        witness: A network, whose exact witness of all batches is tested; a `BinnedStream`, with
            its samples so far; or a witness, trained or exact, for the test-only bootstrap.
        batches: Pairs (x batch, y batch), either of which may be None. A `BinnedStream` needs
            none; of a witness they are held out.
        level: The probability of a false rejection.
        n_permutations: Label permutations behind the p-value.
        progress: Whether to show a progress bar on a terminal.

    Example:
        >>> batches = [(np.ones((30, 2)) * i, np.zeros((20, 2)) - i) for i in range(3)]
        >>> from ntkmmd_jax.networks import mlp
        >>> streamed_test(0, mlp(16), batches).n_x
        90
    """
    check_level(level, n_permutations)
    given: Any = witness
    if isinstance(given, binned.BinnedStream | Network | tuple) or is_module(given):
        about: dict[str, Any] = {"level": level, "n_permutations": n_permutations}
        stream, test = _streamed(key, given, batches or (), about, progress=progress)
        with working("streamed test", show=progress):
            result = unsplit_test(test, key, stream).concrete()
    else:
        if batches is None:
            raise ValueError("a witness is tested on batches that it was not trained on: give them")
        found = _held_out(as_key(key), given, batches, level, n_permutations, progress=progress)
        result = found.concrete()
    result.warn_if_powerless()
    return result


def _streamed(
    key: Any,
    begun: NetworkLike | binned.BinnedStream,
    batches: Batches,
    about: dict[str, Any],
    *,
    progress: bool,
) -> tuple[binned.BinnedStream, NTKMMD]:
    """A stream with all batches taken in, from a θ0 as the test in memory would draw it."""
    if isinstance(begun, binned.BinnedStream):
        test = NTKMMD(network=begun.network, train_fraction=None, **about)
        return binned.accumulate(begun, batches, progress=progress), test
    test = NTKMMD(network=as_network(begun), train_fraction=None, **about)
    batches = iter(batches)
    first = next(batches, (None, None))
    given = [batch for batch in first if batch is not None]
    if not given:
        raise ValueError("the first batch has neither x nor y")
    features = as_array(given[0]).shape[1:]
    check_network(test.network, features)
    params = test.prepare(test.keys(as_key(key)).prepare, jnp.zeros((1, *features)))
    stream = binned.init(test.network, params, features)
    batches = itertools.chain([first], batches)
    return binned.accumulate(stream, batches, progress=progress), test


def _held_out(
    key: jax.Array,
    witness: Witness,
    batches: Batches,
    level: float,
    n_permutations: int,
    *,
    progress: bool,
) -> TwoSampleResult:
    """The test-only bootstrap; beyond some points, labels are of bins of them."""
    k_places, k_null = jax.random.split(key)
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
    bins = bins_of(n_x, n_y)
    values = labellings(n_x, n_y) if bins is None else labellings(bins.x, bins.y)
    check_reach(values, level, f"a held-out sample of {n_x} + {n_y} points")
    pooled = jnp.concatenate([*scores["x"], *scores["y"]])
    found = _calibrate(k_null, pooled, level, n_x, n_permutations, bins)
    return dataclasses.replace(found, witness=witness)


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


@jit(static_argnums=(3, 4, 5))
def _calibrate(
    key: jax.Array, scores: jax.Array, level: Any, n_x: int, n_permutations: int, bins: Bins | None
) -> TwoSampleResult:
    evidence = Scores((scores[:n_x], scores[n_x:]), bins=bins)
    found = Permutation(n_permutations).result(key, evidence, level)
    return dataclasses.replace(found, method="streamed", n_x=n_x, n_y=len(scores) - n_x)
