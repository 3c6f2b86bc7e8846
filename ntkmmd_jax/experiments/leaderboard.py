"""The leaderboard: power, level and time of every method on every problem.

All methods are as `two_sample_test` runs them by default: 400 permutations, level 0.05, methods
with a network on standardised coordinates. C2ST, ME and SCF train or optimise, and have at most 100
runs; MMD-FUSE and MMDAgg, in quadratic time for each of 20 kernels, at most 200. Milliseconds are
those of one warm call on one device (a CPU core, for `ntkmmd reproduce`), the median of five, apart
from the sweep. The mean power is over all problems but H0; a method that
refuses a problem, as Hotelling's test does in more dimensions than it has points, rejects nothing
there.

How the points came about: those of the paper's shifts, of the mixture of four and of the perturbed
uniforms were given. Of MNIST, every digit from 0 to 2 is missing once. But the sizes of blobs,
MNIST and the paper's mixtures were set after pilots of 40 runs, to be neither hopeless nor trivial,
and the default collection of `ntk-fuse` was chosen on problems of these kinds, with other seeds.
"""

import dataclasses
import json
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax

from ntkmmd_jax import datasets, plotting
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome, power_number
from ntkmmd_jax.experiments.fig3 import DATA
from ntkmmd_jax.power.grid import Sampler
from ntkmmd_jax.power.table import PowerRow
from ntkmmd_jax.twosample import methods, shipped_test, two_sample_test

RUNS = {"c2st-s": 100, "c2st-l": 100, "me": 100, "scf": 100}  # at most, of slow methods
RUNS |= {"mmd-fuse": 200, "mmd-agg": 200}
CALLS = 5  # behind a time
OURS = "ntk-fuse"
FAMILIES = {"net": plotting.BLUE, "ntk": plotting.BLUE, "gmmd": plotting.GREEN, "mmd": "#CC79A7"}
FAMILIES |= {"c2st": "#E69F00", "me": "#56B4E9", "scf": "#56B4E9", "hotelling": "#000000"}


@dataclasses.dataclass(frozen=True)
class Problem:
    """Two laws and a sample size, of both samples."""

    name: str
    sampler: Sampler
    point: dict[str, Any]
    n: int
    is_null: bool = False

    def draw(self, seed: int) -> tuple[jax.Array, jax.Array]:
        """One x and one y."""
        return jax.block_until_ready(
            self.sampler(jax.random.key(seed), self.n, self.n, **self.point)
        )


@dataclasses.dataclass(frozen=True)
class Standing:
    """One method on one problem."""

    problem: Problem
    method: str
    row: PowerRow | None  # None where the method refuses the problem
    milliseconds: tuple[float, ...]  # of each call

    @property
    def median(self) -> float:
        """Milliseconds of a test."""
        return statistics.median(self.milliseconds) if self.milliseconds else math.nan

    @property
    def text(self) -> str:
        """Power, interval and time in a cell of the table."""
        if self.row is None:
            return "refused"
        low, high = self.row.low, self.row.high
        return f"{self.row.power:.3f} [{low:.2f}, {high:.2f}], {_milliseconds(self.median)}"


def problems(data: str) -> tuple[Problem, ...]:
    """Those of the paper and of its field, and H0; the module says how points were chosen."""
    modes, bumps = datasets.gaussian_mixture, datasets.perturbed_uniform
    return (
        Problem("covariance shift, d = 100", datasets.covariance_shift, {"rho": 0.12}, 200),
        Problem("mean shift, d = 100", datasets.mean_shift, {"delta": 0.6}, 200),
        Problem("mixture, example 1, d = 10", modes, {"example": 1}, 1000),
        Problem("mixture, example 2, d = 10", modes, {"example": 2}, 500),
        Problem("mixture of four, d = 2", datasets.mixture4, {"sigma": 1.3}, 1000),
        Problem("perturbed uniform, d = 1", bumps, {"amplitude": 0.3}, 500),
        Problem("perturbed uniform, d = 2", bumps, {"amplitude": 0.6, "dim": 2}, 500),
        Problem("blobs, d = 2", datasets.blobs, {}, 250),
        *(
            Problem(f"{data} without {digit}", datasets.mnist_missing, point, 300)
            for digit in range(3)
            for point in [{"digit": digit, "data": data}]
        ),
        Problem("H0, d = 100", datasets.mean_shift, {"delta": 0.0}, 200, is_null=True),
    )


