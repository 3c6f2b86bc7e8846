"""`ntkmmd detect`: change points of a recorded series, or of frames that come in line by line."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer


def detect(
    series: Annotated[
        str | None, typer.Argument(help="A row per frame: .npy, .npz[:array] or .csv")
    ] = None,
    reference: Annotated[str, typer.Option(help="Frames without change, as 0:300")] = "",
    window: Annotated[
        list[int] | None, typer.Option(help="Frames in the window; may repeat")
    ] = None,
    stride: Annotated[int, typer.Option(help="Frames between two looks")] = 10,
    test: Annotated[str, typer.Option(help="net, ntk, gmmd or hotelling")] = "net",
    level: Annotated[float, typer.Option(help="Probability of a false alarm per look")] = 0.01,
    arl: Annotated[
        float | None, typer.Option(help="Instead: average run length to a false alarm, in frames")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Instead: the threshold")] = None,
    standardize: Annotated[bool, typer.Option(help="Give coordinates spread 1")] = True,
    contiguous: Annotated[
        bool, typer.Option(help="Pilot blocks are runs of neighbours, or frames at random")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of everything random")] = 0,
    change: Annotated[int | None, typer.Option(help="A known change, to mark in the plot")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; a line per event")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the statistic over time here")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the scan here, as .npz")] = None,
    follow: Annotated[bool, typer.Option(help="Take frames from standard input, live")] = False,
    after: Annotated[
        str, typer.Option(help="With --follow, after an alarm: hold or rereference")
    ] = "hold",
    state: Annotated[
        Path | None,
        typer.Option(help="With --follow: go on from this file, and update it"),
    ] = None,
) -> None:
    """Watch a series for a change of its distribution.

    With --follow, frames come as lines of numbers on standard input. The reference is taken from
    SERIES or, without it, from the first lines.
    """
    from ntkmmd_jax import changepoint, plotting
    from ntkmmd_jax.files import read_sample

    windows = window or [100]
    options = {"stride": stride, "test": test, "level": level, "arl": arl, "threshold": threshold}
    options |= {"standardize": standardize, "contiguous": contiguous}
    if follow:
        if len(windows) > 1 or plot is not None or save is not None:
            raise ValueError("--follow takes one --window, and neither --plot nor --save")
        options |= {"window": windows[0], "after": after}
        known = None if series is None else read_sample(series)
        _follow(_frames(sys.stdin), known, reference, state, seed, options, as_json)
        return
    if series is None:
        raise ValueError("give a file with the series, or --follow to read standard input")
    found = changepoint.scan(
        seed,
        read_sample(series),
        reference=_bounds(reference),
        window=windows if len(windows) > 1 else windows[0],
        **options,
    )
    text = [repr(found)]
    if plot is not None:
        plotting.save(found.plot(change=change).figure, plot)
        text.append(f"plot: {plot}")
    if save is not None:
        text.append(f"saved: {found.save(save)}")
    print(json.dumps(found.to_dict()) if as_json else "\n".join(text))


def _bounds(text: str) -> tuple[int, int]:
    start, _, stop = text.rpartition(":")
    try:
        return int(start or 0), int(stop)
    except ValueError:
        raise ValueError(f"--reference takes frames as 0:300; got {text!r}") from None


def _frames(lines: TextIO) -> Iterator[tuple[int, list[float]]]:
    """Line numbers and frames; what is no frame is reported on stderr and left out."""
    for number, line in enumerate(lines, 1):
        cells = line.replace(",", " ").split()
        if not cells:
            continue
        try:
            yield number, [float(cell) for cell in cells]
        except ValueError:
            _complain(number, f"not a line of numbers: {line.strip()[:60]!r}")


def _complain(number: int, message: str) -> None:
    print(f"ntkmmd: line {number} left out: {message}", file=sys.stderr)


def _follow(
    frames: Iterator[tuple[int, list[float]]],
    known: Any,
    reference: str,
    path: Path | None,
    seed: int,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """Run a detector over frames as they come; a line per event."""
    from ntkmmd_jax.changepoint import Detector, explain
    from ntkmmd_jax.changepoint.detector import as_frames

    if path is not None and path.exists():
        detector = Detector.load(path)
    else:
        start, stop = _bounds(reference)
        time = 0
        if known is None:  # the stream begins with it
            known = [frame for _, (_, frame) in zip(range(stop), frames, strict=False)]
            time = stop
        if len(known) < stop:
            raise ValueError(f"the reference {reference} needs {stop} frames; got {len(known)}")
        detector = Detector(seed, known[start:stop], time=time, **options)
    features = detector.state.reference.shape[1:]
    for number, frame in frames:
        try:
            checked = as_frames(frame, features)
        except ValueError as error:
            _complain(number, str(error))
            continue
        report = detector.update(checked)
        if path is not None and report.looked.any():
            detector.save(path)
        if report.events.any():
            _announce(report, detector.state, explain(detector.state), as_json)
    if path is not None:
        detector.save(path)


def _announce(report: Any, state: Any, found: Any, as_json: bool) -> None:
    event = {
        "time": int(report.times[0]),
        "statistic": float(report.statistics[0]),
        "threshold": float(state.threshold),
        "change": int(found.change),
        "coordinates": found.coordinates[:3].tolist(),
    }
    text = (
        "alarm at frame {time}: {statistic:.4g} > {threshold:.4g}, since about frame {change}, "
        "most in coordinates {coordinates}"
    )
    print(json.dumps(event) if as_json else text.format(**event), flush=True)
