"""Pictures of power: over a grid, over sample sizes, beside what was published."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ntkmmd_jax.plotting.canvas import BLUE, COLOURS, GREEN, GREY, MARKERS, VERMILION, axes

if TYPE_CHECKING:
    from ntkmmd_jax.power.planned import Plan
    from ntkmmd_jax.power.table import PowerRow, PowerTable


def powers(ax: Any, x: Any, rows: "list[PowerRow]", **style: Any) -> None:
    """Powers over x, each with its interval."""
    interval = [[row.power - row.low for row in rows], [row.high - row.power for row in rows]]
    ax.errorbar(x, [row.power for row in rows], interval, capsize=2, **style)


def published(ax: Any, x: Any, values: Any, label: str | None = "published") -> None:
    """Published numbers, as open stars."""
    ax.plot(x, values, "k*", mfc="none", ms=9, label=label, zorder=5)


def power(table: "PowerTable", ax: Any = None) -> Any:
    """Power with its interval over the first grid parameter; a line per test and other point."""
    ax = axes(ax)
    if not table.rows or not table.rows[0].point:
        raise ValueError("nothing to draw: the sweep has no grid parameter")
    across = next(iter(table.rows[0].point))
    values = {name: {str(row.point[name]) for row in table.rows} for name in table.rows[0].point}
    varying = [name for name in values if name != across and len(values[name]) > 1]
    lines: dict[str, list[PowerRow]] = {}
    for row in table.rows:
        others = [f"{name} = {row.point[name]}" for name in varying]
        lines.setdefault(", ".join([row.test, *others]), []).append(row)
    for (label, rows), marker, colour in zip(
        lines.items(), itertools.cycle(MARKERS), itertools.cycle(COLOURS), strict=False
    ):
        x = [row.point[across] for row in rows]
        powers(ax, x, rows, marker=marker, color=colour, label=label, lw=1.5, ms=5)
    if failed := [row for row in table.rows if row.failures]:
        at = [row.point[across] for row in failed], [row.power for row in failed]
        ax.plot(*at, "kx", ms=9, zorder=5, label="replicas without a verdict")
    ax.set_xlabel(across)
    ax.set_ylabel(f"power ({table.rows[0].n_runs} replicas)")
    ax.set_ylim(-0.02, 1.02)
    ax.legend(frameon=False, fontsize="small")
    return ax


def plan(found: "Plan", ax: Any = None) -> Any:
    """Measured powers, the curve through them with its interval, the target and the size."""
    ax = axes(ax)
    sizes, rows = found.sizes, found.table.rows
    beyond = found.largest if found.n is None else min(found.interval[1], 4 * found.n)
    n = np.geomspace(sizes[0] / 1.3, 1.2 * max(beyond, *found.pilot), 200)
    curve, low, high = np.transpose([found.power(at) for at in n])
    ax.fill_between(n, low, high, color=BLUE, alpha=0.15, lw=0, label="95 % interval")
    ax.plot(n, curve, color=BLUE, lw=1.5, label="curve")
    powers(ax, sizes, rows, fmt="o", color="k", ms=4, label=f"subsamples of {rows[0].test!r}")
    ax.axhline(found.target, color=GREEN, ls="--", lw=1.5, label=f"power {found.target:g}")
    if found.n is not None:
        ax.axvline(found.n, color=VERMILION, lw=1.5, label=f"n = {found.n:,} of each")
    ax.axvspan(n[0], min(found.pilot), color=GREY, alpha=0.12, lw=0, label="pilot", zorder=-1)
    ax.set_xscale("log")
    ticks = np.outer(10.0 ** np.arange(9), (1, 2, 5)).ravel()
    ticks = ticks[(n[0] <= ticks) & (ticks <= n[-1])]
    ax.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlim(n[0], n[-1])
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("samples of each")
    ax.set_ylabel("power")
    ax.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    return ax
