"""Tables 1 and 2: Gaussian mixtures in d = 10, against C2ST, ME and SCF.

Where the paper is silent: n_tr is read as the training points of both samples together, with as
many for testing, and modes are stratified, as in the code of Liu et al. The network is its "fc
3-layer with relu", width 512, He-initialised; for NTK-MMD with a learning rate of 0.1 and a frozen
readout, as in table A1, for C2ST trained whole, with batches of 128 and rates that `C2ST` has by
default. So read, table 2's powers are mostly lower than published. Other starts of the network are
in `readings`, other splits and other trainings of C2ST in `splits`: with N(0, 1) in both hidden
layers NTK-MMD comes closest, or with half as many points again to test on; no batch size and rate
that was tried lifts C2ST to the published powers of both tables. ME and SCF are as in Liu et al.
(see `EmbeddingTest`): ME with 300 normalised steps, SCF at random frequencies; the paper has them
from a figure there, "about". Nor does it say over how many runs: agreement assumes 1,000, because
it prints tenths of a percent.
"""

import functools
from typing import Any

from ntkmmd_jax import datasets, plotting
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome, power_number
from ntkmmd_jax.experiments.pictures import as_power, curves, draw_powers, draw_published
from ntkmmd_jax.networks import mlp
from ntkmmd_jax.twosample import C2ST, MeanEmbedding, NetMMD, SmoothCF

NETWORK = mlp((512, 512), activation="relu", initialization="he")
TESTS = {
    "NTK-MMD": NetMMD(network=NETWORK),
    "ME": MeanEmbedding(
        optimizer="normalized", learning_rate=1.0, steps=300, calibration="asymptotic"
    ),
    "SCF": SmoothCF(steps=0, calibration="asymptotic"),
    **{
        f"C2ST-{letter} ({name}), {epochs} epoch{'s' * (epochs > 1)}": C2ST(
            score=score, optimizer=name.lower(), epochs=epochs
        )
        for name in ("Adam", "SGD")
        for letter, score in (("S", "accuracy"), ("L", "logit"))
        for epochs in (1, 10)
    },
}


def table(context: Context, example: int, sizes: tuple, published: dict) -> Outcome:
    """All tests of a table over n_tr."""
    grid = {"n": sizes, "example": [example], "stratified": [True]}
    trained: dict[str, dict] = {}  # C2ST-S and -L train the same network: one sweep for both
    for name in published:
        trained.setdefault(name.replace("-S", "").replace("-L", ""), {})[name] = TESTS[name]
    found = [
        row
        for name, tests in trained.items()
        for row in context.sweep(name, tests, datasets.gaussian_mixture, grid).rows
    ]
    numbers = [
        power_number(row, f"{name}, n_tr = {row.point['n']}", value / 100, 1000)
        for name in published
        for row, value in zip(
            (row for row in found if row.test == name), published[name], strict=True
        )
    ]
    return Outcome({"d": 10, "example": example, "n_tr": sizes, "m": 512}, numbers)


def draw(title: str, numbers: list[Number]) -> Any:
    """A panel a test: ours with intervals, the published as stars with theirs."""
    found = curves(numbers)
    columns = -(-len(found) // 2)
    shared = {"sharex": True, "sharey": True}
    figure, axes = plotting.panels(2, columns, 2.6 * columns, 5.8, **shared)
    for ax, (name, points) in zip(axes.flat, found.items(), strict=False):
        x, mine = zip(*points, strict=True)
        draw_powers(ax, x, mine, color=plotting.BLUE, marker="o", label="ours")
        draw_published(ax, x, mine, "published")
        as_power(ax, name, "")
        ax.set_ylabel("")
    for ax in axes.flat[len(found) :]:
        ax.set_axis_off()
    axes.flat[0].legend(frameon=False, fontsize="small")
    figure.suptitle(title)
    figure.supxlabel("training points n_tr, both samples together")
    figure.supylabel("power, with 95 % interval; the level dashed")
    return figure


def tab1(context: Context) -> Outcome:
    """Example 1."""
    return table(context, 1, (2000, 4000, 6000, 8000), PUBLISHED_1)


def tab2(context: Context) -> Outcome:
    """Example 2."""
    return table(context, 2, (500, 1000, 1500, 2000), PUBLISHED_2)


PUBLISHED_1 = {
    "NTK-MMD": (7.1, 9.6, 13.7, 17.9),
    "ME": (10, 30, 58, 75),  # "about"
    "SCF": (5, 6, 10, 15),  # "about"
    "C2ST-S (Adam), 1 epoch": (9.9, 14.0, 39.1, 61.2),
    "C2ST-S (Adam), 10 epochs": (61.6, 95.8, 100, 100),
    "C2ST-L (Adam), 1 epoch": (14.1, 38.4, 76.4, 92.9),
    "C2ST-L (Adam), 10 epochs": (87.8, 100, 100, 100),
    "C2ST-S (SGD), 1 epoch": (6.0, 10.6, 10.8, 14.8),
    "C2ST-S (SGD), 10 epochs": (13.9, 50.0, 94.4, 99.6),
    "C2ST-L (SGD), 1 epoch": (6.7, 12.8, 22.1, 34.6),
    "C2ST-L (SGD), 10 epochs": (22.2, 81.6, 100, 100),
}
PUBLISHED_2 = {
    "NTK-MMD": (34.3, 68.9, 88.8, 95.9),
    "C2ST-S (Adam), 1 epoch": (21.8, 62.2, 79.4, 94.6),
    "C2ST-S (Adam), 10 epochs": (28.1, 53.8, 74.0, 85.2),
    "C2ST-L (Adam), 1 epoch": (48.5, 92.8, 99.5, 100),
    "C2ST-L (Adam), 10 epochs": (49.4, 82.6, 96.3, 98.8),
    "C2ST-S (SGD), 1 epoch": (7.4, 22.7, 35.3, 54.9),
    "C2ST-S (SGD), 10 epochs": (28.3, 79.7, 92.4, 96.8),
    "C2ST-L (SGD), 1 epoch": (18.3, 56.8, 81.4, 97.3),
    "C2ST-L (SGD), 10 epochs": (52.2, 97.6, 99.9, 100),
}

TITLES = ("Gaussian mixture, example 1", "Gaussian mixture, example 2")
BECAUSE = (
    "the paper says neither what n_tr counts nor how networks start and C2ST is trained; NTK-MMD "
    "comes closest with another start (`readings`), C2ST with no training that was tried (`splits`)"
)
EXPERIMENTS = (
    Experiment(
        "tab1",
        TITLES[0],
        None,
        500,
        50,
        tab1,
        uses_lapack=True,
        draw=functools.partial(draw, f"Table 1: {TITLES[0]}"),
        because=BECAUSE,
    ),
    Experiment(
        "tab2",
        TITLES[1],
        None,
        500,
        14,
        tab2,
        draw=functools.partial(draw, f"Table 2: {TITLES[1]}"),
        because=BECAUSE,
    ),
)