def run(context: Context) -> Outcome:
    """All methods on all problems."""
    return board(context, tuple(methods()), problems(context.data))


def board(context: Context, names: Sequence[str], chosen: Sequence[Problem]) -> Outcome:
    """Some methods on some problems; each pair is a sweep, and resumes."""
    found = [standing(context, problem, name) for problem in chosen for name in names]
    numbers = []
    for one in found:
        label = f"{one.method}, {one.problem.name}"
        if one.row is not None:
            numbers.append(power_number(one.row, label, None))
            shortest, longest = min(one.milliseconds), max(one.milliseconds)
            numbers.append(Number(f"{label}, ms", one.median, shortest, longest))
    settings = {one.name: {**one.point, "n": one.n} for one in chosen}
    settings |= {"permutations": 400, "level": 0.05, "runs_at_most": RUNS}
    figure, table = _figure(found, names, chosen), _table(found, names)
    return Outcome(settings, numbers, figure, table=table)


def standing(context: Context, problem: Problem, method: str) -> Standing:
    """Power by a sweep of its own, and time."""
    test = shipped_test(method)
    try:  # shapes alone decide whether a test applies
        jax.eval_shape(test, jax.random.key(0), *problem.draw(context.seed))
    except ValueError:
        return Standing(problem, method, None, ())
    grid = {name: [value] for name, value in problem.point.items()}
    runs = min(context.n_runs, RUNS.get(method, context.n_runs))
    sweep = (f"{problem.name}-{method}", {method: test}, problem.sampler, grid)
    (row,) = context.sweep(*sweep, n=problem.n, n_runs=runs).rows
    return Standing(problem, method, row, _measured(context, problem, method))


def _measured(context: Context, problem: Problem, method: str) -> tuple[float, ...]:
    """Milliseconds of each call; those on record, if the experiment is resumed."""
    record = context.out / "checkpoints" / f"{context.identifier}-times.jsonl"
    lines = record.read_text().splitlines() if record.exists() else []
    known = {(one["problem"], one["method"]): one["ms"] for one in map(json.loads, lines)}
    if (problem.name, method) in known:
        return tuple(known[problem.name, method])
    x, y = problem.draw(context.seed)
    spent = []
    for key in range(CALLS + 1):
        start = time.perf_counter()
        two_sample_test(x, y, method=method, key=key)
        spent.append(1e3 * (time.perf_counter() - start))
    entry = {"problem": problem.name, "method": method, "ms": spent[1:]}  # the first compiles
    with record.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    return tuple(spent[1:])


@dataclasses.dataclass(frozen=True)
class Overall:
    """A method over all problems that are no H0."""

    power: float
    error: float  # half of its 95 % interval
    milliseconds: float  # geometric mean of those that it takes


def overall(found: Sequence[Standing], method: str) -> Overall | None:
    """Mean power and time of a method; None if there is H0 only."""
    mine = [one for one in found if one.method == method and not one.problem.is_null]
    rows = [one.row for one in mine if one.row is not None]
    if not rows:
        return None
    variance = sum(row.power * (1 - row.power) / row.n_runs for row in rows)
    return Overall(
        sum(row.power for row in rows) / len(mine),
        1.96 * math.sqrt(variance) / len(mine),
        statistics.geometric_mean(one.median for one in mine if one.row is not None),
    )


