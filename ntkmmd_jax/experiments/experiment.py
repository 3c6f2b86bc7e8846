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
from ntkmmd_jax.power.table import PowerRow, PowerTable


@dataclasses.dataclass(frozen=True)
class Number:
    """One number of ours, with its interval, beside the published one."""

    label: str
    ours: float
    low: float | None = None
    high: float | None = None
    runs: int | None = None
    published: float | None = None
    published_runs: int | None = None

    @property
    def agreement(self) -> str:
        """Whether the published number lies in the joint 95 % Monte Carlo interval of both.

        What is no rate of a number of runs is held against our interval alone.
        """
        if self.published is None or self.low is None or self.high is None:
            return ""
        if self.runs is None or self.published_runs is None:
            return "agrees" if self.low <= self.published <= self.high else "differs"
        n, m = self.runs, self.published_runs
        pooled = (self.ours * n + self.published * m) / (n + m)
        error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
        return "agrees" if abs(self.ours - self.published) <= 1.96 * error + 5e-4 else "differs"


def power_number(row: PowerRow, label: str, published: float | None, runs: int = 500) -> Number:
    """A row of a power table beside a published power over so many runs."""
    return Number(label, row.power, row.low, row.high, row.n_runs, published, runs)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    settings: dict[str, Any]
    numbers: list[Number]
    figure: Any  # matplotlib's
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

    @property
    def about(self) -> str:
        """What was chosen where the paper is silent: the docstring of its file."""
        text = inspect.getmodule(self.run).__doc__ or ""
        return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))

    def __call__(self, context: Context) -> dict[str, Any]:
        """Run it; write ID.json and ID.png into the context's folder; return the entry."""

        from ntkmmd_jax import plotting

        start = time.perf_counter()
        outcome = self.run(context)
        seconds = time.perf_counter() - start
        entry = {
            "id": self.identifier,
            "title": self.title,
            "settings": outcome.settings,
            "runs": context.n_runs,
            "paper_runs": self.paper_runs,
            "seed": context.seed,
            "about": self.about,
            "remarks": outcome.remarks,
            "seconds": round(max(seconds, sum(context.spent)), 1),  # before an interruption, too
            "numbers": [
                {**dataclasses.asdict(number), "agreement": number.agreement}
                for number in outcome.numbers
            ],
            "table": outcome.table,
            "versions": versions(),
        }
        context.out.mkdir(parents=True, exist_ok=True)
        plotting.save(outcome.figure, context.out / f"{self.identifier}.png")
        text = json.dumps(entry, indent=1, ensure_ascii=False)
        replace_file(
            context.out / f"{self.identifier}.json", lambda file: file.write(text.encode())
        )
        return entry
