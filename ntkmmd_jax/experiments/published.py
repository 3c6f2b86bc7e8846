"""`ntk-fuse` beside the field's best kernel tests, MMD-FUSE and MMDAgg, ours and as published.

The published powers are those of the notebooks of Biggs, Schrab & Gretton (2023), over 200 runs,
with 2,000 permutations, at level 0.05: the mixture of four with σ = 1.3 over n, and the perturbed
uniform density (d = 1, two perturbations, n = 500) over the amplitude. Ours are as they ship, with
400 permutations. Our `mmd-fuse` and `mmd-agg`, in quadratic time, have at most 200 runs, as many as
published, and beyond n = 2,000 at most 100. Agreement is of one method with itself: `ntk-fuse` has
no published power. Published MMDAgg permutes signs and has other bandwidths than ours (see
`twosample.agg`).
"""

from collections.abc import Sequence
from typing import Any

from ntkmmd_jax import datasets, plotting
from ntkmmd_jax.experiments.experiment import Context, Experiment, Outcome, power_number
from ntkmmd_jax.power.table import PowerRow
from ntkmmd_jax.twosample import shipped_test

SIZES, AMPLITUDES = (500, 1000, 1500, 2000, 2500, 3000), (0.1, 0.2, 0.3, 0.4, 0.5)
MIXTURE = {
    "mmd-fuse": (0.18, 0.38, 0.635, 0.765, 0.88, 0.97),
    "mmd-agg": (0.19, 0.385, 0.665, 0.785, 0.89, 0.99),
}
BUMPS = {
    "mmd-fuse": (0.085, 0.18, 0.505, 0.825, 0.975),
    "mmd-agg": (0.08, 0.21, 0.605, 0.88, 0.985),
}
STYLES = {
    "ntk-fuse": {"color": plotting.VERMILION, "marker": "o", "lw": 2},
    "mmd-fuse": {"color": plotting.BLUE, "marker": "s"},
    "mmd-agg": {"color": plotting.GREEN, "marker": "^"},
}
Curve = tuple[str, Sequence[float], dict[str, tuple[float, ...]], dict[str, list[PowerRow]]]


def run(context: Context) -> Outcome:
    """Two panels: power over n, and over the amplitude."""
    return curves(context, tuple(STYLES), SIZES, AMPLITUDES)


def curves(
    context: Context, names: Sequence[str], sizes: Sequence[int], amplitudes: Sequence[float]
) -> Outcome:
    """Some methods at some points; each method and point is a sweep, and resumes."""
    found: tuple[Curve, ...] = (
        ("n", sizes, _at(SIZES, sizes, MIXTURE), {}),
        ("amplitude", amplitudes, _at(AMPLITUDES, amplitudes, BUMPS), {}),
    )
    for across, values, _, rows in found:
        for method in names:
            rows[method] = [_row(context, across, value, method) for value in values]
    numbers = [
        power_number(row, f"{method}, {across} = {value:g}", _published(known, method, i), 200)
        for across, values, known, rows in found
        for method in rows
        for i, (value, row) in enumerate(zip(values, rows[method], strict=True))
    ]
    settings = {"mixture4": {"sigma": 1.3, "n": sizes}, "level": 0.05, "permutations": 400}
    settings |= {"perturbed_uniform": {"amplitude": amplitudes, "perturbations": 2, "n": 500}}
    return Outcome(settings, numbers, _figure(found), "", _table(found, names))


def _at(all_values: Sequence, values: Sequence, known: dict) -> dict[str, tuple[float, ...]]:
    """The published powers at some of the points."""
    places = [all_values.index(value) for value in values]
    return {method: tuple(powers[i] for i in places) for method, powers in known.items()}


def _published(known: dict[str, tuple[float, ...]], method: str, i: int) -> float | None:
    return known[method][i] if method in known else None


def _quadratic_runs(n: int) -> int:
    """Runs at most of a test in quadratic time, of samples of n points."""
    return 200 if n <= 2000 else 100


def _row(context: Context, across: str, value: float, method: str) -> PowerRow:
    """Power of a method at one point."""
    test = {method: shipped_test(method)}
    n = int(value) if across == "n" else 500
    runs = context.n_runs if method == "ntk-fuse" else min(context.n_runs, _quadratic_runs(n))
    sampler, grid = datasets.perturbed_uniform, {"amplitude": [float(value)]}
    if across == "n":
        sampler, grid = datasets.mixture4, {"sigma": [1.3]}
    return context.sweep(
        f"{across}-{value:g}-{method}", test, sampler, grid, n=n, n_runs=runs
    ).rows[0]


def _table(found: Sequence[Curve], names: Sequence[str]) -> list[list[str]]:
    """A row per point; ours with interval and runs, the published beside."""
    head = [""]
    for name in names:
        head += [name] + [f"{name}, published"] * (name in MIXTURE)
    table = [head]
    for across, values, known, rows in found:
        for i, value in enumerate(values):
            line = [f"{'mixture of four' if across == 'n' else 'bumps'}, {across} = {value:g}"]
            for name in names:
                row = rows[name][i]
                line.append(f"{row.power:.3f} [{row.low:.2f}, {row.high:.2f}], {row.n_runs} runs")
                line += [f"{known[name][i]:.3f}"] if name in known else []
            table.append(line)
    return table


def _figure(found: Sequence[Curve]) -> Any:
    """Ours as lines with intervals; published as stars (MMD-FUSE) and crosses (MMDAgg)."""
    figure, axes = plotting.panels(1, 2, 10, 4, sharey=True)
    titles = ("mixture of four, σ = 1.3, d = 2", "perturbed uniform, d = 1, n = 500")
    for ax, title, (across, values, known, rows) in zip(axes, titles, found, strict=True):
        for name in rows:
            plotting.powers(ax, values, rows[name], ms=5, label=name, **STYLES[name])
        for (name, powers), marker in zip(known.items(), ("*", "x"), strict=True):
            style = {
                "color": STYLES[name]["color"],
                "mec": "k",
                "mew": 1.2 if marker == "x" else 0.6,
            }
            if marker == "x":
                style["mec"] = STYLES[name]["color"]
            ax.plot(values, powers, marker, ms=10, zorder=5, label=f"{name}, published", **style)
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel("points of each sample" if across == "n" else "amplitude of the bumps")
        ax.set_ylim(-0.03, 1.03)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("power at level 0.05, with 95 % interval")
    axes[1].legend(frameon=False, fontsize="small", loc="lower right")
    return figure


TITLE = "ntk-fuse beside MMD-FUSE and MMDAgg, published and ours"
EXPERIMENT = Experiment("published", TITLE, None, 500, 50, run, uses_lapack=True)
