"""The command line `ntkmmd`: a thin skin over the library. Bad input: one line and exit code 2."""

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from ntkmmd_jax.cli.cache import cache
from ntkmmd_jax.cli.detect import detect
from ntkmmd_jax.cli.inputs import LAPACK, parse_grid, parse_sizes
from ntkmmd_jax.cli.plan import plan
from ntkmmd_jax.cli.segment import segment
from ntkmmd_jax.cli.two_samples import test
from ntkmmd_jax.cli.watch import watch

app = typer.Typer(
    help="Two-sample testing with the neural tangent kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


app.command()(test)
app.command()(detect)
app.command()(plan)
app.command()(watch)
app.command()(segment)
app.command()(cache)


def _say_version(wanted: bool) -> None:
    if wanted:
        from ntkmmd_jax._version import __version__

        print(f"ntkmmd {__version__}")
        raise typer.Exit


@app.callback()
def _before(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version"),
    ] = False,
    keep: Annotated[
        bool,
        typer.Option(
            "--cache/--no-cache",
            envvar="NTKMMD_CACHE",
            help="Keep compiled programs in your cache folder, so that the next command starts "
            "sooner; `ntkmmd cache` shows and clears them",
        ),
    ] = True,
) -> None:
    """Switch on the cache before any command, without a word if there is no place for it."""
    import ntkmmd_jax as ntk

    if keep:
        warnings.filterwarnings("ignore", "compiled programs are not kept", RuntimeWarning)
        ntk.cache()


@app.command()
def sweep(
    family: Annotated[str, typer.Argument(help="Sampler in datasets, as covariance_shift")],
    grid: Annotated[
        list[str], typer.Option("--grid", "-g", help="rho=0:0.16:5 (start:stop:count) or a,b,c")
    ],
    test: Annotated[
        list[str] | None, typer.Option("--test", "-t", help="Method; may repeat")
    ] = None,
    n: Annotated[str, typer.Option(help="Samples of each, or n_x,n_y")] = "200",
    runs: Annotated[int, typer.Option(help="Replicas per cell")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of everything random")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for table, plot and checkpoint")] = Path(
        "sweep"
    ),
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted sweep in --out")] = False,
    batch_size: Annotated[int | None, typer.Option(help="Replicas at once on a device")] = None,
    devices: Annotated[int | None, typer.Option(help="Devices; on CPU, all cores", min=1)] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar")] = True,
    distributed: Annotated[bool, typer.Option(help="Join processes by jax.distributed")] = False,
    coordinator: Annotated[str | None, typer.Option(help="host:port of process 0")] = None,
    processes: Annotated[int | None, typer.Option(help="How many processes")] = None,
    process_id: Annotated[int | None, typer.Option(help="Which of them this is")] = None,
) -> None:
    """Estimate the power of tests over a grid: table as csv and json, plot as png."""
    import jax

    import ntkmmd_jax as ntk
    from ntkmmd_jax import plotting
    from ntkmmd_jax._lib.keys import check_seed

    points, sizes = parse_grid(grid), parse_sizes(n)
    check_seed(seed)
    if not distributed and (coordinator, processes, process_id) != (None, None, None):
        raise ValueError("--coordinator, --processes and --process-id go with --distributed")
    if family not in ntk.datasets.SAMPLERS:
        known = ", ".join(ntk.datasets.SAMPLERS)
        raise ValueError(f"unknown family {family!r}; the known ones are {known}")
    for unknown in set(test or []) - set(ntk.methods()):
        ntk.make_test(unknown)  # refuses it; to make one that is known may be a use of JAX
    if distributed:
        jax.distributed.initialize(coordinator, processes, process_id)
    else:
        ntk.use_cores(devices, lapack=not set(test or []).isdisjoint(LAPACK))
    checkpoint = out / "checkpoint.jsonl"
    if checkpoint.exists() and not resume and jax.process_index() == 0:
        raise ValueError(f"{checkpoint} is there already: --resume it, or choose another --out")
    table = ntk.power_sweep(
        seed,
        test or ["net"],
        getattr(ntk.datasets, family),
        points,
        n=sizes,
        n_runs=runs,
        batch_size=batch_size,
        devices=devices,
        checkpoint=checkpoint,
        progress=progress,
    )
    if jax.process_index() == 0:
        table.to_csv(out / "power.csv")
        table.save(out / "power.json")
        print(table, flush=True)
        plotting.save(table.plot().figure, out / "power.png")
        print(f"\nwritten: {out}/power.csv, power.json, power.png")


@app.command()
def reproduce(
    ids: Annotated[list[str] | None, typer.Argument(help="fig1, tabA1, …, or all")] = None,
    runs: Annotated[int | None, typer.Option(help="Replicas; the default is the paper's")] = None,
    out: Annotated[Path, typer.Option(help="Folder for json, png and the report")] = Path(
        "reproduction"
    ),
    devices: Annotated[int | None, typer.Option(help="Devices; on CPU, all cores", min=1)] = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run in --out")] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random")] = 0,
    progress: Annotated[bool, typer.Option(help="Show progress bars")] = True,
    data: Annotated[
        list[str] | None,
        typer.Option(help="A stand-in: digits for MNIST, synthetic for MSRC-12; may repeat"),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments and stop")] = False,
) -> None:
    """Run figures and tables of the paper, ours beside the published."""
    import ntkmmd_jax as ntk
    from ntkmmd_jax import experiments

    if listing:
        for name, found in experiments.EXPERIMENTS.items():
            often = f"{found.runs} run{'s' * (found.runs > 1)}"
            time = f"{often}, about {found.minutes:g} min on 2 cores"
            paper = f" (paper: {found.paper_runs})" if found.paper_runs else ""
            print(f"{name:8}{found.title} — {time}{paper}")
        return
    chosen = experiments.named(ids or [])
    ntk.use_cores(devices, lapack=any(found.uses_lapack for found in chosen))
    options = {"runs": runs, "out": out, "devices": devices, "resume": resume, "seed": seed}
    for entry in experiments.reproduce(ids or [], **options, data=data or (), progress=progress):
        print(f"{entry['id']}: {entry['title']}, {entry['seconds']:.0f} s")
    print(f"written: {out}/report.md, report.html")


@app.command()
def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Show versions, devices and methods."""
    import jax

    import ntkmmd_jax as ntk
    from ntkmmd_jax._lib.versions import versions

    found = versions()
    devices = [f"{device.platform}:{device.id} ({device.device_kind})" for device in jax.devices()]
    if as_json:
        print(json.dumps({"versions": found, "devices": devices, "methods": ntk.methods()}))
        return
    width = max(map(len, [*found, *ntk.methods()]))
    for title, rows in (("versions", found), ("methods", ntk.methods())):
        print(title)
        print("\n".join(f"  {name:<{width}}  {text}" for name, text in rows.items()))
    print("devices")
    print("\n".join(f"  {device}" for device in devices))


def main() -> None:
    """Run the command line; every foreseeable failure is one line on stderr and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # the command line's own complaints
        if usage is None and not _foreseeable(error):
            raise
        message = usage() if usage else str(error) or type(error).__name__
        if message:  # empty where the help page has already been shown
            print(f"ntkmmd: {' '.join(message.split())}", file=sys.stderr)
        sys.exit(2)


def _foreseeable(error: Exception) -> bool:
    """Bad input, files that are not there, numbers or arrays beyond all bounds."""
    too_large = type(error).__name__ == "JaxRuntimeError" and "RESOURCE_EXHAUSTED" in str(error)
    kinds = (ValueError, TypeError, OSError, ImportError, OverflowError, MemoryError)
    return too_large or isinstance(error, kinds)
