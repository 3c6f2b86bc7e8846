"""Run experiments one after the other, and report all that lie in a folder."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ntkmmd_jax._lib.files import replace_file
from ntkmmd_jax.experiments.blocks import markdown
from ntkmmd_jax.experiments.blocks import page as html_page
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number
from ntkmmd_jax.experiments.pages import pages
from ntkmmd_jax.experiments.registry import EXPERIMENTS


def reproduce(
    identifiers: Sequence[str],
    *,
    runs: int | None = None,
    out: Path | str = "reproduction",
    devices: int | None = None,
    resume: bool = False,
    seed: int = 0,
    progress: bool = True,
    data: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Run figures and tables of the paper, and write `ID.json`, `ID.png` and a report of all.

    Args:
        identifiers: Some of `EXPERIMENTS`, or "all".
        runs: Monte Carlo replicas; fewer give wider intervals, never other settings.
        out: The folder to write into.
        devices: As for `power_sweep`.
        resume: Whether to go on with what an interrupted run has left there.
        seed: Of everything random.
        progress: Whether to show progress bars.
        data: Stand-ins for data that you do not have, some of "digits" (scikit-learn's, for MNIST)
            and "synthetic" (for MSRC-12).
    """
    chosen = named(identifiers)
    if runs is not None and runs < 1:
        raise ValueError(f"runs must be at least 1; got {runs}")
    read = _data(chosen, [data] if isinstance(data, str) else list(data))
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    entries = []
    for experiment in chosen:
        name = experiment.identifier
        if not resume:
            for stale in (out / "checkpoints").glob(f"{name}-*.jsonl"):
                stale.unlink()
        context = Context(name, runs or experiment.runs, out, seed, devices, progress, read[name])
        entries.append(experiment(context))
        write_report(out)
    return entries


def _data(chosen: Sequence[Experiment], wanted: list[str]) -> dict[str, str]:
    """What each experiment reads; learn now, and not in an hour, if it is absent."""
    known = sorted({name for experiment in chosen for name in experiment.data})
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"no experiment here reads {unknown}; there is {known}")
    read = {}
    for experiment in chosen:
        picked = [name for name in wanted if name in experiment.data] or [*experiment.data, ""]
        read[experiment.identifier] = picked[0]
        if experiment.load is not None:
            try:
                experiment.load(picked[0])
            except FileNotFoundError as error:
                stand_in = experiment.data[-1]
                raise FileNotFoundError(
                    f"{error}; or let something else stand in: --data {stand_in}"
                ) from error
    return read


def named(identifiers: Sequence[str]) -> list[Experiment]:
    """The experiments of these identifiers; "all" are all of them."""
    known = f"{', '.join(EXPERIMENTS)}, or all"
    if not identifiers:
        raise ValueError(f"name what to reproduce: {known}")
    names = list(EXPERIMENTS) if "all" in identifiers else list(identifiers)
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        raise ValueError(f"unknown {unknown}; the known ones are {known}")
    return [EXPERIMENTS[name] for name in names]


def write_report(out: Path) -> None:
    """`report.md` and `report.html` of every experiment whose entry is in a folder."""
    found = [out / f"{name}.json" for name in EXPERIMENTS if (out / f"{name}.json").exists()]
    blocks = pages([json.loads(path.read_text(encoding="utf-8")) for path in found])
    text, page = markdown(blocks), html_page("The paper, reproduced", blocks, out)
    replace_file(out / "report.md", lambda file: file.write(text.encode()))
    replace_file(out / "report.html", lambda file: file.write(page.encode()))


def redraw(out: Path) -> list[str]:
    """Draw again, from their records, the pictures that show numbers alone; says which."""
    from ntkmmd_jax import plotting

    drawn = []
    for name, experiment in EXPERIMENTS.items():
        path = out / f"{name}.json"
        if experiment.draw is not None and path.exists():
            numbers = json.loads(path.read_text(encoding="utf-8"))["numbers"]
            figure = experiment.draw([Number.read(number) for number in numbers])
            plotting.save(figure, out / f"{name}.png")
            drawn.append(name)
    return drawn
