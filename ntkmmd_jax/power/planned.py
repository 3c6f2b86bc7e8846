"""What a plan found: the size of a power, the powers measured, and the curve through them."""

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

from ntkmmd_jax._lib.files import replace_file
from ntkmmd_jax._lib.help import with_help
from ntkmmd_jax.power.curve import Curve
from ntkmmd_jax.power.table import PowerTable

_ERRORS = 1.959964  # standard errors on either side: a 95 % interval


@with_help
@dataclasses.dataclass(frozen=True)
class Plan:
    """The size at which a test reaches a power, as a pilot tells it."""

    table: PowerTable  # a row per size, all parts of the pilot together
    curve: Curve  # the power over the size, through them
    target: float  # the power to reach
    pilot: tuple[int, int]  # its sizes
    largest: int  # the largest size that may be recommended

    @property
    def n(self) -> int | None:
        """The recommended size of each sample; None if no size up to `largest` is."""
        size = self.curve.size(self.target)
        if size > self.largest or math.isinf(self.interval[1]):
            return None
        return max(math.ceil(size), 2)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the size; inf where the pilot is compatible with no difference."""
        return (
            self.curve.size(self.target, _ERRORS),
            self.curve.size(self.target, -_ERRORS),
        )

    @property
    def sizes(self) -> list[int]:
        """The sizes that were tried."""
        return [row.point["n"] for row in self.table.rows]

    def power(self, n: float) -> tuple[float, float, float]:
        """The power at n of each by the curve, and the ends of its 95 % interval."""
        low, high = (self.curve.power(n, sign * _ERRORS) for sign in (-1, 1))
        return self.curve.power(n), low, high

    @property
    def verdict(self) -> str:
        """The answer in words."""
        low, high = (f"{math.ceil(end):,}" if end < 1e9 else "∞" for end in self.interval)
        of_each = f"power {self.target:g} at level {self.curve.level:g}"
        if self.n is not None:
            beyond = " (beyond the pilot, by the curve)" if self.n > self.sizes[-1] else ""
            return f"{of_each}: n = {self.n:,} of each, 95 % interval {low} to {high}{beyond}"
        if math.isinf(self.interval[1]):
            least = f"; if they do, it takes {low} of each at least" if low != "∞" else ""
            why = f"the pilot does not show that the laws differ{least}"
        else:
            why = f"the curve needs {low} to {high}"
        return f"{of_each}: no size up to {self.largest:,} can be recommended: {why}"

    def __repr__(self) -> str:
        x, y = self.pilot
        method = self.table.rows[0].test
        return f"Plan(method={method!r}, pilot of {x} + {y})\n{self.table!r}\n{self.verdict}"

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, ready for JSON: None stands for no end."""
        low, high = (end if math.isfinite(end) else None for end in self.interval)
        return {
            "method": self.table.rows[0].test,
            "n": self.n,
            "low": low,
            "high": high,
            "power": self.target,
            "level": self.curve.level,
            "pilot": list(self.pilot),
            "largest": self.largest,
            "slope": self.curve.slope,
            "error": self.curve.error,
            "rows": [row.to_dict() for row in self.table.rows],
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the measured powers, the curve with its interval, and the size; returns the axes."""
        from ntkmmd_jax import plotting

        return plotting.plan(self, ax=ax)

    def save(self, path: str | os.PathLike) -> Path:
        """Save as JSON; `load` reads it back."""
        text = json.dumps(self.to_dict(), indent=1)
        return replace_file(path, lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Plan":
        """Read a saved plan."""
        table = PowerTable.load(path)
        try:
            saved = json.loads(Path(path).read_text(encoding="utf-8"))
            numbers = [float(saved[name]) for name in ("level", "slope", "error", "power")]
            x, y = map(int, saved["pilot"])
            largest = int(saved["largest"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} does not hold a whole plan ({error!r})") from error
        return cls(table, Curve(*numbers[:3]), numbers[3], (x, y), largest)
