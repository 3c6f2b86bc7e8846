"""The result of a power sweep: one row per test and grid point, with intervals of Wilson (1927)."""

import csv
import dataclasses
import io
import json
import math
import os
from pathlib import Path
from typing import Any

from ntkmmd_jax._lib.files import replace_file
from ntkmmd_jax._lib.help import with_help
from ntkmmd_jax.power.checkpoint import is_count, is_duration


@with_help
@dataclasses.dataclass(frozen=True)
class PowerRow:
    """How often one test rejected at one grid point."""

    test: str  # its name
    point: dict[str, Any]  # of the grid
    n_runs: int  # replicas
    rejections: int  # of these
    seconds: float  # of the whole cell: its tests run together, on the same data
    failures: int = 0  # replicas without a verdict: their p-value is NaN
    stops: list[int] | None = None  # of a test by betting: the block at which each one rejected

    def stopping(self, share: float) -> float:
        """Blocks until a share of all replicas was rejected; infinite if so many never were."""
        if self.stops is None:
            raise ValueError(f"{self.test!r} does not stop early: it has no stopping times")
        if not 0 < share <= 1:
            raise ValueError(f"the share of replicas must lie in (0, 1]; got {share}")
        needed = math.ceil(share * self.n_runs)
        return sorted(self.stops)[needed - 1] if needed <= len(self.stops) else math.inf

    @property
    def power(self) -> float:
        """The fraction of all replicas that were rejected; one without a verdict was not."""
        return self.rejections / self.n_runs

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return wilson(self.rejections, self.n_runs)[0]

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        return wilson(self.rejections, self.n_runs)[1]

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values, interval included."""
        names = (
            "test",
            "point",
            "n_runs",
            "rejections",
            "power",
            "low",
            "high",
            "seconds",
            "failures",
        )
        stops = {} if self.stops is None else {"stops": self.stops}
        return {name: getattr(self, name) for name in names} | stops


def wilson(successes: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's interval of a proportion: right at 0 and 1 too, where the usual one has no width.

    >>> [round(end, 4) for end in wilson(0, 10)]
    [0.0, 0.2775]
    """
    p = successes / n
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    # At 0 and 1 the end is p itself, which rounding must not miss.
    return max(min(centre - half, p), 0.0), min(max(centre + half, p), 1.0)


@with_help
@dataclasses.dataclass(frozen=True)
class PowerTable:
    """The rows of a sweep, in the order of the grid."""

    rows: list[PowerRow]  # test, point, n_runs, rejections, power, low, high, seconds

    def __repr__(self) -> str:
        failed = any(row.failures for row in self.rows)
        stopped = any(row.stops is not None for row in self.rows)
        head = ["test", *self._parameters(), "power", "95 % interval", "rejections"]
        lines = [head + ["no verdict"] * failed + ["stopped (50, 80, 95 %)"] * stopped]
        for row in self.rows:
            point = [_short(row.point.get(name, "")) for name in self._parameters()]
            interval = f"[{row.low:.3f}, {row.high:.3f}]"
            counts = f"{row.rejections}/{row.n_runs}"
            line = [row.test, *point, f"{row.power:.3f}", interval, counts]
            lines.append(line + [str(row.failures)] * failed + [_stopping(row)] * stopped)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def _parameters(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row.point))

    def to_csv(self, path: str | os.PathLike | None = None) -> str:
        """The table as comma-separated text, one column per grid parameter; written if a path."""
        text = io.StringIO()
        names = list(self._flat()[0]) if self.rows else []
        writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._flat())
        if path is not None:
            replace_file(path, lambda file: file.write(text.getvalue().encode()))
        return text.getvalue()

    def to_dataframe(self) -> Any:
        """The table as a pandas data frame, if pandas is there."""
        import pandas as pd

        return pd.DataFrame(self._flat())

    def _flat(self) -> list[dict[str, Any]]:
        return [
            {
                "test": row.test,
                **{name: _named(row.point.get(name)) for name in self._parameters()},
                **{k: v for k, v in row.to_dict().items() if k not in ("test", "point", "stops")},
            }
            for row in self.rows
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw power over the first grid parameter, a line per test; returns the axes."""
        from ntkmmd_jax import plotting

        return plotting.power(self, ax=ax)

    def save(self, path: str | os.PathLike) -> Path:
        """Save as JSON; `load` reads it back."""
        text = json.dumps({"rows": [row.to_dict() for row in self.rows]}, indent=1, default=_named)
        return replace_file(path, lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "PowerTable":
        """Read a saved table."""
        try:
            rows = json.loads(Path(path).read_text(encoding="utf-8"))["rows"]
            return cls([_row(i, row) for i, row in enumerate(rows)])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else repr(error)
            raise ValueError(f"{path} does not hold a whole power table ({reason})") from error


def _row(i: int, saved: Any) -> PowerRow:
    """A row as it was saved; refuse what cannot be one."""
    later = ("failures", "stops")  # which earlier versions did not write
    names = [field.name for field in dataclasses.fields(PowerRow)]
    values = {name: saved[name] for name in names if name in saved or name not in later}
    row = PowerRow(**values)
    counts = (row.n_runs, row.rejections, row.failures)
    if not (isinstance(row.test, str) and isinstance(row.point, dict)):
        raise ValueError(f"row {i}: test must be a name and point a mapping")
    if not all(map(is_count, counts)) or not 0 < row.n_runs >= row.rejections + row.failures:
        raise ValueError(
            f"row {i}: {row.rejections} rejections and {row.failures} failures of {row.n_runs} runs"
        )
    if row.stops is not None and not (
        len(row.stops) == row.rejections and all(map(is_count, row.stops))
    ):
        raise ValueError(f"row {i}: {row.rejections} rejections, but stops {row.stops!r:.60}")
    if not is_duration(row.seconds):
        raise ValueError(f"row {i}: seconds = {row.seconds!r} is no duration")
    return row


def _stopping(row: PowerRow) -> str:
    """When half, 80 and 95 % of the replicas were rejected."""
    if row.stops is None:
        return ""
    times = (row.stopping(share) for share in (0.5, 0.8, 0.95))
    return " / ".join("never" if math.isinf(time) else str(time) for time in times)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(_named(value))


def _named(value: Any) -> Any:
    """A value of the grid; a function (an activation, say) by its name."""
    return getattr(value, "__name__", repr(value)) if callable(value) else value
