"""Witnesses from a stream: batches of x and y of unknown number, each seen once.

The velocity is the difference of two running means of gradients, v = ḡ_x − ḡ_y, taken at
θ0 + t v with the v of the moment. At t = 0 that is the exact witness; at t > 0 it is online
training for time t, whatever the length of the stream: after k batches the displacement is
t times the mean gradient along the way, as SGD with step t/k has it, so that
ĝ = exact + O(t) holds at every moment and no total length has to be known.
"""

import dataclasses
import json
import os
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.core import Tracer

from ntkmmd_jax._lib.files import FileError, load_leaves, refill, save_leaves, whole_file
from ntkmmd_jax._lib.points import as_points, check_finite
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import track
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Network, Params, as_network, merged, restored
from ntkmmd_jax.witness import Witness, displaced, velocity

_KIND = "WitnessStream"  # of its files
_Stream = TypeVar("_Stream")


@record
class WitnessStream:
    """The state: O(1) memory in the number of samples seen; a pytree to save and resume."""

    params: Params  # θ0, all leaves
    mean_x: Params  # ḡ_x, mean gradient over the x samples, on the trained leaves
    mean_y: Params  # ḡ_y, of the y samples
    n_x: jax.Array  # () samples of x so far
    n_y: jax.Array  # () samples of y so far
    time: jax.Array  # () t; 0 accumulates the exact witness
    network: Network = static()  # that of f
    features: tuple[int, ...] = static()  # shape of one point

    @property
    def velocity(self) -> Params:
        """v = ḡ_x − ḡ_y."""
        return jax.tree.map(jnp.subtract, self.mean_x, self.mean_y)

    def witness(self) -> Witness:
        """The witness of all samples so far; both sides must have been seen."""
        for name, n in (("x", self.n_x), ("y", self.n_y)):
            if not isinstance(n, Tracer) and n == 0:
                raise ValueError(f"no sample of {name} has been seen yet")
        return Witness(
            self.params, self.velocity, self.time, network=self.network, features=self.features
        )

    def save(self, path: str | os.PathLike) -> Path:
        """Save the state; `streaming.load(path)` resumes it."""
        about = {"network": self.network.recipe, "features": self.features}
        return save_leaves(path, self, kind=_KIND, **about)

    def load(self, path: str | os.PathLike) -> "WitnessStream":
        """The saved state of a stream of this network; deprecated, `streaming.load` needs none."""
        warnings.warn("use streaming.load(path)", DeprecationWarning, stacklevel=2)
        return load(path, network=self.network)


def load(path: str | os.PathLike, *, network: Any = None) -> WitnessStream:
    """The saved state of a stream, to go on with.

    Args:
        path: What `WitnessStream.save` wrote.
        network: The network, only if it is a function of your own, which no file can hold.
    """
    return resumed(path, _KIND, network, _blank)


def _blank(network: Network, params: Params, header: dict[str, Any], _: int) -> WitnessStream:
    """The shapes of a saved stream."""
    return jax.eval_shape(lambda theta: init(network, theta, header["features"]), params)


def resumed(
    path: str | os.PathLike,
    kind: str,
    network: Any,
    blank: Callable[[Network, Params, dict[str, Any], int], _Stream],
) -> _Stream:
    """The saved state of a stream of some kind; refuse to go on with another network.

    Args:
        path: The file.
        kind: What it must hold.
        network: The network, if the file cannot tell.
        blank: The shapes of the state, from the network, those of θ0, what the file says of itself,
            and how many arrays it has.
    """
    network = None if network is None else as_network(network)
    leaves, header = load_leaves(path, kind)
    with whole_file(path):
        recipe, network = header["network"], restored(header["network"], network)
        if (own := json.loads(json.dumps(network.recipe))) != recipe:
            raise FileError(f"{path} is of a stream with network {recipe}; this one has {own}")
        one = jax.ShapeDtypeStruct((1, *header["features"]), jnp.result_type(float))
        params = jax.eval_shape(network.init, jax.random.key(0), one)
        return refill(blank(network, params, header, len(leaves)), leaves, source=str(path))


