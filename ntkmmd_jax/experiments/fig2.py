"""Figure 2: net, ntk1 (test-only bootstrap) and ntk2 (full) on the covariance shift, d = 100 and 2.

With the null histograms, statistic and thresholds of one data set for both bootstraps.
"""

from typing import Any

import jax
import numpy as np

from ntkmmd_jax import datasets, plotting
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome, power_number
from ntkmmd_jax.experiments.pictures import draw_curves, from_zero
from ntkmmd_jax.twosample import NTKMMD, NetMMD

TESTS = {"net": NetMMD(), "ntk1": NTKMMD(), "ntk2": NTKMMD(calibration="full")}
SETTINGS = {100: (0.0, 0.04, 0.08, 0.12, 0.16), 2: (0.0, 0.25, 0.5, 0.75, 1.0)}


def run(context: Context) -> Outcome:
    """Three tests over ρ, in both dimensions."""
    numbers = [
        power_number(row, f"{row.test}, d = {dim}, ρ = {row.point['rho']}", None)
        for dim, rhos in SETTINGS.items()
        for row in context.sweep(
            f"d{dim}", TESTS, datasets.covariance_shift, {"rho": rhos, "dim": [dim]}
        ).rows
    ]
    net, ntk1 = ([n.ours for n in numbers if n.label.startswith(of)] for of in ("net,", "ntk1,"))
    apart = max(abs(a - b) for a, b in zip(net, ntk1, strict=True))
    remarks = f"The rates of net and ntk1 are at most {apart:.3f} apart, on the same data."
    settings = {"n": 200, "m": 512, "learning_rate": 0.1, "permutations": 400}
    return Outcome(settings, numbers, remarks=remarks)


def draw(numbers: list[Number]) -> Any:
    """Two panels for each dimension: power, and the two nulls of one data set."""
    figure, axes = plotting.panels(1, 4, 18, 3.8)
    for (dim, rhos), (left, right) in zip(SETTINGS.items(), axes.reshape(2, 2), strict=True):
        mine = [n for n in numbers if f", d = {dim}, " in n.label]
        names = {f"{test}, d = {dim}": test for test in TESTS}
        title = f"Covariance shift, d = {dim}"
        draw_curves(left, mine, title, "covariance shift ρ", names.__getitem__)
        left.lines[0].set(linewidth=6, alpha=0.35)  # net and ntk1 are one line
        from_zero(left, rhos)
        _draw_nulls(right, 0, dim, rhos[3])
    return figure


def _draw_nulls(ax: Any, seed: int, dim: int, rho: float) -> None:
    """Both nulls of one data set; the thresholds above the bars, a height each."""
    x, y = datasets.covariance_shift(jax.random.key(seed), 200, 200, rho=rho, dim=dim)
    results = {name: TESTS[name](seed, x, y) for name in ("ntk1", "ntk2")}
    bins = np.histogram_bin_edges(np.concatenate([r.null for r in results.values()]), 40)
    for i, (name, result) in enumerate(results.items()):
        colour = plotting.COLOURS[i + 1]
        ax.hist(np.asarray(result.null), bins, histtype="step", color=colour, label=f"null, {name}")
        dashes = (5 * i, (5, 5))  # of two that coincide, each is seen between the other's
        style = {"color": colour, "ls": dashes, "lw": 1.8, "label": f"threshold, {name}"}
        ax.axvline(float(result.threshold), **style)
    ax.axvline(float(results["ntk2"].statistic), color="k", lw=2, label="statistic")
    ax.set_title(f"One data set, d = {dim}, ρ = {rho}", fontsize="medium")
    ax.set_xlabel("statistic")
    ax.set_ylabel("permutations")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")


TITLE = "Trained and exact tests, two bootstraps"
EXPERIMENT = Experiment("fig2", TITLE, 500, 500, 1, run, draw=draw)
