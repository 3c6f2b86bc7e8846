"""All that a test without a split needs of a stream: gradients summed over bins, in flat memory.

    v_k = Σ_{i in bin k} ∇f(z_i; θ0),   at most `bins` of x and as many of y; they double.

Every labelling of bins is a weight per bin, so the symmetric statistic and its null law come from
the v_k alone (`twosample.unsplit`), and their sum is the exact witness of all points.

Points are kept as they are until there are `bins` · `chunk` / 2 of them; then a block of so many is
differentiated at once, `chunk` points to a sum. So a short stream is the sample itself, a long one
takes O(bins · p) numbers, and how the points were batched makes no difference to any of them.
"""

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.files import save_leaves
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import track
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.bins import Bins
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Network, Params, as_network
from ntkmmd_jax.training import doubling
from ntkmmd_jax.training.streaming import checked_batch, resumed
from ntkmmd_jax.witness import Witness, velocity

_KIND = "BinnedStream"  # of its files
_Row = np.ndarray  # (p,) a sum of gradients
_Node = tuple[int, _Row]  # over so many chunks


@record
class Side:
    """What is held of one of the two streams, in memory of the host."""

    points: np.ndarray  # (m, ...) the last, not yet differentiated
    rows: tuple[_Row, ...] = ()  # sums over the others, as `doubling` has them
    count: int = static(default=0)  # chunks in them


