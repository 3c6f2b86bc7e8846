"""`ntkmmd plan`: how many samples a test needs, from a pilot."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ntkmmd_jax.cli.inputs import (
    FILES,
    LAPACK,
    Header,
    Method,
    Options,
    Standardize,
    check_outputs,
    parse_options,
    read_samples,
)


def plan(
    x: Annotated[
        str | None, typer.Argument(help=f"Pilot of p: {FILES}; required without --demo")
    ] = None,
    y: Annotated[str | None, typer.Argument(help="Pilot of q, with the same features")] = None,
    demo: Annotated[bool, typer.Option(help="Use built-in data: a covariance shift")] = False,
    power: Annotated[float, typer.Option(help="The power to reach")] = 0.8,
    method: Method = None,
    level: Annotated[float, typer.Option(help="Probability of a false rejection")] = 0.05,
    size: Annotated[
        list[int] | None, typer.Option(help="A size to try, of half the pilot at most; may repeat")
    ] = None,
    largest: Annotated[
        int | None, typer.Option(help="Largest size to recommend; by default 10 times the pilot")
    ] = None,
    runs: Annotated[int, typer.Option(help="Subsamples per size")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of everything random")] = 0,
    standardize: Standardize = None,
    option: Options = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the power over the size here")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the plan here, as JSON")] = None,
    devices: Annotated[int | None, typer.Option(help="Devices; on CPU, all cores", min=1)] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar")] = True,
    header: Header = None,
) -> None:
    """Find how many samples of each a test needs for a power, from a pilot of both."""
    import ntkmmd_jax as ntk
    from ntkmmd_jax import plotting

    check_outputs(plot, save)
    # Before the first use of JAX, and to make a test may be one.
    ntk.use_cores(devices, lapack=method in LAPACK or "calibration=asymptotic" in (option or []))
    options: dict[str, Any] = parse_options(option or [], method)
    if standardize is not None:
        options["standardize"] = standardize
    sample_x, sample_y = read_samples(x, y, demo, seed, header)
    found = ntk.plan(
        sample_x,
        sample_y,
        test=method,
        power=power,
        level=level,
        sizes=size or None,
        n_runs=runs,
        key=seed,
        largest=largest,
        devices=devices,
        progress=progress,
        **options,
    )
    print(json.dumps(found.to_dict()) if as_json else repr(found), flush=True)
    # Files come last: if one cannot be written, the result is there.
    written = [] if save is None else [f"saved: {found.save(save)}"]
    if plot is not None:
        plotting.save(found.plot().figure, plot)
        written.append(f"plot: {plot}")
    if written and not as_json:
        print("\n".join(written))
