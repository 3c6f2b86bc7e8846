"""Pictures of trained against exact: over training time, and side by side."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ntkmmd_jax.plotting.canvas import BLUE, COLOURS, GREY, MARKERS, VERMILION, axes, panels

if TYPE_CHECKING:
    from ntkmmd_jax.theory.comparison import Comparison
    from ntkmmd_jax.theory.widths import WidthComparison
    from ntkmmd_jax.twosample.side_by_side import SideBySide


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


def widths(found: "WidthComparison", ax: Any = None) -> Any:
    """Relative error of the linearised least squares over the width, a line for each time."""
    ax = axes(ax)
    lines = zip(found.times.tolist(), found.relative_error.T, strict=True)
    for i, (time, errors) in enumerate(lines):
        style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "ms": 4}
        ax.loglog(found.widths, np.asarray(errors), label=f"t = {time:g}", **style)
    return as_widths(ax, found.widths, float(found.relative_error.max()))


def as_widths(ax: Any, m: Any, start: float) -> Any:
    """Labels of an axis of widths; errors of order m^−½ and m^−1 would fall like this."""
    m = np.asarray(m, float)
    for order, dashes in ((0.5, "--"), (1.0, ":")):
        guide = start * (m / m[0]) ** -order
        label = rf"$m^{{-{order:g}}}$"
        ax.loglog(m, guide, ls=dashes, color=GREY, lw=1, zorder=0, label=label)
    ax.set_xlabel("width m")
    ax.set_ylabel(r"$|h_t - h_t^\mathrm{exact}| / |h_t^\mathrm{exact}|$")
    ax.legend(frameon=False, fontsize="small")
    return ax


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
