"""The pictures; the one importer of matplotlib. Colours: the colour-blind safe Okabe–Ito set."""

import itertools
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure as Figure

if TYPE_CHECKING:
    from ntkmmd_jax.changepoint import Scan, Segmentation
    from ntkmmd_jax.power.planned import Plan
    from ntkmmd_jax.power.table import PowerRow, PowerTable
    from ntkmmd_jax.sequential import Wealth
    from ntkmmd_jax.theory.comparison import Comparison
    from ntkmmd_jax.twosample.result import Members, TwoSampleResult
    from ntkmmd_jax.twosample.side_by_side import SideBySide

BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
COLOURS = (BLUE, VERMILION, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^Dv*P"


def axes(ax: Any = None) -> Any:
    """The axes given, or those of a new figure; without a frame above and on the right."""
    ax = plt.subplots(figsize=(5, 3.4), layout="constrained")[1] if ax is None else ax
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple:
    """A figure of several axes, in inches, and the array of its axes."""
    size = (width, height)
    return plt.subplots(rows, columns, figsize=size, layout="constrained", **options)


def result(result: "TwoSampleResult", ax: Any = None) -> Any:
    """Null histogram, statistic and threshold; beside it, unless axes are given, the members."""
    null = np.asarray(result.null)
    if null.ndim != 1 or np.ndim(result.statistic) != 0:
        raise ValueError("plot one result at a time: this one holds a batch of replicas")
    if result.wealth is not None:
        return wealth(result.wealth, ax=ax)
    if ax is None and result.members is not None:
        _, (ax, beside) = panels(1, 2, 10, 3.4)
        members(result.members, ax=beside)
    ax = axes(ax)
    if len(null):
        ax.hist(null, bins="auto", color=BLUE, alpha=0.45, label=f"null ({len(null)} permutations)")
    ax.axvline(
        result.threshold, color=GREEN, ls="--", lw=2, label=f"threshold at level {result.level:g}"
    )
    ax.axvline(result.statistic, color=VERMILION, lw=2, label=f"statistic, p = {result.pvalue:.3g}")
    ax.set_xlabel(f"statistic of {result.method!r}")
    ax.set_ylabel("permutations")
    ax.margins(x=0.08, y=0.35)  # room for the legend above the bars
    ax.legend(framealpha=0.9, edgecolor="none", fontsize="small")
    return ax


def members(members: "Members", ax: Any = None) -> Any:
    """z-scores of the members of a fused statistic, the loudest on top, each with its p-value."""
    ax, rows = axes(ax), members.rows()
    scores = [row["zscore"] for row in rows]
    colours = [VERMILION if score == scores[0] else BLUE for score in scores]
    bars = ax.barh([row["member"] for row in rows], scores, color=colours, alpha=0.7)
    ax.bar_label(bars, [f"p = {row['pvalue']:.2g}" for row in rows], padding=3, fontsize="small")
    ax.invert_yaxis()
    ax.axvline(0, color="k", lw=0.8)
    ax.margins(x=0.25)  # room for the p-values
    ax.set_xlabel("z-score of each member, and its own p-value")
    return ax


def wealth(found: "Wealth", ax: Any = None) -> Any:
    """Wealth over blocks on a log axis: a line per witness, their mean, and 1/α."""
    ax = axes(ax)
    logs, level = np.asarray(found.logs) / np.log(10), float(found.level)
    mean, stop = np.asarray(found.mean) / np.log(10), int(found.stop)
    time = np.arange(len(mean) + 1)
    several = logs.shape[1] > 1
    loudest = np.argsort(-logs[-1])[: len(COLOURS) - 2].tolist() if several and len(logs) else []
    for k in range(logs.shape[1]) if several else ():
        style = {"color": GREY, "lw": 0.7, "alpha": 0.6}
        if k in loudest:
            colour = (*COLOURS[2:], COLOURS[1])[loudest.index(k)]
            style = {"color": colour, "lw": 1.2, "label": found.names[k]}
        ax.plot(time, np.concatenate([[0], logs[:, k]]), zorder=2, **style)
    name = "mean of all" if several else found.names[0]
    ax.plot(time, np.concatenate([[0], mean]), color=BLUE, lw=2.5, zorder=3, label=name)
    ax.axhline(-np.log10(level), color=VERMILION, ls="--", lw=1.5, label=f"1/α = {1 / level:g}")
    if stop:
        ax.plot(stop, mean[stop - 1], "o", color=VERMILION, zorder=4, label=f"stopped at {stop}")
    low, high = min(0, mean.min(initial=0)), max(-np.log10(level), mean.max(initial=0))
    ax.set_ylim(max(low - 0.5, -4), 1.15 * high + 0.3)
    ax.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:g}}}$")
    ax.set_xlabel("blocks (pairs, if the samples are of one size)")
    ax.set_ylabel("wealth: evidence against H0")
    ax.legend(framealpha=0.9, edgecolor="none", fontsize="x-small", loc="upper left")
    return ax


def comparison(comparison: "Comparison", ax: Any = None) -> Any:
    """Relative error of the trained statistic over training time, with its fitted order."""
    ax = axes(ax)
    times, error = np.asarray(comparison.times), np.asarray(comparison.relative_error)
    ax.loglog(
        times,
        error,
        "o",
        color=BLUE,
        label=r"$|T_\mathrm{net}(t) - T_\mathrm{NTK}| / |T_\mathrm{NTK}|$",
    )
    order, kept = float(comparison.order), error > 0
    centre, level = np.log(times[kept]).mean(), np.log(error[kept]).mean()
    fit = np.exp(level + order * (np.log(times) - centre))
    ax.loglog(times, fit, "-", color=GREY, zorder=0, label=f"fit, order {order:.2f}")
    ax.set_xlabel("training time t (learning rate of one pass)")
    ax.set_ylabel("relative error")
    ax.legend(frameon=False, fontsize="small")
    return ax


