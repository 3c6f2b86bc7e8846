"""What `TwoSampleResult.explain` finds, as tables, words and pictures."""

import dataclasses
from typing import Any

import numpy as np

from ntkmmd_jax._lib.help import with_help
from ntkmmd_jax.twosample.driving import KINDS

_SHOWN = 10  # coordinates in a table of words


@dataclasses.dataclass(frozen=True, eq=False)
class Extremes:
    """The samples in which the witness is most sure."""

    rows: np.ndarray  # (k,) which they are, the surest first
    witness: np.ndarray  # (k,) g
    points: np.ndarray  # (k, d)

    @classmethod
    def of(cls, points: np.ndarray, witness: np.ndarray, k: int) -> "Extremes":
        """The k points (n, d) of the highest witness (n,)."""
        rows = np.argsort(-witness, kind="stable")[:k]
        return cls(rows, witness[rows], points[rows])

    @property
    def turned(self) -> "Extremes":
        """The same, with the sign of the witness turned."""
        return dataclasses.replace(self, witness=-self.witness)

    def to_dict(self) -> dict[str, Any]:
        """Rows and witness as plain numbers."""
        return {"rows": self.rows.tolist(), "witness": self.witness.tolist()}


@dataclasses.dataclass(frozen=True, eq=False)
class WitnessMap:
    """Points in a plane, and the witness in them."""

    labels: tuple[str, str]  # of the two axes
    x: np.ndarray  # (m, 2) points of x, at most 1,000
    y: np.ndarray  # (m', 2)
    of_x: np.ndarray  # (m,) the witness at these points
    of_y: np.ndarray  # (m',)
    # Of points in two dimensions: coordinates of columns and rows, and the witness (rows, columns).
    grid: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None


@with_help
@dataclasses.dataclass(frozen=True, eq=False)
class Explanation:
    """Why two samples differ: coordinates with adjusted p-values, extreme samples, a map.

    `driving` names the coordinates that differ: the probability that any is named where x and y
    have one law is at most the level (`twosample.driving` has what else is promised). Shares,
    samples and map describe the witness of the test, which has its own p-value.
    """

    method: str  # of the test whose witness it is
    level: float  # probability that any coordinate is named if x and y have one law
    n_permutations: int  # relabellings behind the p-values
    sizes: tuple[int, int]  # points of x and of y
    names: tuple[str, ...]  # of the d coordinates
    shape: tuple[int, ...]  # of a sample: (d,), or (h, w) or (h, w, c) of an image
    statistic: np.ndarray  # (d,) in standard deviations over relabellings
    pvalue: np.ndarray  # (d,) adjusted for looking at all coordinates
    scores: np.ndarray  # (d, 7) by `driving.KINDS`; level and spread have the sign of x − y
    partner: np.ndarray  # (d,) with whom dependence has changed most; −1 beyond 128 coordinates
    shares: np.ndarray  # (d,) of the witness's gap between x and y; they add up to it
    most_x: Extremes  # points of x
    most_y: Extremes  # points of y
    map: WitnessMap  # of the witness in a plane

    @property
    def order(self) -> np.ndarray:
        """The coordinates, those that differ most first."""
        return np.lexsort((-self.statistic, self.pvalue))

    @property
    def driving(self) -> list[str]:
        """The names of the coordinates that differ at the level, the strongest first."""
        return [self.names[i] for i in self.order if self.pvalue[i] <= self.level]

    @property
    def is_image(self) -> bool:
        """Whether samples are drawn as images."""
        return len(self.shape) > 1

    @property
    def coordinates(self) -> list[dict[str, Any]]:
        """A row a coordinate, those that differ most first."""
        parts, kinds = self.parts, self.kinds
        return [
            {
                "name": self.names[i],
                "statistic": float(self.statistic[i]),
                "pvalue": float(self.pvalue[i]),
                "kind": kinds[i],
                "difference": self.difference(i),
                "share": float(parts[i]),
            }
            for i in self.order
        ]

    @property
    def kinds(self) -> tuple[str, ...]:
        """In what each coordinate differs most: level, spread, shape or dependence."""
        return tuple(KINDS[k] for k in np.argmax(np.abs(self.scores), axis=1))

    @property
    def parts(self) -> np.ndarray:
        """The shares as parts of their sum of absolute values, shape (d,)."""
        total = np.abs(self.shares).sum()
        return self.shares / total if total > 0 else self.shares

    def difference(self, i: int) -> str:
        """In what coordinate i differs most, in words."""
        largest = int(np.argmax(np.abs(self.scores[i])))
        kind = KINDS[largest]
        if kind in ("level", "spread"):
            side = "x" if self.scores[i, largest] > 0 else "y"
            return f"{'higher' if kind == 'level' else 'wider'} in {side}"
        if kind == "dependence":
            return f"depends otherwise on {self.names[self.partner[i]]}"
        return "of another shape"

    @property
    def summary(self) -> str:
        """What is named, in a sentence."""
        named, d = self.driving, len(self.names)
        at = f"at level {self.level:g}"
        if not named:
            return f"No coordinate is named of {d}, {at}{self._missing}."
        listed = ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")
        return f"{len(named)} of {d} coordinates drive the difference, {at}: {listed}."

    @property
    def _missing(self) -> str:
        unseen = "pairs were not looked at" if self.partner.max() < 0 < len(self.names) - 1 else ""
        return f": {unseen}" if unseen else ""

    def to_dict(self) -> dict[str, Any]:
        """All but points and map, in plain values."""
        return {
            "driving": self.driving,
            "level": self.level,
            "n_permutations": self.n_permutations,
            "pairs": bool(self.partner.max() >= 0),
            "coordinates": self.coordinates,
            "most_x": self.most_x.to_dict(),
            "most_y": self.most_y.to_dict(),
            "map": list(self.map.labels),
        }

    def __repr__(self) -> str:
        rows = self.coordinates[:_SHOWN]
        width = max(len("coordinate"), *(len(row["name"]) for row in rows))
        lines = [self.summary, f"{'coordinate':<{width}}  statistic  p-value   share  difference"]
        lines += [
            f"{r['name']:<{width}}  {r['statistic']:9.2f}  {r['pvalue']:7.4f}  {r['share']:6.1%}  "
            f"{r['difference'] if r['pvalue'] <= self.level else ''}".rstrip()
            for r in rows
        ]
        if (more := len(self.names) - len(rows)) > 0:
            lines.append(f"… and {more} more")
        for side, found in (("x", self.most_x), ("y", self.most_y)):
            pairs = zip(found.rows, found.witness, strict=True)
            said = ", ".join(f"{row} ({g:.3g})" for row, g in pairs)
            lines.append(f"most {side}-like, rows of {side} (witness): {said}")
        return "\n".join(lines)

    def plot(self) -> Any:
        """Coordinates, map and extreme samples in one figure, which is returned."""
        from ntkmmd_jax import plotting

        return plotting.explanation(self)
