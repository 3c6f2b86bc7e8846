"""`ntkmmd watch`: bet on two files or two pipes, line by line; say when the evidence suffices."""

import contextlib
import itertools
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ntkmmd_jax.cli.inputs import FILES, Header, check_outputs, read_files
from ntkmmd_jax.cli.lines import complain, frames

_AT_ONCE = 64  # blocks of a file


def watch(
    x: Annotated[str, typer.Argument(help=f"p: {FILES}, a pipe, or - for stdin")],
    y: Annotated[str, typer.Argument(help="q, likewise, with the same features")],
    level: Annotated[float, typer.Option(help="Probability of a false rejection, ever")] = 0.05,
    block: Annotated[str, typer.Option(help="Lines of x and of y that are taken together")] = "1,1",
    stop: Annotated[bool, typer.Option(help="End where it rejects")] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a line per event")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the wealth over time here")] = None,
    state: Annotated[
        Path | None, typer.Option(help="Go on from this file if it is there, and update it")
    ] = None,
    header: Header = None,
) -> None:
    """Watch the evidence grow that two streams differ, and stop at any time.

    Rows are taken in the order in which they come, a pair at a time: the first of x and the first
    of y, and so on. The probability that it ever rejects streams of one distribution is at most
    --level, however often one looks. It ends with the shorter stream.
    """
    from ntkmmd_jax import sequential

    check_outputs(plot, None, state)
    sizes = _sizes(block)
    if state is not None and state.exists():
        test = sequential.Watch.load(state)
        _check_settings(test.state, state, level, sizes)
    else:
        test = sequential.Watch(seed, level=level, block=sizes)
    with contextlib.ExitStack() as files:
        live = [_is_live(source) for source in (x, y)]
        rows = [_rows(source, header, files) for source in (x, y)]
        at_once = 1 if any(live) else _AT_ONCE
        report = _watch(test, rows, sizes, at_once, state, stop=stop, as_json=as_json)
    if report is None or report.n == 0:
        raise ValueError(f"no whole block of {sizes[0]} + {sizes[1]} rows came in")
    _say(report, "end", as_json)
    if plot is not None:
        from ntkmmd_jax import plotting

        plotting.save(test.wealth.plot().figure, plot)
        if not as_json:
            print(f"plot: {plot}")


def _watch(
    test: Any,
    rows: list[Iterator[list[float]]],
    sizes: tuple[int, int],
    at_once: int,
    path: Path | None,
    *,
    stop: bool,
    as_json: bool,
) -> Any:
    """Take blocks until a stream ends, or it rejects: the last report."""
    report, rejected = None, test.state is not None and bool(test.state.report().reject)
    while True:
        batches = [
            list(itertools.islice(one, size * at_once))
            for one, size in zip(rows, sizes, strict=True)
        ]
        if not any(batches):
            break
        x, y = (batch or None for batch in batches)
        report = test.update(x, y)
        if path is not None:
            test.save(path)
        if report.reject and not rejected:
            rejected = True
            _say(report, "reject", as_json)
            if stop:
                break
        if not all(batches):
            break
    return report


def _say(report: Any, event: str, as_json: bool) -> None:
    """Print a report; of a rejection, where it was, which may be inside a batch."""
    n, wealth, peak = int(report.n), float(report.log_wealth), float(report.peak)
    at = -math.log(float(report.level))
    crossed = [i for i, one in enumerate(report.path) if one >= at]
    if event == "reject" and crossed:
        n += crossed[0] + 1 - len(report.path)
        wealth = peak = float(report.path[crossed[0]])
    told = {"event": event, "n": n, "log_wealth": wealth}
    told |= {"evalue": math.exp(min(wealth, 700.0)), "pvalue": math.exp(-peak)}
    told |= {"reject": bool(report.reject)}
    if as_json:
        print(json.dumps(told), flush=True)
        return
    words = {"reject": "rejected after {n} blocks", "end": "{n} blocks seen"}[event].format(n=n)
    verdict = "reject H0: p = q" if told["reject"] else "no evidence against H0: p = q"
    numbers = f"wealth {told['evalue']:.4g}, p-value {told['pvalue']:.3g}"
    print(f"{words}: {numbers}; {verdict}", flush=True)


def _sizes(text: str) -> tuple[int, int]:
    try:
        of_x, of_y = (int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--block takes two whole numbers, as 1,5; got {text!r}") from None
    return of_x, of_y


def _check_settings(state: Any, path: Path, level: float, sizes: tuple[int, int]) -> None:
    """Refuse options that say otherwise than the file of a test that is to go on."""
    if state.block != sizes or not math.isclose(float(state.level), level, rel_tol=1e-6):
        raise ValueError(
            f"{path} was made with --block {state.block[0]},{state.block[1]} and --level "
            f"{float(state.level):g}: give the same to go on, or begin another --state"
        )


def _is_live(source: str) -> bool:
    """Whether rows come one by one: standard input, or a pipe."""
    return source == "-" or (Path(source).exists() and not Path(source).is_file())


def _rows(source: str, header: bool | None, files: contextlib.ExitStack) -> Iterator[list[float]]:
    """The rows of a file, or the lines of a pipe as they come."""
    if not _is_live(source):
        return iter(read_files([source], header)[0].values)
    if source == "-":
        return _finite(frames(sys.stdin, source), source)
    pipe = Path(source).open(encoding="utf-8")  # noqa: SIM115 - the stack closes it
    return _finite(frames(files.enter_context(pipe), source), source)


def _finite(given: Iterator[tuple[int, list[float]]], source: str) -> Iterator[list[float]]:
    """Frames of finite numbers, of the width of the first; others are reported and left out."""
    width = None
    for number, frame in given:
        width = width or len(frame)
        if len(frame) != width:
            complain(number, f"{len(frame)} numbers; the first had {width}", source)
        elif not all(map(math.isfinite, frame)):
            complain(number, "not finite", source)
        else:
            yield frame
