"""Frames as lines of numbers, from a pipe or standard input."""

import sys
from collections.abc import Iterable, Iterator


def frames(lines: Iterable[str], source: str = "") -> Iterator[tuple[int, list[float]]]:
    """Line numbers and frames; what is no frame is reported on stderr and left out."""
    for number, line in enumerate(lines, 1):
        cells = line.replace(",", " ").split()
        if not cells:
            continue
        try:
            yield number, [float(cell) for cell in cells]
        except ValueError:
            complain(number, f"not a line of numbers: {line.strip()[:60]!r}", source)


def complain(number: int, message: str, source: str = "") -> None:
    """Say on stderr that a line was left out, and why."""
    where = f"{source}, line {number}" if source else f"line {number}"
    print(f"ntkmmd: {where} left out: {message}", file=sys.stderr)
