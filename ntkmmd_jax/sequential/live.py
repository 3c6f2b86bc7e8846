"""The test as an object, for those who want one: it remembers its state, and what has no partner.

Streams do not come in step. What one of them brings beyond whole blocks is kept until the other
follows; which points meet depends on their order alone, not on how they were batched.
"""

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.files import load_leaves, refill, save_leaves, whole_file
from ntkmmd_jax._lib.points import as_points, check_finite
from ntkmmd_jax.sequential.recorded import Wealth
from ntkmmd_jax.sequential.state import Report, State, init, step

_KIND = "sequential.Watch"  # of its files


class Watch:
    """Watch two streams: `update` with points of either or both, look at `report`, `save`, `load`.

    Args:
        key: A JAX key or an int seed.
        network: What bets, as for `init`.
        features: Shape of one point, or the number of its coordinates; by default, as the first
            points have it.
        **options: Of `init`: bet, level, block, warmup.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> watch = Watch(0, features=2)
        >>> bool(watch.update(rng.normal(size=(150, 2)), rng.normal(size=(150, 2)) + 1).reject)
        True
    """

    def __init__(self, key: Any, network: Any = None, features: Any = None, **options: Any) -> None:
        """As `init`; without features, they are those of the first points."""
        self._begin = (key, network, options)
        self.state: State | None = None
        self._waiting: list[np.ndarray] = []
        self._path: list[np.ndarray] = []
        if features is not None:
            self._start(init(key, network, features, **options))

    def __repr__(self) -> str:
        if self.state is None:
            return "Watch(no points yet)"
        found = self.state.report()
        numbers = f"evalue={float(found.evalue):.4g}, pvalue={float(found.pvalue):.4g}"
        return f"Watch(blocks={int(found.n)}, {numbers}, reject={bool(found.reject)})"

    def _start(self, state: State) -> None:
        self.state = state
        dtype = jnp.result_type(float)
        self._waiting = [np.zeros((0, *state.features), dtype) for _ in "xy"]

    @property
    def waiting(self) -> tuple[int, int]:
        """Points of x and of y that have no partner yet."""
        return (len(self._waiting[0]), len(self._waiting[1])) if self._waiting else (0, 0)

    @property
    def wealth(self) -> Wealth:
        """The log-wealth after every block since this object was made, to plot."""
        if self.state is None:
            raise ValueError("nothing has been seen yet: update with points of x and y")
        path = np.concatenate([np.zeros(0), *self._path])
        return Wealth(path[:, None], self.state.level, names=("mean of all witnesses",))

    def update(self, x: Any = None, y: Any = None) -> Report:
        """Take points of x, of y, or of both; on an error all stays as it was."""
        batches = self._checked(x, y)
        if self.state is None:
            key, network, options = self._begin
            given = next(batch for batch in batches if batch is not None)
            self._start(init(key, network, given.shape[1:], **options))
        assert self.state is not None
        state = self.state
        pools = [
            kept if batch is None else np.concatenate([kept, np.asarray(batch)])
            for kept, batch in zip(self._waiting, batches, strict=True)
        ]
        m = min(len(pool) // size for pool, size in zip(pools, state.block, strict=True))
        report = state.report()
        if m:
            whole = [m * size for size in state.block]
            state, report = step(state, *(pool[:n] for pool, n in zip(pools, whole, strict=True)))
            pools = [pool[n:].copy() for pool, n in zip(pools, whole, strict=True)]
        self.state, self._waiting = state, pools
        self._path.append(np.asarray(report.path))
        return jax.tree.map(np.asarray, report)

    def _checked(self, x: Any, y: Any) -> list[jax.Array | None]:
        """Batches of points, of one width; None where none was given."""
        features = None if self.state is None else self.state.features
        batches: list[jax.Array | None] = []
        for name, batch in (("x", x), ("y", y)):
            if batch is None or np.shape(batch) == (0,):
                batches.append(None)
                continue
            if features is not None and np.shape(batch) == features:  # a single one
                batch = np.reshape(batch, (1, *features))
            points = as_points(batch, name)
            if features is not None and points.shape[1:] != features:
                raise ValueError(
                    f"{name} has samples of shape {points.shape[1:]}; the others are {features}"
                )
            check_finite(points, name)
            features = points.shape[1:]
            batches.append(points)
        if batches == [None, None]:
            raise ValueError("update takes points of x, of y, or of both; got neither")
        return batches

    def save(self, path: str | os.PathLike) -> Path:
        """Save the state, and the points without a partner."""
        if self.state is None:
            raise ValueError("nothing has been seen yet: there is nothing to save")
        about = {**self.state.describe(), "waiting": self.waiting}
        return save_leaves(path, (self.state, *self._waiting), kind=_KIND, **about)

    @classmethod
    def load(cls, path: str | os.PathLike, *, network: Any = None) -> "Watch":
        """Go on from a saved state; `network` as for `sequential.load`."""
        leaves, header = load_leaves(path, _KIND)
        watch = cls(0)
        with whole_file(path):
            state = State.blank(header, network)
            dtype = jnp.result_type(float)
            kept = [jax.ShapeDtypeStruct((n, *state.features), dtype) for n in header["waiting"]]
            state, *kept = refill((state, *kept), leaves, source=str(path))
        watch.state, watch._waiting = state, [np.asarray(points) for points in kept]
        return watch
