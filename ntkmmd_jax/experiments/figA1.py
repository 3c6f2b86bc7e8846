"""Figure A1: the relative error |T_net(t) − T_NTK| / |T_NTK| over t, softplus and relu.

The paper shows one data set and seed. Ours is the first; the order over 20 seeds stands beside it
as mean and range, because for relu it depends on which units cross their kink: a few at small t,
and when none does the error is exactly 0 and left out of the fit.
"""

import jax
import numpy as np

from ntkmmd_jax import datasets, plotting
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome
from ntkmmd_jax.networks import mlp
from ntkmmd_jax.theory.comparison import compare

TIMES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
PUBLISHED = {"softplus": 0.96, "relu": 0.62}


def run(context: Context) -> Outcome:
    """A panel for each activation."""
    figure, axes = plotting.panels(1, 2, 10, 3.6)
    numbers = []
    for ax, (activation, order) in zip(axes, PUBLISHED.items(), strict=True):
        orders = []
        for seed in range(context.seed, context.seed + context.n_runs):
            x, y = datasets.covariance_shift(jax.random.key(seed), 200, 200, rho=0.12)
            found = compare(seed, x, y, network=mlp(activation=activation), times=TIMES)
            orders.append(float(found.order))
            if seed == context.seed:
                found.plot(ax=ax)
                ax.set_title(f"{activation}; published order {order}")
        known = np.asarray([o for o in orders if np.isfinite(o)])
        numbers.append(
            Number(f"order, {activation}, mean over seeds [range]", float(known.mean()),
                   float(known.min()), float(known.max()), None, order)
        )  # fmt: skip
    settings = {"d": 100, "n": 200, "m": 512, "rho": 0.12, "times": TIMES}
    return Outcome(settings, numbers, figure)


EXPERIMENT = Experiment("figA1", "Error of the trained statistic over time", 1, 20, 1, run)
