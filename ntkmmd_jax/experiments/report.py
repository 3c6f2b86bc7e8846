"""Run experiments one after the other, and report all that lie in a folder."""

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ntkmmd_jax._lib.files import replace_file
from ntkmmd_jax.experiments.experiment import Context, Experiment
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
    entries = [json.loads(path.read_text()) for path in found]
    text = "\n".join(_markdown(entry) for entry in entries)
    replace_file(out / "report.md", lambda file: file.write(f"# Reproduction\n\n{text}".encode()))
    page = "\n".join(_html(entry, out) for entry in entries)
    style = "body{font:15px sans-serif;max-width:70em;margin:2em auto}img{max-width:100%}"
    style += "td,th{padding:.1em .8em;text-align:left}"
    head = f"<!doctype html><meta charset=utf-8><title>Reproduction</title><style>{style}</style>"
    replace_file(out / "report.html", lambda file: file.write((head + page).encode()))


def _rows(entry: dict[str, Any]) -> list[list[str]]:
    """The table, its head first: the experiment's own, or a line a number."""
    if entry.get("table"):
        return entry["table"]
    rows = [["", "ours", "95 % interval", "published", "agreement"]]
    for number in entry["numbers"]:
        low, high, published = number["low"], number["high"], number["published"]
        interval = "" if low is None else f"[{low:.3f}, {high:.3f}]"
        shown = "" if published is None else f"{published:.3f}"
        ours = f"{number['ours']:.3f}"
        rows.append([number["label"], ours, interval, shown, number["agreement"]])
    return rows


def _summary(entry: dict[str, Any]) -> str:
    compared = [n["agreement"] for n in entry["numbers"] if n["agreement"]]
    verdict = f"{compared.count('agrees')} of {len(compared)} published numbers lie in the joint "
    start = f"{verdict}95 % Monte Carlo interval; " if compared else ""
    paper = f" (paper: {entry['paper_runs']})" if entry["paper_runs"] else ""
    return f"{start}{entry['runs']} runs{paper}, {entry['seconds']:.0f} s, seed {entry['seed']}."


def _markdown(entry: dict[str, Any]) -> str:
    lines = [f"## {entry['id']}: {entry['title']}", "", _summary(entry), ""]
    lines += [text + "\n" for text in (entry["remarks"], entry["about"]) if text]
    head, *rows = _rows(entry)
    lines += [f"![{entry['id']}]({entry['id']}.png)", "", f"| {' | '.join(head)} |"]
    lines += ["|" + "---|" * len(head)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, ""])


def _html(entry: dict[str, Any], out: Path) -> str:
    picture = base64.b64encode((out / f"{entry['id']}.png").read_bytes()).decode()
    cells = [
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(entry)
    ]
    return (
        f"<h2>{entry['id']}: {html.escape(entry['title'])}</h2><p>{_summary(entry)}</p>"
        f"<p>{html.escape(entry['remarks'])}</p><p>{html.escape(entry['about'])}</p>"
        f'<img src="data:image/png;base64,{picture}" alt="{entry["id"]}">'
        f"<table>{''.join(cells)}</table>"
    )
