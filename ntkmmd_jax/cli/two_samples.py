"""`ntkmmd test`: whether two samples come from the same distribution."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ntkmmd_jax.cli.inputs import (
    FILES,
    Method,
    Options,
    Standardize,
    check_outputs,
    parse_options,
    read_samples,
)


def test(
    x: Annotated[
        str | None, typer.Argument(help=f"Sample of p: {FILES}; required without --demo")
    ] = None,
    y: Annotated[str | None, typer.Argument(help="Sample of q, with the same features")] = None,
    demo: Annotated[bool, typer.Option(help="Use built-in data: a covariance shift")] = False,
    method: Method = None,
    level: Annotated[float, typer.Option(help="Probability of a false rejection")] = 0.05,
    permutations: Annotated[int, typer.Option(help="Label permutations")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of everything random")] = 0,
    standardize: Standardize = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Rows of x and y belong together: swap within pairs")
    ] = False,
    option: Options = None,
    compare: Annotated[bool, typer.Option(help="Also compare trained with exact")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the null and the statistic here")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the result, witness included")] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether .csv files begin with column names"),
    ] = None,
) -> None:
    """Test whether two samples come from the same distribution."""
    import ntkmmd_jax as ntk
    from ntkmmd_jax import plotting

    check_outputs(plot, save)
    options = parse_options(option or [], method)
    sample_x, sample_y = read_samples(x, y, demo, seed, header)
    result = ntk.two_sample_test(
        sample_x,
        sample_y,
        method=method,
        key=seed,
        level=level,
        n_permutations=permutations,
        standardize=standardize,
        paired=paired,
        **options,
    )
    report: dict[str, Any] = result.to_dict()
    text = [repr(result)]
    if result.members is not None:
        text += ["", "its members, the loudest first:", str(result.members)]
    comparison = ntk.compare(seed, sample_x, sample_y) if compare else None
    if comparison is not None:
        report["compare"] = comparison.to_dict()
        text += ["", "trained against exact, on all data:", repr(comparison)]
        text += [
            "T_NTK is not the statistic of the test: it is of the paper's network and of all data, "
            f"as they are; {result.method!r} is: {ntk.methods()[result.method]}"
        ]
    print(json.dumps(report) if as_json else "\n".join(text), flush=True)
    # Files come last: if one cannot be written, the result is there.
    written = [] if save is None else [f"saved: {result.save(save)}"]
    if plot is not None:
        plotting.save(plotting.report(result, comparison), plot)
        written.append(f"plot: {plot}")
    if written and not as_json:
        print("\n" + "\n".join(written))
