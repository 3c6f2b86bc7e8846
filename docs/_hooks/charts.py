"""False alarms of charts, read off their record when the site is built.

    <!-- false alarms: ntk -->     looks in alarm in %, for a wanted 1 %
    <!-- run lengths: ntk -->      frames to a false alarm, for a wanted 1,000
    {{ false alarms }}             how many cells keep their promise, and which do not
    {{ run lengths }}              likewise

The record is `docs/benchmarks/false_alarms.json`, of `benchmarks/false_alarms.py … record=FILE`. A
cell says what was found ± one error, and in brackets the share of references that were warned of
and what was found with the others, if these were ten or more.
"""

import json
import re
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parents[1] / "benchmarks" / "false_alarms.json"
WANTED = {"false alarms": ("1 % of the looks", 1.0), "run lengths": ("1,000 frames", 1000.0)}
TABLE = re.compile(r"<!-- (false alarms|run lengths): ([\w-]+) -->")
SUMMARY = re.compile(r"\{\{ (false alarms|run lengths) \}\}")
SHARE = 0.2
ERRORS = 2.0  # from which on a cell is told apart from it

Row = dict[str, Any]


def rows(kind: str) -> list[Row]:
    """All cells of a kind."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    return [row for row in found if row["wanted"] == WANTED[kind][0]]


def table(kind: str, chart: str) -> str:
    """A row for each law of frames, a column for each length of reference and window."""
    known = {_place(row): row for row in rows(kind) if row["chart"] == chart}
    if not known:
        raise KeyError(f"{RECORD.name} has no {kind} of {chart!r}")
    laws = sorted({(d, law) for law, d, *_ in known}, key=lambda one: (one[0], _rank(one[1])))
    sizes = sorted({place[2:] for place in known}, key=lambda size: size[::-1])
    head = [f"`{chart}`", *(f"{reference:,}, window {window}" for reference, window in sizes)]
    lines = [head, ["---"] * len(head)]
    for d, law in laws:
        cells = (known.get((law, d, *size)) for size in sizes)
        lines.append([f"{law}, d = {d}", *(_cell(row) if row else "" for row in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def summary(kind: str) -> str:
    """How many cells of unwarned references are within a fifth of what was wanted."""
    _, wanted = WANTED[kind]
    quiet = [row for row in rows(kind) if "unwarned" in row]
    inside = [row for row in quiet if _distance(row, wanted) <= 0]
    beyond = [row for row in quiet if _distance(row, wanted) > ERRORS]
    text = (
        f"Of {len(quiet)} cells with references that are not warned of, {len(inside)} are within "
        f"a fifth of what was asked for, {len(quiet) - len(inside) - len(beyond)} outside by less "
        f"than {ERRORS:.0f} errors, and {len(beyond)} by more"
    )
    named = "; ".join(_named(row) for row in beyond)
    commits = ", ".join(sorted({row["commit"] for row in rows(kind)}))
    return f"{text}{f' ({named})' if named else ''}. Measured at {commits}."


def on_page_markdown(text: str, **_) -> str:
    """Put the numbers into a page that asks for them."""
    text = TABLE.sub(lambda found: table(*found.groups()), text)
    return SUMMARY.sub(lambda found: summary(found[1]), text)


def _place(row: Row) -> tuple:
    return row["frames"], row["d"], row["reference"], row["window"]


def _rank(law: str) -> int:
    return ["Gaussian", "t(3)", "AR(.5)", "AR(.8)", "returns", "one slow"].index(law)


def _distance(row: Row, wanted: float) -> float:
    """From the nearer end of what is within a fifth, in errors; below 0 inside."""
    return (abs(row["unwarned"] - wanted) - SHARE * wanted) / row["unwarned_error"]


def _cell(row: Row) -> str:
    found = f"{_short(row['found'])} ± {_short(row['error'])}"
    warned = f"{row['warned']:.2g}".lstrip("0") or "0"
    if "unwarned" not in row or row["warned"] == 0:
        return f"{found} [{warned}]"
    return f"{found} [{warned}; {_short(row['unwarned'])} ± {_short(row['unwarned_error'])}]"


def _named(row: Row) -> str:
    law, d, reference, window = _place(row)
    found = f"{_short(row['unwarned'])} ± {_short(row['unwarned_error'])}"
    return f"`{row['chart']}`, {law}, d = {d}, {reference:,} frames, windows of {window}: {found}"


def _short(number: float) -> str:
    """As .93, 1.05 or 1,063."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2f}".lstrip("0")
