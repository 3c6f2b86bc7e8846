"""What an experiment is, what comes out of it, and how it is written down."""

import dataclasses
import inspect
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ntkmmd_jax._lib.files import replace_file
from ntkmmd_jax._lib.versions import versions
from ntkmmd_jax.power.grid import Sampler
from ntkmmd_jax.power.sweep import power_sweep
from ntkmmd_jax.power.table import PowerRow, PowerTable, wilson


@dataclasses.dataclass(frozen=True)
class Number:
    """One number of ours, with its interval, beside the published one."""

    label: str  # "series, name = value", for what is drawn as a curve
    ours: float
    low: float | None = None
    high: float | None = None
    runs: int | None = None
    published: float | None = None
    published_runs: int | None = None
    interval: str = ""  # what [low, high] is, if not the 95 % interval of a rate

    @classmethod
    def read(cls, entry: dict[str, Any]) -> "Number":
        """A number as a record has it, of this version or an earlier one."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: entry[name] for name in names if name in entry})

    @property
    def difference(self) -> tuple[float, float] | None:
        """The 95 % interval of ours − published; None where nothing is published.

        Of two rates, Newcombe's (1998): the square root of the summed squares of both Wilson
        intervals' arms, right at 0 and 1 too; and half of a published tenth of a percent, as
        rounded. Of any other number, our own interval, moved.
        """
        p, q = self.ours, self.published
        if q is None or self.low is None or self.high is None:
            return None
        if self.runs is None or self.published_runs is None:
            return self.low - q, self.high - q
        low, high = wilson(round(q * self.published_runs), self.published_runs)
        below, above = math.hypot(p - self.low, high - q), math.hypot(self.high - p, q - low)
        return p - q - below - 5e-4, p - q + above + 5e-4

    @property
    def resolution(self) -> float:
        """How far a published number could lie away and not be told from ours."""
        low, high = self.difference or (math.nan, math.nan)
        return (high - low) / 2

    @property
    def agreement(self) -> str:
        """Whether the published number differs from ours, as far as the runs of both can tell."""
        found = self.difference
        if found is None:
            return ""
        return "not distinguishable" if found[0] <= 0 <= found[1] else "differs"


def power_number(row: PowerRow, label: str, published: float | None, runs: int = 500) -> Number:
    """A row of a power table beside a published power over so many runs."""
    return Number(label, row.power, row.low, row.high, row.n_runs, published, runs)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    settings: dict[str, Any]
    numbers: list[Number]
    figure: Any = None  # matplotlib's; None: what the experiment draws of its numbers
    remarks: str = ""  # what came out, and why it differs from the paper where it does
    table: list[list[str]] | None = None  # to report in place of one line a number; head first


@dataclasses.dataclass(frozen=True)
class Context:
    """How an experiment is run."""

    identifier: str
    n_runs: int
    out: Path
    seed: int = 0
    devices: int | None = None
    progress: bool = True
    data: str = ""  # one of the experiment's, if it reads any
    spent: list[float] = dataclasses.field(default_factory=list)  # seconds, sweep by sweep

    def sweep(
        self, name: str, tests: Mapping[str, Any], sampler: Sampler, grid: dict, **options: Any
    ) -> PowerTable:
        """A power sweep with a checkpoint of its own, so that the experiment resumes."""
        folder = self.out / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        options = {"n_runs": self.n_runs, "devices": self.devices, **options}
        plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
        table = power_sweep(
            self.seed,
            tests,
            sampler,
            grid,
            checkpoint=folder / f"{self.identifier}-{plain}.jsonl",
            progress=self.progress,
            **options,
        )
        self.spent.append(sum(row.seconds for row in table.rows) / len(tests))
        return table


# What data can stand in for others that are not at hand: said in report and picture, once for all.
STAND_INS = {
    "digits": "scikit-learn's 8 × 8 digits, not MNIST",
    "synthetic": "synthetic motions, not MSRC-12",
}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper."""

    identifier: str
    title: str
    paper_runs: int | None  # Monte Carlo replicas in the paper
    runs: int  # by default
    minutes: float  # that takes on 2 cores
    run: Callable[[Context], Outcome]
    uses_lapack: bool = False  # see `use_cores`
    data: tuple[str, ...] = ()  # what it reads, and what can stand in for it
    load: Callable[[str], Any] | None = None  # reads it, or says where it should be
    draw: Callable[[list[Number]], Any] | None = None  # a picture of the numbers alone
    because: str = ""  # why numbers differ from the published ones, in a line

    @property
    def about(self) -> str:
        """What was chosen where the paper is silent: the docstring of its file."""
        text = inspect.getmodule(self.run).__doc__ or ""
        return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))

    def __call__(self, context: Context) -> dict[str, Any]:
        """Run it; write ID.json and ID.png into the context's folder; return the entry."""

        from ntkmmd_jax import plotting

        start, worked = time.perf_counter(), time.process_time()
        outcome = self.run(context)
        seconds, worked = time.perf_counter() - start, time.process_time() - worked
        stand_in, numbers = STAND_INS.get(context.data, ""), outcome.numbers
        if stand_in:  # nothing is published of it
            numbers = [dataclasses.replace(n, published=None, published_runs=None) for n in numbers]
        figure: Any = outcome.figure if self.draw is None else self.draw(numbers)
        if stand_in:
            figure.suptitle(f"Stand-in: {stand_in}")
        entry = {
            "id": self.identifier,
            "title": self.title,
            "settings": outcome.settings,
            "runs": context.n_runs,
            "paper_runs": self.paper_runs,
            "seed": context.seed,
            "stand_in": stand_in,
            "about": self.about,
            "remarks": outcome.remarks,
            "seconds": round(max(seconds, sum(context.spent)), 1),  # before an interruption, too
            "cpu_seconds": round(worked, 1),  # of this process: what others' work does not stretch
            "numbers": [
                {**dataclasses.asdict(number), "agreement": number.agreement} for number in numbers
            ],
            "table": outcome.table,
            "versions": versions(),
        }
        context.out.mkdir(parents=True, exist_ok=True)
        plotting.save(figure, context.out / f"{self.identifier}.png")
        text = json.dumps(entry, indent=1, ensure_ascii=False)
        replace_file(
            context.out / f"{self.identifier}.json", lambda file: file.write(text.encode())
        )
        return entry
