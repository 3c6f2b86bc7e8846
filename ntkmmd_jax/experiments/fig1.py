"""Figure 1: power on Gaussian mean and covariance shifts, and along the training pass.

d = 100, n_X = n_Y = 200, half split. The power after k samples of the pass is that of a witness
trained on k of the training points at random, which is the same thing: the points are in random
order. The paper prints no numbers for this figure; those of the covariance shift are printed by the
authors' notebook (`recipe` runs it as they do), and of the other panels nothing is published.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import datasets, plotting
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome, power_number
from ntkmmd_jax.experiments.pictures import draw_curves, from_zero
from ntkmmd_jax.experiments.recipe import FIGURE_1, RHO
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Params
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.training import trained_witness
from ntkmmd_jax.twosample import NetMMD
from ntkmmd_jax.witness import Witness

DELTA = (0.0, 0.2, 0.4, 0.6, 0.8)
COUNTS = (10.0, 20.0, 40.0, 80.0, 120.0, 160.0, 200.0)
FIELD = (20.0, 50.0, 100.0, 200.0, 350.0, 500.0)  # of the colour field, with 250 + 250 for training


@record
class PartOfThePass(NetMMD):
    """The trained test after only so many samples of the training pass; the others weigh 0."""

    samples: float | jax.Array = 1.0

    def find_witness(self, key: jax.Array, params: Params, train: Pooled) -> Witness:
        """Train on some of the points, taken at random."""
        k_visited, k_train = jax.random.split(key)
        measure = train.measure
        n = len(measure.weights)
        rank = jax.random.permutation(k_visited, n).astype(measure.weights.dtype)
        visited = rank < self.samples
        weights = jnp.where(visited, measure.weights * n / self.samples, 0.0)
        part = SignedMeasure(measure.points, weights)
        return trained_witness(k_train, self.network, params, part, self.sgd)


def run(context: Context) -> Outcome:
    """Two power curves, power along the pass, and the same of larger samples."""
    tests = {"net": "net", "gmmd": "gmmd", "hotelling": "hotelling"}
    part, shift = {"net": PartOfThePass()}, datasets.covariance_shift
    numbers = [
        power_number(row, f"{row.test}, δ = {row.point['delta']}", None)
        for row in context.sweep("mean", tests, datasets.mean_shift, {"delta": DELTA}).rows
    ]
    published = dict(zip(RHO, FIGURE_1, strict=True))
    numbers += [
        power_number(
            row,
            f"{row.test}, ρ = {row.point['rho']}",
            published[row.point["rho"]] if row.test == "net" else None,
        )
        for row in context.sweep("covariance", tests, shift, {"rho": RHO}).rows
    ]
    runs = min(context.n_runs, 200)  # the paper's
    for n, counts, few in ((200, COUNTS, context.n_runs), (500, FIELD, runs)):
        grid = {"rho": RHO, "samples": counts}
        rows = context.sweep(f"along-{n}", part, shift, grid, n=n, n_runs=few).rows
        where = [(row, row.point["rho"], row.point["samples"]) for row in rows]
        numbers += [
            power_number(row, f"n = {n}, ρ = {rho}, visited = {k:.0f}", None)
            for row, rho, k in where
        ]
    settings = {"d": 100, "n": 200, "m": 512, "learning_rate": 0.1, "permutations": 400}
    return Outcome(settings, numbers)


def draw(numbers: list[Number]) -> Any:
    """Four panels: two power curves, power along the pass, and the same as a colour field."""
    figure, axes = plotting.panels(1, 4, 18, 3.8)
    shifts = (("δ", DELTA, "Mean shift"), ("ρ", RHO, "Covariance shift"))
    for ax, (name, values, title) in zip(axes, shifts, strict=False):
        mine = [n for n in numbers if f", {name} = " in n.label and "visited" not in n.label]
        draw_curves(ax, mine, f"{title}, n = 200 of each", f"{title.lower()} {name}")
        from_zero(ax, values)
    along = [n for n in numbers if n.label.startswith("n = 200,")]
    names = {f"n = 200, ρ = {rho}": f"ρ = {rho}" for rho in RHO}
    title, across = "Along the pass, n = 200", "training samples visited, of 200"
    draw_curves(axes[2], along, title, across, names.__getitem__)
    field = [n.ours for n in numbers if n.label.startswith("n = 500,")]
    powers = np.reshape(field, (len(RHO), len(FIELD)))
    at = np.arange(len(FIELD)), np.arange(len(RHO))  # a cell each: neither axis goes below 0
    image = axes[3].pcolormesh(*at, powers, shading="nearest", vmin=0, vmax=1)
    axes[3].set_xticks(at[0], [f"{k:.0f}" for k in FIELD])
    axes[3].set_yticks(at[1], [str(rho) for rho in RHO])
    figure.colorbar(image, ax=axes[3], label="power")
    axes[3].set_title("Along the pass, n = 500", fontsize="medium")
    axes[3].set_xlabel("training samples visited, of 500")
    axes[3].set_ylabel("covariance shift ρ")
    return figure


TITLE = "Power on Gaussian shifts"
EXPERIMENT = Experiment("fig1", TITLE, 500, 500, 1, run, uses_lapack=True, draw=draw)
