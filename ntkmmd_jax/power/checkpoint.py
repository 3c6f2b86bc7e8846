"""The log of a sweep on disk: a line of JSON per finished batch, appended whole or not at all.

The first line says what the sweep is; that of another one is refused. A last line without its
end (the process was killed while writing) is dropped. An append that fails, as on a full disk, is
taken back, and everything before it stays. Every line is checked when it is read: a batch whose
counts cannot be, or that does not follow the one before it, is an error that names the line.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

_HEAD = b'{"configuration": '  # how the first line begins
_SHOWN = 200  # characters of a value in a message


class Checkpoint:
    """An append-only log of finished batches."""

    def __init__(self, path: str | os.PathLike, configuration: dict[str, Any]) -> None:
        """Open the log at `path`, or begin one; refuse that of another configuration."""
        self.path = Path(path)
        self.configuration = json.loads(json.dumps(configuration))
        self.entries: list[dict[str, Any]] = []
        if self.path.exists() and self.path.stat().st_size:
            self._read()
        if not self.path.exists() or not self.path.stat().st_size:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"configuration": self.configuration})

    def add(self, entry: dict[str, Any]) -> None:
        """Append an entry and wait until it is on disk."""
        self._append(entry)
        self.entries.append(entry)

    def totals(
        self, n_cells: int, n_tests: int, n_runs: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sum up the recorded batches of a sweep.

        Returns:
            Finished replicas (cells,); rejections and failures of every test (cells, 2, tests);
            seconds (cells,).
        """
        finished = np.zeros(n_cells, np.int32)
        counts = np.zeros((n_cells, 2, n_tests), np.int32)
        seconds = np.zeros(n_cells)
        for number, entry in enumerate(self.entries, 2):  # line 1 is the configuration
            if wrong := _wrong(entry, finished, n_tests, n_runs):
                raise self._damaged(number, wrong)
            cell = entry["cell"]
            finished[cell] = entry["to"]
            counts[cell] += np.asarray([entry["rejections"], entry["failures"]], np.int32)
            seconds[cell] += entry["seconds"]
        return finished, counts, seconds

    def stops(self, cell: int, test: str, blocks: int) -> np.ndarray:
        """How many replicas of a test stopped at each block, shape (blocks,)."""
        mine = [entry["stops"][test] for entry in self.entries if entry["cell"] == cell]
        return np.bincount(np.concatenate([[], *mine]).astype(int), minlength=blocks)

    def _read(self) -> None:
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]  # what follows the last line end is torn
        if not text.startswith(_HEAD[: len(text)]):
            raise ValueError(
                f"{self.path} is not the checkpoint of a sweep: it begins with {text[:20]!r}"
            )
        first, *self.entries = self._parsed(whole) or [{"configuration": self.configuration}]
        if (found := first["configuration"]) != self.configuration:
            raise ValueError(
                f"{self.path} is the checkpoint of another sweep: "
                + "; ".join(_differences(found, self.configuration))
                + ". Use another path, or remove it"
            )
        if len(whole) < len(text):
            os.truncate(self.path, len(whole))

    def _parsed(self, text: bytes) -> list[dict[str, Any]]:
        lines = []
        for number, line in enumerate(text.split(b"\n")[:-1], 1):
            try:
                lines.append(json.loads(line))
            except (ValueError, RecursionError) as error:  # no JSON, or no text at all
                raise self._damaged(number, f"no entry, but {error}") from error
        return lines

    def _damaged(self, number: int, reason: str) -> ValueError:
        return ValueError(
            f"{self.path}, line {number}: {reason}. The file is damaged: remove this line and "
            "those after it, or start anew"
        )

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            before = os.fstat(descriptor).st_size
            try:
                written = os.write(descriptor, line)
                if written != len(line):
                    raise OSError(f"only {written} of {len(line)} bytes could be written")
                os.fsync(descriptor)
            except OSError as error:
                os.ftruncate(descriptor, before)
                raise OSError(
                    f"{self.path}: cannot record a finished batch ({error}); what was recorded "
                    "before is kept, and the sweep can be resumed"
                ) from error
        finally:
            os.close(descriptor)


def _wrong(entry: Any, finished: np.ndarray, n_tests: int, n_runs: int) -> str:
    """What cannot be in the entry of a batch, given the replicas finished before; else ""."""
    names = ("cell", "from", "to", "rejections", "failures", "seconds")
    if not isinstance(entry, dict):
        return "it is no entry of a batch"
    if missing := [name for name in names if name not in entry]:
        return f"it lacks {missing}"
    cell, first, last, rejections, failures, seconds = (entry[name] for name in names)
    if not is_count(cell) or cell >= len(finished):
        return f"there is no cell {cell!r} among {len(finished)}"
    if not is_count(first) or not is_count(last) or not finished[cell] == first < last <= n_runs:
        return (
            f"the batches of cell {cell} do not connect: replicas {first!r} to {last!r} of "
            f"{n_runs}, of which {finished[cell]} are finished"
        )
    for name, counts in (("rejections", rejections), ("failures", failures)):
        if not isinstance(counts, list) or len(counts) != n_tests or not all(map(is_count, counts)):
            return f"{name} must be {n_tests} counts, one a test; got {_shown(counts)}"
    if max(map(sum, zip(rejections, failures, strict=True))) > last - first:
        return f"rejections {rejections} and failures {failures} of {last - first} replicas"
    if not is_duration(seconds):
        return f"seconds = {_shown(seconds)} is no duration"
    return _wrong_stops(entry.get("stops", {}), max(rejections))


def _wrong_stops(stops: Any, most: int) -> str:
    """What cannot be in the blocks at which replicas stopped, each of them a rejection."""
    lists = stops.values() if isinstance(stops, dict) else [None]
    for blocks in lists:
        if not isinstance(blocks, list) or not all(map(is_count, blocks)) or len(blocks) > most:
            return f"stops must be blocks of at most {most} replicas; got {_shown(stops)}"
    return ""


def is_count(value: Any) -> bool:
    """Whether a value read from a file is a whole number, not negative."""
    return type(value) is int and value >= 0


def is_duration(value: Any) -> bool:
    """Whether a value read from a file is a number of seconds."""
    return type(value) in (int, float) and value >= 0 and math.isfinite(value)


def _differences(found: Any, wanted: Any, name: str = "") -> list[str]:
    """Where two configurations differ, each as `name: found there, wanted here`."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = list(dict.fromkeys([*found, *wanted]))
        parts = [
            _differences(found.get(key), wanted.get(key), f"{name}.{key}" if name else key)
            for key in keys
            if found.get(key) != wanted.get(key)
        ]
        return [line for part in parts for line in part]
    why = (
        " (what it computes: a function of the same name has changed, or the library, or JAX)"
        if name.startswith("programs.")
        else ""
    )
    return [f"{name or 'it'} was {_shown(found)}, now {_shown(wanted)}{why}"]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
