"""Tables A1 and A2: networks and SGD settings, on the covariance shift with ρ = 0.12, d = 100.

The paper gives the initialisation of the two-layer network only, N(0, 1) for its weights. Ours of
three layers is He's, with a frozen readout all the same; its power grows with the width, as
published, and is lower. How others start, and which of them holds on table 2 as well, is in
`readings`: N(0, 1) in both hidden layers, the paper's own start repeated, comes closest. All tests
of a table see the same data, so that their Monte Carlo errors go together; the paper's may not:
"batch 1, 1 epoch" of A2 and "2-layer softplus, m = 512" of A1 are one and the same test, published
as 84.2 and 81.6 %, and as 82.4 % in figure 1.
"""

import functools

from ntkmmd_jax import datasets
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome, power_number
from ntkmmd_jax.experiments.pictures import beside_published
from ntkmmd_jax.networks import mlp
from ntkmmd_jax.twosample import NetMMD

WIDTHS = (256, 512, 1024)
NETWORKS = {  # activation, depth, initialisation, and the published powers over WIDTHS
    "2-layer softplus": ("softplus", 1, "paper", (82.0, 81.6, 82.0)),
    "2-layer relu": ("relu", 1, "paper", (79.8, 84.4, 82.8)),
    "3-layer relu": ("relu", 2, "he", (85.8, 88.4, 91.0)),
}
TRAINING = {  # batch size, epochs, and the published power
    "batch 1, 1 epoch": (1, 1, 84.2),
    "batch 1, 10 epochs": (1, 10, 85.0),
    "batch 20, 1 epoch": (20, 1, 82.8),
    "batch 20, 10 epochs": (20, 10, 81.6),
}


def tab_a1(context: Context) -> Outcome:
    """Activation, depth and width."""
    numbers = []
    for name, (activation, depth, start, published) in NETWORKS.items():
        networks = [mlp((m,) * depth, activation=activation, initialization=start) for m in WIDTHS]
        labels = [f"{name}, m = {m}" for m in WIDTHS]
        tests = {label: NetMMD(network=f) for label, f in zip(labels, networks, strict=True)}
        numbers += _powers(context, name, tests, published)
    return Outcome({"rho": 0.12, "d": 100, "n": 200}, numbers)


def tab_a2(context: Context) -> Outcome:
    """Batch size and epochs."""
    tests = {
        name: NetMMD(batch_size=size, epochs=epochs) for name, (size, epochs, _) in TRAINING.items()
    }
    published = tuple(value for _, _, value in TRAINING.values())
    numbers = _powers(context, "sgd", tests, published)
    return Outcome({"rho": 0.12, "d": 100, "n": 200, "m": 512}, numbers)


def _powers(context: Context, name: str, tests: dict, published: tuple) -> list[Number]:
    table = context.sweep(name, tests, datasets.covariance_shift, {"rho": [0.12]})
    return [
        power_number(row, row.test, value / 100)
        for row, value in zip(table.rows, published, strict=True)
    ]


EXPERIMENTS = (
    Experiment(
        "tabA1",
        "Activation, depth and width",
        500,
        2000,
        4,
        tab_a1,
        draw=functools.partial(beside_published, title="Table A1: power at ρ = 0.12"),
        because="of three layers the paper gives no initialisation; with N(0, 1) in both hidden "
        "layers they come closest; see `readings`",
    ),
    Experiment(
        "tabA2",
        "Batch size and epochs",
        500,
        2000,
        2,
        tab_a2,
        draw=functools.partial(beside_published, title="Table A2: power at ρ = 0.12"),
        because="the authors' threshold rejects a little more often: with it one of them differs; "
        "see `recipe`",
    ),
)
