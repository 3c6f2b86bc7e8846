"""A progress bar on long work; silent when nobody is looking."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)


def track(
    items: Iterable[Any], description: str, *, total: int | None = None, show: bool = True
) -> Iterator[Any]:
    """Iterate under a progress bar on stderr, if `show` and stderr is a terminal."""
    if not (show and sys.stderr.isatty()):
        yield from items
        return
    with Progress(*_COLUMNS, console=Console(stderr=True)) as progress:
        yield from progress.track(items, total=total, description=description)


class ReplicaBar:
    """Cells, replicas per second and time left of a sweep."""

    def __init__(self, progress: Progress | None, n_cells: int, n_runs: int) -> None:
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


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} replicas/s" if task.speed else "")


@contextlib.contextmanager
def replica_bar(n_cells: int, n_runs: int, *, show: bool = True) -> Iterator[ReplicaBar]:
    """A bar over all replicas of a sweep, on stderr, if `show` and stderr is a terminal."""
    if not (show and sys.stderr.isatty()):
        yield ReplicaBar(None, n_cells, n_runs)
        return
    columns = (*_COLUMNS[:3], _Rate(), *_COLUMNS[3:])
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield ReplicaBar(progress, n_cells, n_runs)
