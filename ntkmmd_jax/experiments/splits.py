"""What n_tr counts in tables 1 and 2, and how their C2ST is trained: plain readings, side by side.

NTK-MMD's row is read with n_tr points of both samples or of each, and with as many to test, more or
fewer; modes are stratified, as in the code of Liu et al., or drawn. The test is the exact one, of
tables 1 and 2's network as `mixtures` has it. "n_tr of each" at n_tr is "n_tr of both" at 2 n_tr.

C2ST's batch size and rate are read in four ways for each optimizer; C2ST-S and C2ST-L are two
scores of one network. A reading must hold on both tables, for 1 epoch and for 10, where a cell of
example 1 says little: with n_tr = 2000 most powers there are near the level.
"""

import dataclasses
from typing import Any

from ntkmmd_jax import datasets
from ntkmmd_jax.experiments import mixtures
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome, power_number
from ntkmmd_jax.experiments.pictures import beside_published
from ntkmmd_jax.experiments.readings import BECAUSE, closest, reading_of
from ntkmmd_jax.twosample import C2ST, NTKMMD

RUNS = 1000  # published; a guess, as in `mixtures`


@dataclasses.dataclass(frozen=True)
class Split:
    """How many points there are for n_tr, and how they are used."""

    of_each: float = 1.0  # points of each sample, in units of n_tr
    train: float = 0.5  # the share of them for training
    stratified: bool = True


SPLITS = {
    "n_tr of both, as many to test (ours)": Split(),
    "the same, modes drawn": Split(stratified=False),
    "n_tr of both, 1.5 times as many to test": Split(1.25, 0.4),
    "n_tr of both, twice as many to test": Split(1.5, 1 / 3),
    "n_tr of each, as many to test": Split(2.0),
    "n_tr of each, half as many to test": Split(1.5, 2 / 3),
}
TRAININGS = {  # optimizer, batch size, rate
    "Adam, batch 128, 0.001 (ours)": ("adam", 128, 1e-3),
    "Adam, batch 32, 0.001": ("adam", 32, 1e-3),
    "Adam, batch 128, 0.003": ("adam", 128, 3e-3),
    "Adam, batch 32, 0.003": ("adam", 32, 3e-3),
    "SGD, batch 128, 0.03 (ours)": ("sgd", 128, 3e-2),
    "SGD, batch 32, 0.03": ("sgd", 32, 3e-2),
    "SGD, batch 128, 0.1": ("sgd", 128, 0.1),
    "SGD, batch 32, 0.1": ("sgd", 32, 0.1),
}
PUBLISHED = {1: mixtures.PUBLISHED_1, 2: mixtures.PUBLISHED_2}
SIZES = {1: (2000, 4000, 6000, 8000), 2: (500, 1000, 1500, 2000)}
POINTS = ((2, 500), (2, 1000), (1, 2000))  # examples and n_tr that are run


def run(context: Context) -> Outcome:
    """Every reading at every point."""
    numbers = [number for example, n_tr in POINTS for number in _of_splits(context, example, n_tr)]
    numbers += [
        number for example, n_tr in POINTS for number in _of_trainings(context, example, n_tr)
    ]
    settings = {"d": 10, "m": 512, "points": [f"table {e}, n_tr = {n}" for e, n in POINTS]}
    return Outcome(settings, numbers, remarks=_remark(numbers))


def published(example: int, row: str, n_tr: int) -> float:
    """The published power of a row."""
    return PUBLISHED[example][row][SIZES[example].index(n_tr)] / 100


def _of_splits(context: Context, example: int, n_tr: int) -> list[Number]:
    found = []
    for name, split in SPLITS.items():
        test = NTKMMD(network=mixtures.NETWORK, train_fraction=split.train)
        grid = {"example": [example], "stratified": [split.stratified]}
        sweep = (f"{example}-{n_tr}-{name}", {name: test}, datasets.gaussian_mixture, grid)
        (row,) = context.sweep(*sweep, n=round(split.of_each * n_tr)).rows
        label = f"{name}; NTK-MMD, table {example}: n_tr = {n_tr}"
        found.append(power_number(row, label, published(example, "NTK-MMD", n_tr), RUNS))
    return found


def _of_trainings(context: Context, example: int, n_tr: int) -> list[Number]:
    found = []
    for name, (optimizer, size, rate) in TRAININGS.items():
        for epochs in (1, 10):
            options = {"batch_size": size, "learning_rate": rate, "epochs": epochs}
            rows = {
                f"C2ST-{letter} ({name.split(',')[0]}), {epochs} epoch{'s' * (epochs > 1)}": C2ST(
                    score=score, optimizer=optimizer, **options
                )
                for letter, score in (("S", "accuracy"), ("L", "logit"))
            }
            grid = {"example": [example], "stratified": [True]}
            sweep = (f"{example}-{n_tr}-{name}-{epochs}", rows, datasets.gaussian_mixture, grid)
            for row in context.sweep(*sweep, n=n_tr).rows:
                label = f"{name}; {row.test}, table {example}: n_tr = {n_tr}"
                found.append(power_number(row, label, published(example, row.test, n_tr), RUNS))
    return found


def _remark(numbers: list[Number]) -> str:
    """Which readings differ from the published powers at the fewest points."""
    said = []
    for what, names in (
        ("what n_tr counts", SPLITS),
        ("Adam in C2ST", [name for name in TRAININGS if name.startswith("Adam")]),
        ("SGD in C2ST", [name for name in TRAININGS if name.startswith("SGD")]),
    ):
        mine = [n for n in numbers if reading_of(n) in names]
        best, fewest = closest(mine)
        named = " and ".join(map(repr, best)) + " differ" + "s" * (len(best) == 1)
        points = len(mine) // len(names)
        said.append(f"of {what}, {named} at the fewest points, {fewest} of {points}")
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def draw(numbers: list[Number]) -> Any:
    """NTK-MMD's row under every split; ours and the published."""
    shown = [n for n in numbers if "; NTK-MMD" in n.label]
    return beside_published(shown, "NTK-MMD in tables 1 and 2: what n_tr counts")


TITLE = "What n_tr counts, and how C2ST is trained"
EXPERIMENT = Experiment("splits", TITLE, None, 100, 15, run, draw=draw, because=BECAUSE)
