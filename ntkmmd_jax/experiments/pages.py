"""What the report says: a table of all experiments, then each, from their records alone.

"Differs" is the verdict of a two-sided test at the 5 % level that ours and the published number are
of one rate, both Monte Carlo errors in it. What does not differ is not shown to agree: the ± beside
it is how far a published number could lie away without being told apart.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from ntkmmd_jax.experiments.blocks import Block, Folded, Heading, Picture, Table, Text
from ntkmmd_jax.experiments.experiment import Number
from ntkmmd_jax.experiments.registry import EXPERIMENTS
from ntkmmd_jax.power.table import wilson

FEW = 16  # numbers that are shown; of more, those with a published one

INTRODUCTION = (
    "Every figure and table of Cheng & Xie (2021), and what we measured beyond them. A published "
    "number *differs* if a two-sided test at level 5 % tells it from ours, with the Monte Carlo "
    "errors of both; else it is *not distinguishable*, within the ± given: with fewer runs more "
    "numbers are, so the width belongs to the verdict. One in twenty differs by chance."
)


def pages(entries: Sequence[dict[str, Any]]) -> list[Block]:
    """The whole report."""
    blocks: list[Block] = [Heading("The paper, reproduced"), Text(INTRODUCTION), overview(entries)]
    for entry in entries:
        blocks += section(entry)
    return blocks


def overview(entries: Sequence[dict[str, Any]]) -> Table:
    """A line an experiment."""
    rows = [["", "", "runs (paper's)", "differ", "else within", "why"]]
    for entry in entries:
        compared = [n for n in numbers_of(entry) if n.agreement]
        differ = [n for n in compared if n.agreement == "differs"]
        paper = f" ({entry['paper_runs']})" if entry["paper_runs"] else ""
        known = EXPERIMENTS.get(entry["id"])
        rows.append(
            [
                f"[{entry['id']}](#{entry['id']})",
                entry["title"]
                + (f" (stand-in: {stand_in})" if (stand_in := _stand_in(entry)) else ""),
                f"{_runs(entry)}{paper}",
                f"{len(differ)} of {len(compared)}" if compared else "nothing published",
                _widths(compared),
                known.because if known is not None and differ else "",
            ]
        )
    return Table(rows)


def section(entry: dict[str, Any]) -> list[Block]:
    """One experiment: the verdict, the picture, the numbers that matter; the rest folded."""
    numbers = numbers_of(entry)
    compared = [n for n in numbers if n.agreement]
    rest = [n for n in numbers if not n.agreement]
    said = [_verdict(compared), f"Stand-in: {stand_in}." if (stand_in := _stand_in(entry)) else ""]
    said.append(entry["remarks"])
    blocks: list[Block] = [Heading(f"{entry['id']}: {entry['title']}", entry["id"])]
    if text := " ".join(part for part in said if part):
        blocks.append(Text(text))
    blocks.append(Picture(entry["id"], entry["title"]))
    if compared:
        table, short = Table(_compared(compared)), _beside(compared)
        if len(compared) > FEW and short:
            blocks += [Table(short), Folded("With both intervals", [table])]
        else:
            blocks.append(table)
    if entry.get("table"):
        own = Table(entry["table"])
        blocks.append(Folded("Every number", [own]) if compared else own)
    elif rest:
        table = Table(_grid(rest) or _listed(rest))
        short = len(rest) <= FEW and not compared
        summary = f"{len(rest)} {'more ' if compared else ''}number{'s' * (len(rest) > 1)}"
        blocks.append(table if short else Folded(summary, [table]))
    if entry["about"]:
        blocks.append(Folded("What it is, and what was chosen", [Text(entry["about"])]))
    return [*blocks, Text(_footer(entry), footer=True)]


def numbers_of(entry: dict[str, Any]) -> list[Number]:
    """The numbers of a record."""
    return [Number.read(number) for number in entry["numbers"]]


def _stand_in(entry: dict[str, Any]) -> str:
    return entry.get("stand_in", "")


def _runs(entry: dict[str, Any]) -> str:
    """The runs of its numbers, from few to many."""
    runs = sorted({n.runs for n in numbers_of(entry) if n.runs is not None})
    if not runs:
        return f"{entry['runs']:,}"
    return f"{runs[0]:,}" if len(runs) == 1 else f"{runs[0]:,} to {runs[-1]:,}"


def _widths(compared: Sequence[Number]) -> str:
    """By how much those that do not differ could."""
    halves = sorted(n.resolution for n in compared if n.agreement != "differs")
    if not halves:
        return ""
    low, high = f"{halves[0]:.2f}", f"{halves[-1]:.2f}"
    return f"± {low}" if low == high else f"± {low} to {high}"


def _verdict(compared: Sequence[Number]) -> str:
    if not compared:
        return ""
    differ = sum(n.agreement == "differs" for n in compared)
    within = _widths(compared)
    if not differ:
        return f"None of {len(compared)} published numbers differs; the resolution is {within}."
    text = f"{differ} of {len(compared)} published numbers differ{'s' * (differ == 1)}"
    return f"{text}; of the others the resolution is {within}." if within else f"{text}."


def _compared(numbers: Sequence[Number]) -> list[list[str]]:
    """Ours and the published, both with intervals."""
    varying = len({n.runs for n in numbers}) > 1
    rows = [["", "ours", *["runs"] * varying, "published", "verdict"]]
    for n in numbers:
        runs, known = n.published_runs, n.published or 0.0
        theirs = _rate(known, *wilson(round(known * runs), runs)) if runs else _plain(known)
        word = n.agreement
        if word != "differs":
            word += f", ± {n.resolution:.2f}"
        rows.append([n.label, _ours(n), *[f"{n.runs or 0:,}"] * varying, theirs, word])
    return rows


def _beside(numbers: Sequence[Number]) -> list[list[str]] | None:
    """Ours (published) as a grid; ≠ where they differ."""

    def cell(n: Number) -> str:
        return f"{n.ours:.3f} ({n.published:.3f}){' ≠' * (n.agreement == 'differs')}"

    grid = _grid(numbers, cell)
    return grid and [["ours (published)", *grid[0][1:]], *grid[1:]]


def _listed(numbers: Sequence[Number]) -> list[list[str]]:
    return [["", "ours"], *([n.label, _ours(n)] for n in numbers)]


def _grid(
    numbers: Sequence[Number], cell: Callable[[Number], str] | None = None
) -> list[list[str]] | None:
    """Labels "series, name = value" as a row a series and a column a value; None of others."""
    cells: dict[str, dict[str, str]] = {}
    columns: dict[str, None] = {}
    for n in numbers:
        series, _, at = n.label.rpartition(", ")
        if not series or " = " not in at:
            return None
        cells.setdefault(series, {})[at] = (cell or _ours)(n)
        columns[at] = None
    if len(columns) == len(numbers):
        return None
    return [
        ["", *columns],
        *([name, *(row.get(at, "") for at in columns)] for name, row in cells.items()),
    ]


def _ours(n: Number) -> str:
    if n.low is None or n.high is None:
        return _plain(n.ours)
    if n.runs is None:  # no rate
        ends = f"{n.ours:.3g} [{n.low:.3g}, {n.high:.3g}]"
        return f"{ends}: {n.interval}" if n.interval else ends
    return _rate(n.ours, n.low, n.high)


def _rate(value: float, low: float, high: float) -> str:
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _plain(value: float) -> str:
    """As many digits as say something: 69 frames, p = 0.0025."""
    return "none" if math.isnan(value) else f"{value:.3g}"


def _footer(entry: dict[str, Any]) -> str:
    settings = "; ".join(
        f"{name} = {_setting(value)}" for name, value in entry.get("settings", {}).items()
    )
    paper = f" (paper: {entry['paper_runs']})" if entry["paper_runs"] else ""
    versions = entry.get("versions", {})
    made = ", ".join(
        f"{name} {versions[name]}" for name in ("ntkmmd-jax", "jax") if name in versions
    )
    time = f"{entry['seconds']:,.0f} s on 2 shared cores"
    if "cpu_seconds" in entry:
        time = f"{entry['cpu_seconds']:,.0f} s of one core"
    runs = _runs(entry)
    start = f"{runs} run{'s' * (runs != '1')}{paper}, seed {entry['seed']}, {time}"
    return f"{start}{f', {made}' if made else ''}. Settings: {settings}."


def _setting(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} {_setting(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_setting, value))
    return str(value)
