"""Figure A1: the relative error |T_net(t) − T_NTK| / |T_NTK| over t, softplus and relu.

The paper shows one data set and seed, so its order is one draw; ours is the median over seeds with
the range of 95 % of them beside it, in which one more seed is to be expected. For relu that range
is wide, because the order depends on which units cross their kink: a few at small t, and when none
does the error is exactly 0 and left out of the fit.
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
    figure, axes = plotting.panels(1, 2, 10, 3.8, sharey=True)
    numbers = []
    for ax, (activation, order) in zip(axes, PUBLISHED.items(), strict=True):
        orders = []
        for seed in range(context.seed, context.seed + context.n_runs):
            x, y = datasets.covariance_shift(jax.random.key(seed), 200, 200, rho=0.12)
            found = compare(seed, x, y, network=mlp(activation=activation), times=TIMES)
            orders.append(float(found.order))
            if seed == context.seed:
                found.plot(ax=ax)
                ax.set_title(f"{activation}; published order {order}", fontsize="medium")
        known = np.asarray([o for o in orders if np.isfinite(o)])
        low, middle, high = np.quantile(known, (0.025, 0.5, 0.975)).tolist()
        numbers.append(
            Number(f"order of the error in t, {activation}, median of seeds", middle, low, high,
                   None, order, None, f"95 % of {len(known)} seeds")
        )  # fmt: skip
    settings = {"d": 100, "n": 200, "m": 512, "rho": 0.12, "times": TIMES}
    return Outcome(settings, numbers, figure, remark(numbers))


def remark(numbers: list[Number]) -> str:
    """What a range of seeds can say of one."""
    smooth, kinked = numbers
    return (
        f"The median order is {smooth.ours:.2f} with softplus and {kinked.ours:.2f} with relu. A "
        f"single seed of relu has one between {kinked.low:.2f} and {kinked.high:.2f}, so that the "
        f"published {kinked.published} lies in between says next to nothing."
    )


EXPERIMENT = Experiment("figA1", "Error of the trained statistic over time", 1, 40, 1, run)