@record
class BinnedStream:
    """The state: a pytree to save and resume."""

    params: Params  # θ0, all leaves
    x: Side  # what is held of x
    y: Side  # what is held of y
    network: Network = static()  # that of f
    features: tuple[int, ...] = static()  # shape of one point
    bins: int = static(default=256)  # of each, at most
    chunk: int = static(default=32)  # points of the smallest bin

    @property
    def kept(self) -> int:
        """Points up to which a stream is kept as it is."""
        return self.bins // 2 * self.chunk

    @property
    def n_x(self) -> int:
        """Samples of x so far."""
        return self.x.count * self.chunk + len(self.x.points)

    @property
    def n_y(self) -> int:
        """Samples of y so far."""
        return self.y.count * self.chunk + len(self.y.points)

    @property
    def weights(self) -> int:
        """p, the trained weights of the network."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.network.trainable(self.params)[1]))

    @property
    def is_short(self) -> bool:
        """Whether all points are still there."""
        return self.x.count == self.y.count == 0

    def witness(self) -> Witness:
        """The exact witness of all samples so far; both sides must have been seen."""
        return self.witness_of(*self.in_bins())

    def witness_of(self, bins: Bins, rows: list[_Row], rest: _Row) -> Witness:
        """The same, from what `in_bins` gives."""
        v = rest.copy()
        for k, row in enumerate(rows):
            v += row / (self.n_x if k < bins.x else -self.n_y)
        flat, unravel = ravel_pytree(self.network.trainable(self.params)[1])
        time = jnp.zeros((), flat.dtype)
        about = {"network": self.network, "features": self.features, "nodes": 1}
        return Witness(self.params, unravel(jnp.asarray(v, flat.dtype)), time, **about)

    def check_seen(self) -> None:
        """Raise if there are no samples of x or of y."""
        for name, n in (("x", self.n_x), ("y", self.n_y)):
            if n == 0:
                raise ValueError(f"no sample of {name} has been seen yet")

    def settled(self, side: Side) -> tuple[list[_Node], list[_Row]]:
        """Gradients of all points of a side: sums over whole chunks, and over those of no chunk."""
        chunks, inside = self.differentiated(side.points), len(side.points) // self.chunk
        rows, count = doubling.pushed(side.rows, side.count, chunks[:inside], self.bins)
        sizes = doubling.sizes(count, doubling.level(count, self.bins))
        return list(zip(sizes, rows, strict=True)), list(chunks[inside:])

    def in_bins(self) -> tuple[Bins, list[_Row], _Row]:
        """Full bins of one size, their sums, x first, and the weighted sum of the rest.

        The size is that of the longer stream's bins; the bins of the other are merged up to it.
        """
        self.check_seen()
        n_x, n_y = self.n_x, self.n_y
        k = doubling.level(max(n_x, n_y) // self.chunk, self.bins)
        rest = np.zeros(self.weights, np.float64)
        full: list[list[_Row]] = []
        for side, weight in ((self.x, 1 / n_x), (self.y, -1 / n_y)):
            nodes, left = self.settled(side)
            nodes = doubling.merged(nodes, k)
            full.append([row for size, row in nodes if size == 1 << k])
            for row in [*left, *(row for size, row in nodes if size < 1 << k)]:
                rest += weight * row
        bins = Bins(n_x, n_y, self.chunk << k, len(full[0]), len(full[1]))
        return bins, full[0] + full[1], rest

    def differentiated(self, points: np.ndarray) -> np.ndarray:
        """Sums of gradients over the chunks of at most `kept` points, (k, p); the last may be open.

        One program for all, filled up at weight 0: a chunk's sum is one function of its points.
        """
        n, missing = len(points), self.kept - len(points)
        if n == 0:
            return np.zeros((0, self.weights), points.dtype)
        filled = np.concatenate([points, np.repeat(points[:1], missing, axis=0)])
        ones = (np.arange(self.kept) < n).astype(points.dtype)
        chunks = SignedMeasure(
            jnp.asarray(filled.reshape(-1, self.chunk, *self.features)),
            jnp.asarray(ones.reshape(-1, self.chunk)),
        )
        sums = _chunk_gradients(self.network, self.params, chunks)
        return np.asarray(sums)[: -(-n // self.chunk)]

    def save(self, path: str | os.PathLike) -> Path:
        """Save the state; `binned.load(path)` resumes it."""
        about = {"network": self.network.recipe, "features": self.features}
        about |= {name: getattr(self, name) for name in ("bins", "chunk", "n_x", "n_y")}
        return save_leaves(path, self, kind=_KIND, **about)


@jit(static_argnums=0)
def _chunk_gradients(network: Network, params: Params, chunks: SignedMeasure) -> jax.Array:
    """One chunk after the other, lest rounding depend on where in a block it stands."""
    return jax.lax.map(lambda one: ravel_pytree(velocity(network, params, one))[0], chunks)


def init(
    network: Any,
    params: Params,
    features: int | tuple[int, ...],
    *,
    bins: int = 256,
    chunk: int = 32,
) -> BinnedStream:
    """Begin a stream at θ0.

    Args:
        network: A network of ours or an `(init, apply)` pair.
        params: θ0, as `network.init` draws it.
        features: Shape of one point, or the number of its coordinates.
        bins: At most so many bins of x and as many of y, each of p numbers; even. A long stream
            has half of them at least, but both have bins of one size: if y is r times as long as
            x, x has bins / 2r to bins / r. Take more where lengths are very different.
        chunk: Points of the smallest bin.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> network, x = ntk.mlp(16), np.ones((5, 2))
        >>> stream = ntk.binned.init(network, network.init(jax.random.key(0), x), 2)
        >>> ntk.binned.step(stream, x, 0 * x[:3]).n_y
        3
    """
    network = as_network(network)
    whole("bins", bins, 4)
    whole("chunk", chunk)
    if bins % 2:
        raise ValueError(f"bins must be even: they merge in pairs; got {bins}")
    features = (features,) if isinstance(features, int) else tuple(features)
    none = Side(np.zeros((0, *features), jnp.result_type(float)))
    about = {"network": network, "features": features, "bins": int(bins), "chunk": int(chunk)}
    return BinnedStream(params, none, none, **about)


def step(stream: BinnedStream, x: Any = None, y: Any = None) -> BinnedStream:
    """Take in a batch of x, of y, or of both; bad input raises and leaves the stream as it was.

    Args:
        stream: As `init` or the last `step` gave it.
        x: Points of p, array-like, or None.
        y: Points of q, likewise.
    """
    batches = [checked_batch(stream, batch, name) for batch, name in ((x, "x"), (y, "y"))]
    sides = [
        side if batch is None else _absorb(stream, side, np.asarray(batch))
        for side, batch in zip((stream.x, stream.y), batches, strict=True)
    ]
    return dataclasses.replace(stream, x=sides[0], y=sides[1])


def _absorb(stream: BinnedStream, side: Side, batch: np.ndarray) -> Side:
    """Differentiate block by block what is more than may be kept."""
    points, rows, count = np.concatenate([side.points, batch]), side.rows, side.count
    kept = stream.kept
    while len(points) > kept:
        chunks = stream.differentiated(points[:kept])
        rows, count = doubling.pushed(rows, count, chunks, stream.bins)
        points = points[kept:]
    return Side(points.copy(), rows, count=count)  # a copy: of a view, the whole batch would stay


def accumulate(
    stream: BinnedStream, batches: Iterable[tuple[Any, Any]], *, progress: bool = True
) -> BinnedStream:
    """Take in an iterator of pairs (x batch, y batch); either may be None.

    Args:
        stream: As `init` or the last `step` gave it.
        batches: The pairs, seen once.
        progress: Whether to show a progress bar on a terminal.
    """
    for x, y in track(batches, "batches", show=progress):
        stream = step(stream, x, y)
    return stream


def load(path: str | os.PathLike, *, network: Any = None) -> BinnedStream:
    """The saved state of a stream, to go on with.

    Args:
        path: What `BinnedStream.save` wrote.
        network: The network, only if it is a function of your own, which no file can hold.
    """
    found = resumed(path, _KIND, network, _blank)
    x, y = (jax.tree.map(np.asarray, side) for side in (found.x, found.y))
    return dataclasses.replace(found, x=x, y=y)


def _blank(network: Network, params: Params, header: dict[str, Any], arrays: int) -> BinnedStream:
    """The shapes of a saved stream, of a file with so many arrays."""
    about = {name: header[name] for name in ("bins", "chunk")}
    empty = init(network, params, header["features"], **about)
    x, y = (_blank_side(empty, header[name], arrays) for name in ("n_x", "n_y"))
    return dataclasses.replace(empty, x=x, y=y)


def _blank_side(stream: BinnedStream, n: int, most: int) -> Side:
    """The shapes of a side after n points, of a file with so many arrays."""
    whole("the number of samples", n, 0)
    blocks = max(0, n - 1) // stream.kept
    count = blocks * (stream.bins // 2)
    if (rows := doubling.length(count, stream.bins)) > most:
        raise ValueError(f"{n} points make {rows} sums")
    dtype = jnp.result_type(float)
    row = jax.ShapeDtypeStruct((stream.weights,), dtype)
    points = jax.ShapeDtypeStruct((n - blocks * stream.kept, *stream.features), dtype)
    return Side(points, (row,) * rows, count=count)  # type: ignore[arg-type]
