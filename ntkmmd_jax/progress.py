"""A progress bar on long work; silent when nobody is looking."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def track(
    items: Iterable[Any], description: str, *, total: int | None = None, show: bool = True
) -> Iterator[Any]:
    """Iterate under a progress bar on stderr, if `show` and stderr is a terminal."""
    if not (show and sys.stderr.isatty()):
        yield from items
        return
    from rich.console import Console

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield from progress.track(items, total=total, description=description)
