"""`ntkmmd detect`: change points of a recorded series, or of frames that come in line by line."""

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ntkmmd_jax.cli.inputs import FILES, Header, check_outputs, read_files
from ntkmmd_jax.cli.lines import complain, frames

_SETTINGS = ("window", "shortest", "stride", "test", "level", "arl", "threshold", "drift", "block")
_SETTINGS += ("standardize", "after", "seed", "reference", "series")  # what makes a detector


def detect(
    context: typer.Context,
    series: Annotated[
        str | None, typer.Argument(help=f"A row per frame: {FILES}; required without --follow")
    ] = None,
    reference: Annotated[
        str,
        typer.Option(
            help="Frames without change, as 0:300; required, unless a --state goes on",
            show_default=False,
        ),
    ] = "",
    window: Annotated[
        list[int] | None, typer.Option(help="Frames in the window; may repeat")
    ] = None,
    shortest: Annotated[
        int | None, typer.Option(help="Watch all window lengths from this on; of ntk and gmmd")
    ] = None,
    stride: Annotated[int, typer.Option(help="Frames between two looks")] = 10,
    test: Annotated[str, typer.Option(help="A method; `ntkmmd info` lists them")] = "net",
    level: Annotated[float, typer.Option(help="Probability of a false alarm per look")] = 0.01,
    arl: Annotated[
        float | None, typer.Option(help="Instead: average run length to a false alarm, in frames")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Instead: the threshold")] = None,
    standardize: Annotated[bool, typer.Option(help="Give coordinates spread 1")] = True,
    drift: Annotated[
        float | None, typer.Option(help="Add up what the witness gains, less this drift (CUSUM)")
    ] = None,
    block: Annotated[
        int | None, typer.Option(help="Frames that depend on each other; found unless given")
    ] = None,
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
    header: Header = None,
) -> None:
    """Watch a series for a change of its distribution.

    With --follow, frames come as lines of numbers on standard input. The reference is taken from
    SERIES or, without it, from the first lines. A detector that goes on from its --state is what it
    was made to be: options that say otherwise are an error, and those left out are the file's.
    """
    from ntkmmd_jax import changepoint, plotting

    given = _given(context)
    _check_flags(given, follow)
    check_outputs(plot, save, state)
    windows = window or [100]
    options = {"stride": stride, "test": test, "level": level, "arl": arl, "threshold": threshold}
    options |= {"standardize": standardize, "shortest": shortest, "drift": drift, "block": block}
    known = None if series is None else read_files([series], header)[0]
    warnings.showwarning = _show_warning
    if follow:
        if len(windows) > 1:
            raise ValueError("--follow takes one --window")
        options |= {"window": windows[0], "after": after}
        settings = {**options, "seed": seed, "reference": reference, "series": series}
        if state is not None and state.exists():
            _check_settings(state, {name: settings[name] for name in _SETTINGS if name in given})
        _follow(frames(sys.stdin), known, state, settings, as_json)
        return
    if known is None:
        raise ValueError("give a file with the series, or --follow to read standard input")
    found = changepoint.scan(
        seed,
        known,
        reference=_bounds(reference),
        window=windows if len(windows) > 1 else windows[0],
        **options,
    )
    print(json.dumps(found.to_dict()) if as_json else repr(found), flush=True)
    # Files come last: if one cannot be written, the result is there.
    written = [] if save is None else [f"saved: {found.save(save)}"]
    if plot is not None:
        plotting.save(found.plot(change=change).figure, plot)
        written.append(f"plot: {plot}")
    if written and not as_json:
        print("\n".join(written))


def _show_warning(message: Warning | str, *_: Any) -> None:
    """A warning as one line on standard error."""
    print(f"ntkmmd: {message}", file=sys.stderr)


def _given(context: typer.Context) -> set[str]:
    """The parameters that were given on the command line, not left at their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source and source.name != "DEFAULT"}


def _check_flags(given: set[str], follow: bool) -> None:
    """Refuse options that would be ignored."""
    others = {"plot", "save", "change"} if follow else {"after", "state"}
    if ignored := sorted(given & others):
        flags = " and ".join(f"--{name}" for name in ignored)
        raise ValueError(f"{flags}: not {'with' if follow else 'without'} --follow")
    if len(goals := sorted(given & {"level", "arl", "threshold"})) > 1:
        raise ValueError(f"give one of --{' and --'.join(goals)}: each sets the threshold")
    if "header" in given and "series" not in given:
        raise ValueError("--header and --no-header are for a series in a text file: there is none")
    if "change" in given and "plot" not in given:
        raise ValueError("--change marks the plot: give --plot too")


def _check_settings(path: Path, given: dict[str, Any]) -> None:
    """Refuse options that say otherwise than the file of a detector that is to go on."""
    from ntkmmd_jax.changepoint.state import saved_settings

    saved = saved_settings(path)
    for name, value in given.items():
        if name in saved and saved[name] != value:
            raise ValueError(
                f"--{name} {value}, but {path} was made with {saved[name]}: leave it out to go on, "
                "or begin another --state"
            )


def _bounds(text: str) -> tuple[int, int]:
    if not text:
        raise ValueError("give --reference: the frames without change, as 0:300")
    start, _, stop = text.rpartition(":")
    try:
        return int(start or 0), int(stop)
    except ValueError:
        raise ValueError(f"--reference takes frames as 0:300; got {text!r}") from None


def _follow(
    frames: Iterator[tuple[int, list[float]]],
    known: Any,
    path: Path | None,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    """Run a detector over frames as they come; a line per event."""
    from ntkmmd_jax.changepoint import Detector
    from ntkmmd_jax.changepoint.detector import as_frames
    from ntkmmd_jax.changepoint.event import event_at
    from ntkmmd_jax.changepoint.state import saved_settings

    columns = getattr(known, "columns", None)
    if path is not None and path.exists():
        detector, settings = Detector.load(path), saved_settings(path)
    else:
        start, stop = _bounds(settings["reference"])
        time = 0
        if known is None:  # the stream begins with it
            known = [frame for _, (_, frame) in zip(range(stop), frames, strict=False)]
            time = stop
        else:
            known = known.values
        if len(known) < stop:
            needed = f"the reference {settings['reference']} needs {stop} frames"
            raise ValueError(f"{needed}; got {len(known)}")
        about = ("seed", "reference", "series")
        options = {name: value for name, value in settings.items() if name not in about}
        detector = Detector(settings["seed"], known[start:stop], time=time, **options)
    features = detector.state.reference.shape[1:]
    for number, frame in frames:
        try:
            checked = as_frames(frame, features)
        except ValueError as error:
            complain(number, str(error))
            continue
        report = detector.update(checked)
        if path is not None and report.looked.any():
            detector.save(path, **settings)
        if report.events.any():
            event = event_at(detector.state, report.times[0], report.statistics[0], columns)
            print(json.dumps(event.to_dict()) if as_json else event, flush=True)
    if path is not None:
        detector.save(path, **settings)
