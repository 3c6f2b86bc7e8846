"""`ntkmmd test`: whether two samples come from the same distribution."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ntkmmd_jax.cli.inputs import (
    FILES,
    Header,
    Method,
    Options,
    Standardize,
    check_outputs,
    parse_image,
    parse_options,
    parse_permutations,
    read_samples,
    take_column,
)


def test(
    x: Annotated[
        str | None, typer.Argument(help=f"Sample of p: {FILES}; required without --demo")
    ] = None,
    y: Annotated[str | None, typer.Argument(help="Sample of q, with the same features")] = None,
    demo: Annotated[bool, typer.Option(help="Use built-in data: a covariance shift")] = False,
    method: Method = None,
    level: Annotated[float, typer.Option(help="Probability of a false rejection")] = 0.05,
    permutations: Annotated[
        str, typer.Option(help="Label permutations; or adaptive: as many as the verdict takes")
    ] = "400",
    seed: Annotated[int, typer.Option(help="Seed of everything random")] = 0,
    standardize: Standardize = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Rows of x and y belong together: swap within pairs")
    ] = False,
    strata: Annotated[
        str | None, typer.Option(help="A column by name: labels are permuted within its values")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="A column by name, as of patients: whole groups are permuted")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Also test whether the MMD exceeds this, or stays below")
    ] = None,
    option: Options = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also say which coordinates and samples differ")
    ] = False,
    image: Annotated[
        str | None, typer.Option(help="Explain rows as images of this shape, as 28x28")
    ] = None,
    compare: Annotated[bool, typer.Option(help="Also compare trained with exact")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the null and the statistic here")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the result, witness included")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write one HTML file with verdict, pictures, explanation")
    ] = None,
    header: Header = None,
) -> None:
    """Test whether two samples come from the same distribution."""
    import ntkmmd_jax as ntk
    from ntkmmd_jax import plotting

    check_outputs(plot, save, report=report)
    shape = parse_image(image)
    options = parse_options(option or [], method)
    drawn = parse_permutations(permutations)
    sample_x, sample_y = read_samples(x, y, demo, seed, header)
    sample_x, sample_y, of_strata = take_column(sample_x, sample_y, strata, "--strata")
    sample_x, sample_y, of_groups = take_column(sample_x, sample_y, groups, "--groups")
    result = ntk.two_sample_test(
        sample_x,
        sample_y,
        method=method,
        key=seed,
        level=level,
        n_permutations=drawn,
        standardize=standardize,
        strata=of_strata,
        groups=of_groups,
        paired=paired,
        **options,
    )
    found: dict[str, Any] = result.to_dict()
    text = [repr(result)]
    if result.members is not None:
        text += ["", "its members, the loudest first:", str(result.members)]
    if tolerance is not None:
        tolerated = ntk.tolerance_test(sample_x, sample_y, tolerance, level=level)
        found["tolerance"] = tolerated.to_dict()
        text += ["", repr(tolerated)]
    explanation = None
    if explain or (report is not None and result.witness is not None and groups is None):
        within = (range(result.n_x), range(result.n_y)) if paired else of_strata
        explanation = result.explain(sample_x, sample_y, key=seed, strata=within, image=shape)
    if explain and explanation is not None:
        found["explanation"] = explanation.to_dict()
        text += ["", repr(explanation)]
    comparison = ntk.compare(seed, sample_x, sample_y) if compare else None
    if comparison is not None:
        found["compare"] = comparison.to_dict()
        text += ["", "trained against exact, on all data:", repr(comparison)]
        text += [
            "T_NTK is not the statistic of the test: it is of the paper's network and of all data, "
            f"as they are; {result.method!r} is: {ntk.methods()[result.method]}"
        ]
    print(json.dumps(found) if as_json else "\n".join(text), flush=True)
    # Files come last: if one cannot be written, the result is there.
    written = [] if save is None else [f"saved: {result.save(save)}"]
    if plot is not None:
        plotting.save(plotting.report(result, comparison), plot)
        written.append(f"plot: {plot}")
    if report is not None:
        settings = {"x": x or "built-in data", "y": y or "built-in data", "seed": seed}
        settings |= {"options": " ".join(option or []) or "none", "paired": paired}
        settings |= {"strata": strata or "none", "groups": groups or "none"}
        settings["command"] = shlex.join(["ntkmmd", *sys.argv[1:]])
        written.append(f"report: {result.report(report, explanation, settings=settings)}")
    if written and not as_json:
        print("\n" + "\n".join(written))
