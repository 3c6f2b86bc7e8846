"""Pictures of one test: null sample or law, statistic, members of a fused one, wealth over time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ntkmmd_jax.plotting.canvas import BLUE, COLOURS, GREEN, GREY, VERMILION, axes, panels
from ntkmmd_jax.plotting.compared import comparison

_NODES = 400  # of the curve of a law
_REST = 1e-3  # of a law, that a picture may leave out

if TYPE_CHECKING:
    from ntkmmd_jax._lib.tails import Tail
    from ntkmmd_jax.sequential import Wealth
    from ntkmmd_jax.theory.comparison import Comparison
    from ntkmmd_jax.twosample.result import TwoSampleResult
    from ntkmmd_jax.twosample.spoken import Members


def result(result: "TwoSampleResult", ax: Any = None) -> Any:
    """Null, statistic and threshold; beside it, unless axes are given, the members.

    The null is the histogram of its sample or, where a formula gives p, the density of its law.
    """
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
    if result.law is not None:
        law(result.law, float(result.threshold), ax)
    ax.legend(framealpha=0.9, edgecolor="none", fontsize="small")
    return ax


def law(found: "Tail", threshold: float, ax: Any) -> None:
    """The density of a law under H0, what lies beyond the threshold shaded; or, a bound of it."""
    further = found.low + (threshold - found.low) * np.geomspace(1.25, 50, _NODES)
    end = further[0 if found.bounds else min(np.sum(found(further) > _REST), _NODES - 1)]
    ends = np.linspace(found.low, end, _NODES)
    tail, middle = found(ends), (ends[1:] + ends[:-1]) / 2
    if found.bounds:
        ax.plot(ends, tail, color=BLUE, lw=1.5, label=found.label)
        ax.set_ylabel("P[T ≥ t] under H0, at most")
        ax.set_ylim(0, 1.4)
        return
    density = -np.diff(tail) / np.diff(ends)
    beyond = middle > threshold
    ax.fill_between(middle, density, color=BLUE, alpha=0.3, lw=0, label=found.label)
    ax.fill_between(middle, density, where=beyond, color=GREEN, alpha=0.6, lw=0)
    ax.set_ylabel("density under H0")
    # A law of one degree of freedom has no largest density: it is cut where it leaves the picture.
    ax.set_ylim(0, 1.35 * np.quantile(density, 0.99))


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


def report(result_: "TwoSampleResult", comparison_: "Comparison | None" = None) -> Any:
    """A test and, if given, its comparison of trained with exact, side by side."""
    if comparison_ is None:
        return result(result_).figure
    fused = result_.members is not None
    figure, found = panels(1, 2 + fused, 10 + 5 * fused, 3.6)
    result(result_, ax=found[0])
    found[0].set_title(f"the test: {result_.method!r}, {result_.verdict}", fontsize="medium")
    if result_.members is not None:
        members(result_.members, ax=found[1])
        found[1].set_title("its members", fontsize="medium")
    comparison(comparison_, ax=found[-1])
    found[-1].set_title("trained against exact: one network, all data", fontsize="medium")
    return figure
