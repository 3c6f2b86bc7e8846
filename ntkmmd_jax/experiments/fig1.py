"""Figure 1: power on Gaussian mean and covariance shifts, and along the training pass.

d = 100, n_X = n_Y = 200, half split. The power after k samples of the pass is that of a witness
trained on k of the training points at random, which is the same thing: the points are in random
order. The paper prints no numbers for this figure; those of the covariance shift were read off it,
at ρ = 0, 0.04, …, 0.16.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import datasets, plotting
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.experiments.experiment import Context, Experiment, Outcome, power_number
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Params
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.training import trained_witness
from ntkmmd_jax.twosample import NetMMD
from ntkmmd_jax.witness import Witness

DELTA = (0.0, 0.2, 0.4, 0.6, 0.8)
RHO = (0.0, 0.04, 0.08, 0.12, 0.16)
PUBLISHED = dict(zip(RHO, (0.058, 0.130, 0.430, 0.824, 0.960), strict=True))
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
    """Four panels: two power curves, power along the pass, and the same as a colour field."""
    tests = {"net": "net", "gmmd": "gmmd", "hotelling": "hotelling"}
    mean = context.sweep("mean", tests, datasets.mean_shift, {"delta": DELTA})
    covariance = context.sweep("covariance", tests, datasets.covariance_shift, {"rho": RHO})
    part, shift = {"net": PartOfThePass()}, datasets.covariance_shift
    along = context.sweep("along", part, shift, {"rho": RHO, "samples": COUNTS})
    runs = min(context.n_runs, 200)  # the paper's
    field = context.sweep("field", part, shift, {"rho": RHO, "samples": FIELD}, n=500, n_runs=runs)
    figure, axes = plotting.panels(1, 4, 17, 3.6)
    plotting.power(mean, ax=axes[0])
    axes[0].set_xlabel("mean shift δ")
    plotting.power(covariance, ax=axes[1])
    plotting.published(axes[1], RHO, list(PUBLISHED.values()), "net, published")
    axes[1].legend(frameon=False, fontsize="small")
    axes[1].set_xlabel("covariance shift ρ")
    for rho, colour, marker in zip(RHO, plotting.COLOURS, plotting.MARKERS, strict=False):
        rows = [row for row in along.rows if row.point["rho"] == rho]
        style = {"color": colour, "marker": marker, "ms": 4, "label": f"ρ = {rho}"}
        plotting.powers(axes[2], COUNTS, rows, **style)
    axes[2].set_xlabel("training samples visited")
    axes[2].set_ylabel("power")
    axes[2].legend(frameon=False, fontsize="small")
    powers = np.reshape([row.power for row in field.rows], (len(RHO), len(FIELD)))
    image = axes[3].pcolormesh(FIELD, RHO, powers, shading="nearest", vmin=0, vmax=1)
    figure.colorbar(image, ax=axes[3], label="power")
    axes[3].set_xlabel("training samples visited, of 500")
    axes[3].set_ylabel("covariance shift ρ")
    numbers = [
        power_number(
            row,
            f"{row.test}, {name} = {row.point[name]}",
            PUBLISHED[row.point["rho"]] if name == "rho" and row.test == "net" else None,
        )
        for table, name in ((mean, "delta"), (covariance, "rho"))
        for row in table.rows
    ]
    settings = {"d": 100, "n": 200, "m": 512, "learning_rate": 0.1, "permutations": 400}
    return Outcome(settings, numbers, figure)


EXPERIMENT = Experiment("fig1", "Power on Gaussian shifts", 500, 500, 5, run, uses_lapack=True)