def _table(found: Sequence[Standing], names: Sequence[str]) -> list[list[str]]:
    """A row per method, a column per problem, the mean last."""
    columns = list(dict.fromkeys(one.problem.name for one in found))
    sizes = {one.problem.name: one.problem.n for one in found}
    rows = [["", *(f"{name}, n = {sizes[name]}" for name in columns), "mean, without H0"]]
    for method in names:
        mine, mean = [one for one in found if one.method == method], overall(found, method)
        runs = max((one.row.n_runs for one in mine if one.row is not None), default=0)
        last = "" if mean is None else f"{mean.power:.3f}, {_milliseconds(mean.milliseconds)}"
        rows.append([f"{method} ({runs} runs)", *(one.text for one in mine), last])
    return rows


def _milliseconds(value: float) -> str:
    return f"{value:.1f} ms" if value < 10 else f"{value:,.0f} ms"


def _figure(found: Sequence[Standing], names: Sequence[str], chosen: Sequence[Problem]) -> Any:
    """Power over time: the means, large, with the legend below; a small panel per problem."""
    columns = min(4, len(chosen))
    rows = max(2, -(-len(chosen) // columns))
    figure, axes = plotting.panels(
        rows, 2 + columns, 4.4 + 2.1 * columns, 2.3 * rows, sharex=True, squeeze=False
    )
    grid, styles = axes[0, 0].get_gridspec(), _styles(names)
    for ax in axes[:, :2].flat:
        ax.remove()
    small = list(axes[:, 2:].flat)
    means = figure.add_subplot(grid[: rows - 1, :2], sharex=small[0])
    for method in names:
        if (mean := overall(found, method)) is not None:
            at = (mean.milliseconds, mean.power, mean.error)
            means.errorbar(*at, capsize=2, **styles[method])
    means.set_title("mean of all problems but H0", fontsize="medium", fontweight="bold")
    means.set_ylabel("power, with 95 % interval")
    means.set_xlabel("milliseconds a test, one call at a time")
    for ax, problem in zip(small, chosen, strict=False):
        for one in (one for one in found if one.problem is problem):
            if one.row is not None:
                smaller = {**styles[one.method], "ms": 0.7 * styles[one.method]["ms"]}
                plotting.powers(ax, [one.median], [one.row], elinewidth=0.8, **smaller)
        ax.set_title(f"{problem.name}, n = {problem.n}", fontsize="x-small")
    means.set_xscale("log")  # of all, as they share it
    means.xaxis.set_major_formatter("{x:g}")
    for ax in (means, *small[: len(chosen)]):
        ax.set_ylim(-0.03, 1.05)
        ax.tick_params(labelbottom=True, labelsize="small" if ax is means else "x-small")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="0.92", lw=0.6)
        ax.set_axisbelow(True)
    for ax, problem in zip(small, chosen, strict=False):
        if problem.is_null:
            ax.axhline(0.05, color=plotting.GREY, ls="--", lw=1, zorder=0)
            ax.set_ylim(0, 0.2)
            ax.set_yticks([0, 0.05, 0.1, 0.15, 0.2])
    legend = figure.add_subplot(grid[rows - 1, :2])
    handles = [legend.plot([], [], **styles[method])[0] for method in names]
    legend.legend(handles, names, frameon=False, loc="center", ncols=3, fontsize="small")
    for ax in (legend, *small[len(chosen) :]):
        ax.set_axis_off()
    return figure


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour per family, a marker per member; ours stands out."""
    styles, used = {}, dict.fromkeys([*FAMILIES.values(), plotting.GREY], 0)
    for name in names:
        colour = FAMILIES.get(name.split("-")[0], plotting.GREY)
        marker = "osD^vP"[used[colour] % 6]
        used[colour] += name != OURS
        styles[name] = {"color": colour, "marker": marker, "ms": 6, "ls": "none", "alpha": 0.85}
    ours = {"color": plotting.VERMILION, "marker": "*", "ms": 15, "mec": "k", "zorder": 5}
    return styles | ({OURS: {**ours, "ls": "none"}} if OURS in names else {})


TITLE = "Leaderboard: power and time of every method"
EXPERIMENT = Experiment("leaderboard", TITLE, None, 500, 100, run, uses_lapack=True, **DATA)
