"""Numbers of the leaderboard, read off its record when the site is built.

    <!-- leaderboard -->               all methods on all problems, the best mean on top
    {{ power ntk-fuse: blobs }}        one power; a problem by the beginning of its name
    {{ power ntk-fuse: mean }}         the mean over all problems but H0, where refusing is power 0
    {{ leaderboard }}                  what made the numbers: command, versions, runs, seed

The record is `notebooks/reproduction/leaderboard.json` of `ntkmmd reproduce leaderboard`. A method
or problem that it does not have is an error of the build.
"""

import json
import re
from functools import cached_property
from pathlib import Path
from statistics import geometric_mean

RECORD = Path(__file__).parents[2] / "notebooks" / "reproduction" / "leaderboard.json"
POWER = re.compile(r"\{\{ power ([\w-]+): (.+?) \}\}")
NULL = "H0"


class Leaderboard:
    """The record, by method and problem."""

    def __init__(self, path: Path):
        self.entry = json.loads(path.read_text(encoding="utf-8"))
        self.known = {number["label"]: number for number in self.entry["numbers"]}

    @cached_property
    def problems(self) -> list[str]:
        """Their names, in the order of the record, which has other settings too."""
        return [name for name, of in self.entry["settings"].items() if "n" in _fields(of)]

    @cached_property
    def methods(self) -> list[str]:
        """Their names, the best mean power first."""
        found = {label.split(", ")[0] for label in self.known}
        return sorted(found, key=lambda method: (-self.mean(method), method))

    def number(self, method: str, problem: str) -> float | None:
        """A power; None where the method refuses the problem."""
        found = self.known.get(f"{method}, {problem}")
        return found and found["ours"]

    def mean(self, method: str) -> float:
        """The mean power over all problems but H0."""
        shifted = [name for name in self.problems if not name.startswith(NULL)]
        return sum(self.number(method, name) or 0.0 for name in shifted) / len(shifted)

    def power(self, method: str, wanted: str) -> str:
        """In words of a page."""
        if method not in self.methods:
            raise KeyError(f"{RECORD.name} has no method {method!r}, only {self.methods}")
        if wanted == "mean":
            return _short(self.mean(method), 3)
        named = [name for name in self.problems if name.startswith(wanted)]
        if len(named) != 1:
            raise KeyError(f"{wanted!r} begins {len(named)} problems of {self.problems}")
        return _short(self.number(method, named[0]))

    def milliseconds(self, method: str) -> str:
        """The geometric mean over the problems, if they were measured."""
        ends = [f"{method}, {name}, ms" for name in self.problems if not name.startswith(NULL)]
        times = [self.known[end]["ours"] for end in ends if end in self.known]
        return f"{geometric_mean(times):,.0f}" if times else ""

    def table(self) -> str:
        """A row a method, a column a problem."""
        timed = any(self.milliseconds(method) for method in self.methods)
        sizes = self.entry["settings"]
        head = ["", "mean", *["ms"] * timed]
        head += [f"{name}, n = {sizes[name]['n']:,}" for name in self.problems]
        lines = [head, ["---", *["--:"] * (len(head) - 1)]]
        for method in self.methods:
            powers = [self.number(method, name) for name in self.problems]
            best = [_short(power) for power in powers]
            cells = [f"`{method}`", _short(self.mean(method), 3)]
            lines.append([*cells, *[self.milliseconds(method)] * timed, *best])
        rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f'<div class="wide" markdown>\n\n{rows}\n\n</div>\n'

    def source(self) -> str:
        """The command, and what it ran on."""
        entry, versions = self.entry, self.entry["versions"]
        fewer = sorted({n["runs"] for n in entry["numbers"] if n["runs"]} - {entry["runs"]})
        slow = f", slow methods {' or '.join(map(str, fewer))}" if fewer else ""
        return (
            f"`ntkmmd reproduce leaderboard`: ntkmmd_jax {versions['ntkmmd-jax']}, jax "
            f"{versions['jax']}, level .05, {entry['settings']['permutations']} permutations, "
            f"{entry['runs']} runs{slow}, seed {entry['seed']}"
        )


def on_page_markdown(text: str, **_) -> str:
    """Put the numbers into a page that asks for them."""
    if "<!-- leaderboard -->" not in text and "{{ " not in text:
        return text
    board = Leaderboard(RECORD)
    text = text.replace("<!-- leaderboard -->", board.table())
    text = text.replace("{{ leaderboard }}", board.source())
    return POWER.sub(lambda found: board.power(*found.groups()), text)


def _fields(value: object) -> dict:
    return value if isinstance(value, dict) else {}


def _short(power: float | None, digits: int = 2) -> str:
    """As `.67`, `1.00` or `refused`."""
    return "refused" if power is None else f"{power:.{digits}f}".lstrip("0")
