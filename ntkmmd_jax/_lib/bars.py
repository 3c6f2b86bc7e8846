"""What a terminal shows of long work: rich's columns. Imported when there is one to show it on."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} replicas/s" if task.speed else "")


def display(kind: str, *, transient: bool) -> Progress:
    """A display on stderr that has not started: of "items", of a "wait" or of "replicas"."""
    text, clock = TextColumn("{task.description}"), TimeElapsedColumn()
    bar = (text, BarColumn(), MofNCompleteColumn())
    columns = {
        "items": (*bar, clock, TimeRemainingColumn()),
        "wait": (SpinnerColumn(), text, clock),
        "replicas": (*bar, _Rate(), clock, TimeRemainingColumn()),
    }[kind]
    return Progress(*columns, console=Console(stderr=True), transient=transient)