def init(
    network: Any, params: Params, features: int | tuple[int, ...], *, time: Any = 0.0
) -> WitnessStream:
    """Begin a stream at θ0.

    Args:
        network: A network of ours or an `(init, apply)` pair.
        params: θ0, as `network.init` draws it.
        features: Shape of one point, or the number of its coordinates.
        time: t; 0 for the exact witness, a small number to train.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> network, x = ntk.mlp(16), jnp.ones((5, 2))
        >>> stream = ntk.streaming.init(network, network.init(jax.random.key(0), x), 2)
        >>> stream = ntk.streaming.step(stream, x, 0 * x)
        >>> stream.witness()(x).shape
        (5,)
    """
    network = as_network(network)
    features = (features,) if isinstance(features, int) else tuple(features)
    zero = jax.tree.map(jnp.zeros_like, network.trainable(params)[1])
    count = jnp.zeros((), jnp.int32)
    time = jnp.asarray(time, jnp.result_type(float))
    return WitnessStream(params, zero, zero, count, count, time, network=network, features=features)


def step(stream: WitnessStream, x: Any = None, y: Any = None) -> WitnessStream:
    """Take in a batch of x, of y, or of both; bad input raises and leaves the stream as it was.

    Args:
        stream: As `init` or the last `step` gave it.
        x: Points of p, array-like, or None.
        y: Points of q, likewise.
    """
    return _step(stream, checked_batch(stream, x, "x"), checked_batch(stream, y, "y"))


def checked_batch(stream: Any, batch: Any, name: str) -> jax.Array | None:
    """`checked_points`, where there may be none.

    Args:
        stream: Whose points are like these.
        batch: Points, or None.
        name: What they are called in messages.
    """
    return None if batch is None else checked_points(stream, batch, name)


def checked_points(stream: Any, batch: Any, name: str) -> jax.Array:
    """A batch as points like those of a stream; refuse any other.

    Args:
        stream: Whose points are like these.
        batch: Points, array-like.
        name: What they are called in messages.
    """
    batch = as_points(batch, name)
    if batch.shape[1:] != stream.features:
        raise ValueError(
            f"{name} has samples of shape {batch.shape[1:]}; the stream's are {stream.features}"
        )
    if not isinstance(batch, Tracer):
        check_finite(batch, name)
    return batch


@jit
def _step(stream: WitnessStream, x: jax.Array | None, y: jax.Array | None) -> WitnessStream:
    _, theta = stream.network.trainable(stream.params)
    at = displaced(theta, stream.velocity, stream.time)
    mean_x, n_x = _absorb(stream, at, stream.mean_x, stream.n_x, x)
    mean_y, n_y = _absorb(stream, at, stream.mean_y, stream.n_y, y)
    return dataclasses.replace(stream, mean_x=mean_x, mean_y=mean_y, n_x=n_x, n_y=n_y)


def _absorb(
    stream: WitnessStream, at: Params, mean: Params, n: jax.Array, batch: jax.Array | None
) -> tuple[Params, jax.Array]:
    """Running mean of the gradients at `at` over n samples and a batch more."""
    if batch is None:
        return mean, n
    size = len(batch)
    uniform = SignedMeasure(batch, jnp.full(size, 1.0 / size, batch.dtype))
    new = velocity(stream.network, merged(stream.params, at), uniform)
    share = size / (n + size)
    return jax.tree.map(lambda old, new: old + share * (new - old), mean, new), n + size


def accumulate(
    stream: WitnessStream, batches: Iterable[tuple[Any, Any]], *, progress: bool = True
) -> WitnessStream:
    """Take in an iterator of pairs (x batch, y batch); either may be None.

    Batches of one size compile once; a last short one compiles once more.

    Args:
        stream: As `init` or the last `step` gave it.
        batches: The pairs, seen once.
        progress: Whether to show a progress bar on a terminal.
    """
    for x, y in track(batches, "batches", show=progress):
        stream = step(stream, x, y)
    return stream


def __getattr__(name: str) -> Any:
    """Names of earlier versions, for one version more."""
    new = {"start": "init", "update": "step"}.get(name)
    if new is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"streaming.{name} is now streaming.{new}", DeprecationWarning, stacklevel=2)
    return globals()[new]
