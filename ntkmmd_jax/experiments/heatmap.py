"""Power over training time and width: least squares, trained and exact side by side.

Khurana, Cheng & Cloninger (2024) train the witness by least squares for longer times, which
linearised is a filter of the kernel's spectrum, 1 − exp(−tλ). Here that exact test (the kernel at
θ0, no training) and the trained one see the same data and θ0, and both permute the labels of the
held-out half. The trained one is full-batch gradient descent with steps of at most 1/3.

The data are figure 2's covariance shift in d = 2 with n = 200, at ρ = 0.5, the middle of its five.
In d = 2 the spectrum is steep (in d = 100 it is flat, and time matters little): the shift is in
quadratic functions, whose eigenvalues are small, so power grows until they are learned, and falls
where noise is. Setting and widths were chosen after probes of 100 runs, to show what time does: in
all times the exact power went from .77 to .86 in d = 100 at ρ = .12, from .37 to .49 there for a
mean shift of .6, and from .68 to .99 in d = 2 at ρ = .75. The colour scale begins at 0 and ends at
1; the level is marked on it.

The last panel is the error of the linearised h_t on held-out points, against training with 1,000
steps, over widths (`compare_widths`): covariance shift, ρ = 0.5, d = 10, 50 + 50 points to learn
from; the median of several θ0, with their range.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ntkmmd_jax import datasets, plotting
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome, power_number
from ntkmmd_jax.experiments.pictures import LEVEL, curves
from ntkmmd_jax.networks import mlp
from ntkmmd_jax.theory.widths import compare_widths
from ntkmmd_jax.twosample import FiniteTimeNTK, NetMMD, TwoSampleTest

WIDTHS, TIMES = (4, 16, 64, 256), (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
ERROR_WIDTHS, ERROR_TIMES = (64, 256, 1024, 4096), (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
DRAWS = 5  # of θ0 and data, for errors
ROUNDING = 5e-6  # errors below are of float32, not of the width
SHIFT = {"rho": [0.5], "dim": [2]}
SIDES = {"trained": "Trained by least squares", "exact": "Exact: the NTK at θ0, filtered"}


def tests_of(m: int, time: float) -> dict[str, TwoSampleTest]:
    """Both tests of a width, at one training time."""
    steps = max(20, round(3 * time))  # 20 follow the flow to 2 %; λ_1 is 0.8, at m = 4 up to 4
    descent = {"learning_rate": time / steps, "epochs": steps, "batch_size": None}
    return {
        "trained": NetMMD(mlp(m), **descent, shuffle=False, loss="l2"),
        "exact": FiniteTimeNTK(mlp(m), time),
    }


def powers(context: Context, widths: Sequence[int], times: Sequence[float]) -> list[Number]:
    """Trained and exact at every width and time, all on the same data."""
    return [
        power_number(row, f"{row.test}, m = {m}, t = {time:g}", None)
        for m in widths
        for time in times
        for row in context.sweep(
            f"{m}-{time:g}", tests_of(m, time), datasets.covariance_shift, SHIFT
        ).rows
    ]


def errors(
    seed: int, draws: int, widths: Sequence[int], times: Sequence[float], **options: Any
) -> list[Number]:
    """Of h_t, trained against exact, at every width and time."""
    found = []
    for draw in range(seed, seed + draws):
        x, y = datasets.covariance_shift(jax.random.key(draw), 100, 100, rho=0.5, dim=10)
        one = compare_widths(draw, x, y, widths=widths, times=times, **options)
        found.append(np.asarray(one.relative_error))
    low, middle, high = (f(found, axis=0).tolist() for f in (np.min, np.median, np.max))
    about = f"range of {draws} draws"
    return [
        Number(f"error, m = {m}, t = {t:g}", middle[i][j], low[i][j], high[i][j], interval=about)
        for i, m in enumerate(widths)
        for j, t in enumerate(times)
    ]


def run(context: Context) -> Outcome:
    """Both heat maps, and the errors."""
    numbers = powers(context, WIDTHS, TIMES)
    numbers += errors(context.seed, min(DRAWS, context.n_runs), ERROR_WIDTHS, ERROR_TIMES)
    settings = {"n": 200, "widths": WIDTHS, "times": TIMES, "rho": 0.5, "permutations": 400}
    return Outcome(settings, numbers, remarks=remark(numbers), table=_table(numbers))


def remark(numbers: list[Number]) -> str:
    """How far the two sides are apart, where power is largest, and how errors fall."""
    found = curves(numbers)
    widths = dict.fromkeys(_width(number) for number in numbers if _side(number) in SIDES)
    said = []
    for m in widths:
        trained, exact = (dict(found[f"{side}, m = {m}"]) for side in SIDES)
        apart = max(abs(trained[t].ours - exact[t].ours) for t in exact)
        best = max(exact, key=lambda t: exact[t].ours)
        said.append(
            f"at m = {m} the powers are at most {apart:.3f} apart, and the exact one is largest, "
            f"{exact[best].ours:.3f}, at t = {best:g}"
        )
    lines = [
        [(m, n.ours) for m, n in line if n.ours > ROUNDING]
        for line in _errors_by_time(numbers).values()
    ]
    orders = [_slope(*np.transpose(line)) for line in lines if len(line) > 1]
    falls = f"Errors fall with the width as m^{max(orders):.2f} to m^{min(orders):.2f}, "
    falls += f"down to {ROUNDING:.0e}, where rounding begins."
    return f"{'; '.join(said).capitalize()}. {falls.replace('m^-', 'm^−')}"


def _slope(m: np.ndarray, error: np.ndarray) -> float:
    return float(np.polyfit(np.log(m), np.log(error), 1)[0])


def _side(number: Number) -> str:
    return number.label.partition(", ")[0]


def _width(number: Number) -> int:
    return int(number.label.split(", ")[1].partition(" = ")[2])


def _errors_by_time(numbers: list[Number]) -> dict[float, list[tuple[int, Number]]]:
    by_time: dict[float, list[tuple[int, Number]]] = {}
    for series, points in curves([n for n in numbers if _side(n) == "error"]).items():
        for time, number in points:
            by_time.setdefault(time, []).append((int(series.rpartition(" = ")[2]), number))
    return by_time


def _table(numbers: list[Number]) -> list[list[str]]:
    """A row a side and width, a column a time."""
    found = {series: dict(points) for series, points in curves(numbers).items()}
    times = sorted({time for points in found.values() for time in points})
    rows = [["power, and relative error", *(f"t = {time:g}" for time in times)]]
    for series, points in found.items():
        shape = "{:.1e}" if series.startswith("error") else "{:.3f}"
        cells = [shape.format(points[t].ours) if t in points else "" for t in times]
        rows.append([series, *cells])
    return rows


def draw(numbers: list[Number]) -> Any:
    """Two heat maps of one colour scale, and the errors over the width."""
    figure, (*maps, last) = plotting.panels(1, 3, 16, 4.2, width_ratios=(1.3, 1.3, 1))
    for ax, (side, title) in zip(maps, SIDES.items(), strict=True):
        image = _heat(ax, [n for n in numbers if _side(n) == side], title)
    maps[0].set_ylabel("width m")
    bar = figure.colorbar(image, ax=maps, pad=0.01)
    bar.ax.set_title("power", fontsize="medium")
    bar.ax.axhline(LEVEL, color="w", lw=2)
    bar.ax.set_yticks([LEVEL, 0.25, 0.5, 0.75, 1.0], ["level .05", "0.25", "0.5", "0.75", "1"])
    _draw_errors(last, numbers)
    return figure


def _heat(ax: Any, numbers: list[Number], title: str) -> Any:
    """Powers as colours, times across and widths upward, each cell with its number."""
    rows = [[n for _, n in points] for points in curves(numbers).values()]
    values = np.asarray([[n.ours for n in row] for row in rows])
    image = ax.imshow(values, vmin=0, vmax=1, origin="lower", aspect="auto")
    for i, j in np.ndindex(values.shape):
        colour = "k" if values[i, j] > 0.6 else "w"
        style = {"ha": "center", "va": "center", "color": colour, "fontsize": "small"}
        ax.text(j, i, f"{values[i, j]:.2f}", **style)
    times = [n.label.rpartition(" = ")[2] for n in rows[0]]
    ax.set_xticks(range(len(times)), times)
    ax.set_yticks(range(len(rows)), [str(_width(row[0])) for row in rows])
    ax.set_title(title, fontsize="medium")
    ax.set_xlabel("training time t")
    return image


def _draw_errors(ax: Any, numbers: list[Number]) -> None:
    """A line a time, with the range of draws."""
    largest, m = 0.0, []
    for i, (time, line) in enumerate(_errors_by_time(numbers).items()):
        m, mine = zip(*line, strict=True)
        middle = np.asarray([n.ours for n in mine])
        low, high = np.asarray([(n.low, n.high) for n in mine], float).T
        look = {"color": plotting.COLOURS[i % 7], "marker": plotting.MARKERS[i % 7], "ms": 4}
        ax.errorbar(
            m, middle, [middle - low, high - middle], **look, capsize=2, label=f"t = {time:g}"
        )
        largest = max(largest, float(middle.max()))
    plotting.as_widths(ax, m, largest)
    ax.set_title("Error of the linearised h, held-out points", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xticks(m, [str(width) for width in m])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))


TITLE = "Power over training time and width, least squares"
EXPERIMENT = Experiment("heatmap", TITLE, None, 200, 4, run, draw=draw)
