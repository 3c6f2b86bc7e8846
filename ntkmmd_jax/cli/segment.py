"""`ntkmmd segment`: all changes of a recorded series, each with an interval and a p-value."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from ntkmmd_jax.cli.inputs import FILES, Header, check_outputs, read_files


def segment(
    series: Annotated[str, typer.Argument(help=f"A row per frame: {FILES}")],
    level: Annotated[
        float, typer.Option(help="Probability of any change in a series without one")
    ] = 0.05,
    bin: Annotated[
        int | None,
        typer.Option(help="Frames that may depend on each other; by default, found out"),
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins at most")] = 128,
    permutations: Annotated[int, typer.Option(help="Orders of bins to compare with")] = 999,
    seed: Annotated[int, typer.Option(help="Seed of everything random")] = 0,
    change: Annotated[
        list[int] | None,
        typer.Option(help="A known change, to mark in the plot and to score by; may repeat"),
    ] = None,
    margin: Annotated[int, typer.Option(help="Frames that a change may be off in the score")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw series and changes here")] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar")] = True,
    header: Header = None,
) -> None:
    """Find all changes of a recorded series; none is an answer.

    Every change comes with the frames between which it lies, a p-value, and the coordinates that
    move. If nothing changes, no change is found with probability 1 - level.
    """
    from ntkmmd_jax import changepoint, plotting

    check_outputs(plot, None)
    [table] = read_files([series], header)
    known = change or []
    changepoint.score([], known, margin=margin, n=len(table.values))  # refuses what cannot be
    found = changepoint.segment(
        table,
        level=level,
        bin=bin,
        bins=bins,
        n_permutations=permutations,
        key=seed,
        progress=progress,
    )
    scored = changepoint.score(found, known, margin=margin) if known else None
    if as_json:
        score = {} if scored is None else {"score": dataclasses.asdict(scored)}
        print(json.dumps(found.to_dict() | score), flush=True)
    else:
        print(found, flush=True)
        if scored is not None:
            print(scored)
    # The file comes last: if it cannot be written, the result is there.
    if plot is not None:
        plotting.save(found.plot(known=known).figure, plot)
        if not as_json:
            print(f"plot: {plot}")
