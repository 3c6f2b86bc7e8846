"""An event: an alarm where the look before had none, and what the window says of it then."""

import dataclasses
from typing import Any

from ntkmmd_jax.changepoint.measures import can_explain, explain
from ntkmmd_jax.changepoint.state import State

_TOLD = 3  # coordinates


@dataclasses.dataclass(frozen=True)
class Event:
    """An alarm where the look before had none.

    Attributes:
        window: Frames in the window.
        time: The frame at which the alarm is raised.
        statistic: T at that look.
        threshold: What it exceeds.
        change: The frame at which the change seems to start (see `explain`); None if the test has
            no witness, or its window was not yet full.
        coordinates: Those that drive the change, the strongest first: three at most; () likewise.
        names: What the columns of these are called, if the series says so.
    """

    window: int
    time: int
    statistic: float
    threshold: float
    change: int | None = None
    coordinates: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The event in plain values, ready for JSON."""
        listed = {name: list(getattr(self, name)) for name in ("coordinates", "names")}
        return {**dataclasses.asdict(self), **listed}

    @classmethod
    def from_dict(cls, made: dict[str, Any]) -> "Event":
        """The event that `to_dict` has described."""
        plain: Any = {name: tuple(v) if isinstance(v, list) else v for name, v in made.items()}
        return cls(**plain)

    def __str__(self) -> str:
        said = f"alarm at frame {self.time}: {self.statistic:.4g} > {self.threshold:.4g}"
        if self.change is None:
            return said
        listed = ", ".join(map(str, self.names or self.coordinates))
        return f"{said}, since about frame {self.change}, most in coordinates {listed}"


def event_at(state: State, time: Any, statistic: Any, columns: Any = None) -> Event:
    """The event of a look, from the state after it: explained, where the test has a witness.

    Args:
        state: After the look.
        time: Its frame.
        statistic: T.
        columns: Names of all coordinates, if they have some.
    """
    told: dict[str, Any] = {"window": state.window, "time": int(time)}
    told |= {"statistic": float(statistic), "threshold": float(state.threshold)}
    if not can_explain(state):
        return Event(**told)
    found = explain(state)
    told["coordinates"] = tuple(found.coordinates[:_TOLD].tolist())
    if columns is not None:
        told["names"] = tuple(str(columns[i]) for i in told["coordinates"])
    return Event(**told, change=int(found.change))
