"""Figure 2: net, ntk1 (test-only bootstrap) and ntk2 (full) on the covariance shift, d = 100 and 2.

With the null histograms, statistic and thresholds of one data set for both bootstraps.
"""

import jax
import numpy as np

from ntkmmd_jax import datasets, plotting
from ntkmmd_jax.experiments.experiment import Context, Experiment, Outcome, power_number
from ntkmmd_jax.twosample import NTKMMD, NetMMD

TESTS = {"net": NetMMD(), "ntk1": NTKMMD(), "ntk2": NTKMMD(calibration="full")}
SETTINGS = {100: (0.0, 0.04, 0.08, 0.12, 0.16), 2: (0.0, 0.25, 0.5, 0.75, 1.0)}


def run(context: Context) -> Outcome:
    """Two panels for each dimension: power, and the two nulls."""
    figure, axes = plotting.panels(1, 4, 17, 3.6)
    numbers = []
    for (dim, rhos), (left, right) in zip(SETTINGS.items(), axes.reshape(2, 2), strict=True):
        grid = {"rho": rhos, "dim": [dim]}
        table = context.sweep(f"d{dim}", TESTS, datasets.covariance_shift, grid)
        numbers += [
            power_number(row, f"{row.test}, d = {dim}, ρ = {row.point['rho']}", None)
            for row in table.rows
        ]
        plotting.power(table, ax=left)
        left.lines[0].set(linewidth=6, alpha=0.35)  # net and ntk1 are one line
        left.set_xlabel(f"covariance shift ρ, d = {dim}")
        rho = rhos[3]
        x, y = datasets.covariance_shift(jax.random.key(context.seed), 200, 200, rho=rho, dim=dim)
        results = {name: TESTS[name](context.seed, x, y) for name in ("ntk1", "ntk2")}
        bins = np.histogram_bin_edges(np.concatenate([r.null for r in results.values()]), 40)
        for (name, result), colour in zip(results.items(), plotting.COLOURS[1:], strict=False):
            right.hist(np.asarray(result.null), bins, histtype="step", color=colour, label=name)
            right.axvline(float(result.threshold), color=colour, ls="--")
        right.axvline(float(results["ntk2"].statistic), color="k", lw=2, label="statistic")
        right.set_xlabel(f"null and thresholds (dashed), d = {dim}, ρ = {rho}")
        right.set_ylabel("permutations")
        right.legend(frameon=False, fontsize="small")
    settings = {"n": 200, "m": 512, "learning_rate": 0.1, "permutations": 400}
    return Outcome(settings, numbers, figure)


EXPERIMENT = Experiment("fig2", "Trained and exact tests, two bootstraps", 500, 500, 3, run)