def report(result_: "TwoSampleResult", comparison_: "Comparison | None" = None) -> Any:
    """A test and, if given, its comparison of trained with exact, side by side."""
    if comparison_ is None:
        return result(result_).figure
    fused = result_.members is not None
    figure, found = panels(1, 2 + fused, 10 + 5 * fused, 3.4)
    result(result_, ax=found[0])
    if result_.members is not None:
        members(result_.members, ax=found[1])
    comparison(comparison_, ax=found[-1])
    return figure


def side_by_side(found: "SideBySide") -> Any:
    """Errors and drifts over training time, the two witnesses, and the nulls of three tests."""
    figure, ((errors, drifts), (witnesses, nulls)) = panels(2, 2, 10, 7)
    for (name, compared), marker, colour in zip(
        found.comparisons.items(), itertools.cycle(MARKERS), itertools.cycle(COLOURS), strict=False
    ):
        drift = found.drifts[name]
        for ax, values, order in (
            (errors, compared.relative_error, compared.order),
            (drifts, drift.drift / drift.scale, drift.order),
        ):
            label = f"{name}, order {float(order):.2f}"
            shown = np.where(np.asarray(values) > 0, values, np.nan)  # 0 has no logarithm
            ax.loglog(compared.times, shown, marker + "-", color=colour, label=label)
    errors.set_ylabel(r"$|T_\mathrm{net}(t) - T_\mathrm{NTK}| / |T_\mathrm{NTK}|$")
    drifts.set_ylabel(r"$\sup |K_t - K_0| / \sup |K_0|$")
    for ax in (errors, drifts):
        ax.set_xlabel("training time t")
    trained, exact = map(np.asarray, found.scores)
    for name, part, colour in (
        ("x", slice(None, found.n_x), BLUE),
        ("y", slice(found.n_x, None), VERMILION),
    ):
        witnesses.plot(exact[part], trained[part], ".", ms=4, alpha=0.6, color=colour, label=name)
    ends = [exact.min(), exact.max()]
    witnesses.plot(ends, ends, "-", color=GREY, lw=1, zorder=0, label="equal")
    witnesses.set_xlabel("exact witness")
    witnesses.set_ylabel("trained witness")
    for (name, test), colour, width in zip(found.results.items(), COLOURS, (4, 1, 1), strict=False):
        style = {
            "histtype": "step",
            "color": colour,
            "lw": width,
            "alpha": 1 if width == 1 else 0.4,
        }
        nulls.hist(np.asarray(test.null), bins=40, label=name, **style)
        nulls.axvline(float(test.threshold), color=colour, ls="--", lw=1)
        nulls.axvline(float(test.statistic), color=colour, lw=2)
    nulls.set_xlabel("statistic (line), threshold (dashed) and null")
    nulls.set_ylabel("permutations")
    for ax in (errors, drifts, witnesses, nulls):
        ax.legend(frameon=False, fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
    return figure


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


def scan(found: "Scan", ax: Any = None, *, change: int | None = None) -> Any:
    """Statistic (line) and threshold (dashed) of every window size over time; alarms are filled."""
    ax = axes(ax)
    for one, colour, marker in zip(found, COLOURS, MARKERS, strict=False):
        times, values, alarms = map(np.asarray, (one.times, one.statistics, one.alarms))
        style = {"color": colour, "marker": marker, "ms": 4}
        ax.plot(times, values, mfc="white", lw=1, label=f"window {one.window}", **style)
        ax.plot(times[alarms], values[alarms], ls="none", **style)
        ax.axhline(float(one.threshold), color=colour, ls="--", lw=1)
    if change is not None:
        ax.axvline(change, color="k", ls=":", label="change")
    ax.set_xlabel("frame")
    ax.set_ylabel(f"statistic of {found.method!r}")
    ax.legend(frameon=False, fontsize="small")
    return ax


def segmentation(found: "Segmentation", ax: Any = None, *, known: Any = ()) -> Any:
    """Normal scores over time: lines, or an image of many; changes, with their intervals shaded."""
    ax = axes(ax)
    profile, end = np.asarray(found.profile), found.binning.size * found.binning.bins
    times = (np.arange(len(profile)) + 0.5) * found.binning.size
    names = [str(i) for i in range(profile.shape[1])] if found.names is None else found.names
    if profile.shape[1] <= len(COLOURS):
        for column, name, colour in zip(profile.T, names, COLOURS, strict=False):
            ax.plot(times, column, color=colour, lw=1, label=name)
        ax.set_ylabel("normal score, mean of a bin")
        ax.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    else:
        extent = (0, end, profile.shape[1] - 0.5, -0.5)
        style = {"aspect": "auto", "cmap": "RdBu_r", "vmin": -2, "vmax": 2}
        image = ax.imshow(profile.T, extent=extent, interpolation="nearest", **style)
        ax.figure.colorbar(image, ax=ax, label="normal score, mean of a bin")
        ax.set_ylabel("coordinate")
    for change in found.found:
        ax.axvspan(*change.interval, color="k", alpha=0.15, lw=0)
        ax.axvline(change.frame, color="k", lw=1.5)
    for at in known:
        ax.axvline(at, color=GREEN, ls=":", lw=2)
    count = len(found.found)
    ax.set_title(f"{count or 'no'} change{'s' * (count != 1)}", fontsize="medium")
    ax.set_xlim(0, found.n)
    ax.set_xlabel("frame")
    return ax


def save(figure: Any, path: Any) -> None:
    """Save a figure and close it."""
    try:
        figure.savefig(path, dpi=150)
    finally:
        plt.close(figure)
