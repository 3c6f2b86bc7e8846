"""Progress on long work: a bar, or a word and a clock; silent when nobody is looking.

All of it goes to stderr, if that is a terminal, and only after a second: what is quicker, a pipe
and a file stay without. `jax.monitoring` tells when a program is being compiled, so that a wait
for XLA is called what it is.
"""

import contextlib
import operator
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 1.0  # seconds before anything is shown
_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"  # what follows is XLA's part
COMPILED = "/jax/core/compile/backend_compile_duration"
_shown: list["Progress"] = []  # at most one: two on one terminal would write over each other


@contextlib.contextmanager
def _display(kind: str, *, show: bool, transient: bool) -> Iterator["Progress | None"]:
    """A display that appears after a while; None if it is not wanted, or there is one already."""
    if _shown or not (show and sys.stderr.isatty()):
        yield None
        return
    from ntkmmd_jax._lib import bars  # rich takes a while to import, and most calls no terminal

    progress = bars.display(kind, transient=transient)
    timer = threading.Timer(_PATIENCE, progress.start)
    timer.daemon = True
    _shown.append(progress)
    timer.start()
    try:
        yield progress
    finally:
        timer.cancel()
        timer.join()
        _shown.remove(progress)
        if progress.live.is_started:
            progress.stop()


def track(
    items: Iterable[Any], description: str, *, total: int | None = None, show: bool = True
) -> Iterator[Any]:
    """Iterate under a progress bar on stderr, if `show` and stderr is a terminal."""
    with _display("items", show=show, transient=False) as progress:
        if progress is None:
            yield from items
            return
        task = progress.add_task(description, total=total or operator.length_hint(items) or None)
        for item in items:
            yield item
            progress.advance(task)


@contextlib.contextmanager
def working(description: str, *, show: bool = True) -> Iterator[None]:
    """Tell on stderr, if it is a terminal, what is being done, compiled or computed, and how long.

    For calls of one program, of which nobody knows how far it is.
    """
    with _display("wait", show=show, transient=True) as progress:
        if progress is None:
            yield
            return
        task = progress.add_task(f"{description}: computing", total=None)

        def listen(event: str, *_: Any, **__: Any) -> None:
            words = {_LOWERED: "compiling", COMPILED: "computing"}
            if event in words:
                progress.update(task, description=f"{description}: {words[event]}")

        jax.monitoring.register_event_duration_secs_listener(listen)
        try:
            yield
        finally:
            jax.monitoring.unregister_event_duration_listener(listen)


class ReplicaBar:
    """Cells, replicas per second and time left of a sweep."""

    def __init__(self, progress: "Progress | None", n_cells: int, n_runs: int) -> None:
        self.progress, self.n_cells, self.cell = progress, n_cells, 0
        if progress is not None:
            self.task = progress.add_task("", total=n_cells * n_runs)

    def start(self, point: dict[str, Any], finished: int) -> None:
        """Begin a cell, of which some replicas may be finished already."""
        self.cell += 1
        if self.progress is not None:
            where = ", ".join(f"{name}={value}" for name, value in point.items())
            text = f"cell {self.cell}/{self.n_cells} {where}"
            self.progress.update(self.task, description=text, advance=finished)

    def advance(self, replicas: int) -> None:
        """Count finished replicas."""
        if self.progress is not None:
            self.progress.advance(self.task, replicas)


@contextlib.contextmanager
def replica_bar(n_cells: int, n_runs: int, *, show: bool = True) -> Iterator[ReplicaBar]:
    """A bar over all replicas of a sweep, on stderr, if `show` and stderr is a terminal."""
    with _display("replicas", show=show, transient=False) as progress:
        yield ReplicaBar(progress, n_cells, n_runs)
