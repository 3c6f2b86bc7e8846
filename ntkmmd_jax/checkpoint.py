"""The record of a sweep on disk: a line of JSON per finished batch, appended whole or not at all.

The first line says what the sweep is; a record of another one is refused. A last line without its
end (the process was killed while writing) is dropped. An append that fails, as on a full disk, is
taken back, and everything before it stays.
"""

import json
import os
from pathlib import Path
from typing import Any


class Checkpoint:
    """An append-only record of finished batches."""

    def __init__(self, path: str | os.PathLike, configuration: dict[str, Any]) -> None:
        """Open the record at `path`, or begin one; refuse that of another configuration."""
        self.path = Path(path)
        self.configuration = json.loads(json.dumps(configuration))
        self.records: list[dict[str, Any]] = []
        if self.path.exists() and self.path.stat().st_size:
            self._read()
        if not self.path.exists() or not self.path.stat().st_size:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"configuration": self.configuration})

    def add(self, record: dict[str, Any]) -> None:
        """Append a record and wait until it is on disk."""
        self._append(record)
        self.records.append(record)

    def _read(self) -> None:
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]  # what follows the last line end is torn
        try:
            first, *records = [json.loads(line) for line in whole.splitlines()] or [None]
            found = None if first is None else first["configuration"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} is not the checkpoint of a sweep ({error!r})") from error
        if found is not None and found != self.configuration:
            raise ValueError(
                f"{self.path} is the checkpoint of another sweep: "
                + "; ".join(_differences(found, self.configuration))
                + ". Use another path, or remove it"
            )
        self.records = records
        if len(whole) < len(text):
            os.truncate(self.path, len(whole))

    def _append(self, record: dict[str, Any]) -> None:
        line = json.dumps(record).encode() + b"\n"
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
    return [f"{name} was {json.dumps(found)}, now {json.dumps(wanted)}"]
