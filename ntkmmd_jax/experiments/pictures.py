"""Pictures of numbers: what a record has is enough to draw them again.

A label "series, name = value" is a point of a curve; any other is a line of a chart. Ours have
their intervals, the published theirs; the dashed line is the level.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ntkmmd_jax import plotting
from ntkmmd_jax.experiments.experiment import Number
from ntkmmd_jax.power.table import wilson

LEVEL = 0.05


def placed(number: Number) -> tuple[str, float]:
    """The series of a number and its place on the axis."""
    series, _, at = number.label.rpartition(", ")
    return series, float(at.rpartition(" = ")[2])


def curves(numbers: Sequence[Number]) -> dict[str, list[tuple[float, Number]]]:
    """The numbers by series, in their order."""
    found: dict[str, list[tuple[float, Number]]] = {}
    for number in numbers:
        series, at = placed(number)
        found.setdefault(series, []).append((at, number))
    return found


def draw_powers(ax: Any, x: Any, numbers: Sequence[Number], **style: Any) -> None:
    """Ours over x, with intervals."""
    ours = np.asarray([number.ours for number in numbers])
    low, high = np.asarray([(number.low, number.high) for number in numbers], float).T
    ax.errorbar(x, ours, [ours - low, high - ours], **{"capsize": 2, "ms": 5, **style})


def draw_published(ax: Any, x: Any, numbers: Sequence[Number], label: str | None = None) -> None:
    """Published powers as open stars, with the interval of as many runs as were published."""
    shown = [(at, number) for at, number in zip(x, numbers, strict=True) if number.published]
    for at, number in shown:
        ax.plot([at, at], _interval(number), color="k", lw=0.8, zorder=4)
    stars = ([at for at, _ in shown], [number.published for _, number in shown])
    ax.plot(*stars, "k*", mfc="white", ms=9, zorder=5, label=label if shown else None)


def _interval(number: Number) -> tuple[float, float]:
    """95 % of a published rate; no more than itself where its runs are not known."""
    published, runs = number.published or 0.0, number.published_runs
    return wilson(round(published * runs), runs) if runs else (published, published)


def level_line(ax: Any) -> None:
    """The level of all tests here: power where there is nothing to find."""
    ax.axhline(LEVEL, color=plotting.GREY, ls="--", lw=1, zorder=0)


def draw_curves(
    ax: Any,
    numbers: Sequence[Number],
    title: str,
    xlabel: str,
    named: Callable[[str], str] = str,
) -> None:
    """A line a series, `named` in the legend, published stars beside; the axes of a power."""
    found = curves(numbers)
    published = "published, with 95 %"
    for i, (name, points) in enumerate(found.items()):
        x, mine = zip(*points, strict=True)
        colour = plotting.COLOURS[i % len(plotting.COLOURS)]
        marker = plotting.MARKERS[i % len(plotting.MARKERS)]
        line = "-" if i < len(plotting.COLOURS) else ":"
        draw_powers(ax, x, mine, color=colour, marker=marker, ls=line, label=named(name))
        if any(number.published for number in mine):
            draw_published(ax, x, mine, published)
            published = None
    as_power(ax, title, xlabel)
    ax.legend(frameon=False, fontsize="small")


def as_power(ax: Any, title: str, xlabel: str) -> None:
    """Title, labels and level of an axis of powers."""
    level_line(ax)
    ax.set_title(title, fontsize="medium")
    ax.set_xlabel(xlabel)
    ax.set_ylabel("power, with 95 % interval")
    ax.set_ylim(0, 1.03)
    ax.spines[["top", "right"]].set_visible(False)


def from_zero(ax: Any, values: Sequence[float]) -> None:
    """An axis of shifts, which are not negative: from 0, with a little room beside the last."""
    last = max(values)
    ax.set_xlim(-0.02 * last, 1.04 * last)
    ax.set_xticks(list(values))


def beside_published(numbers: Sequence[Number], title: str) -> Any:
    """A line a number: ours and the published one, each with its interval."""
    longest = max(len(number.label) for number in numbers)
    figure, ax = plotting.panels(1, 1, 5 + 0.08 * longest, 1.3 + 0.32 * len(numbers))
    places = np.arange(len(numbers))[::-1].astype(float)
    for place, number in zip(places, numbers, strict=True):
        if number.published is not None:
            ax.plot(_interval(number), [place - 0.18] * 2, color="k", lw=0.8)
            ax.plot(number.published, place - 0.18, "k*", mfc="white", ms=8)
    ours = np.asarray([number.ours for number in numbers])
    low, high = np.asarray([(number.low, number.high) for number in numbers], float).T
    style = {"fmt": "o", "color": plotting.BLUE, "capsize": 3, "label": "ours"}
    ax.errorbar(ours, places + 0.12, xerr=[ours - low, high - ours], **style)
    ax.plot([], [], "k*", mfc="white", ms=8, label="published, with 95 %")
    ax.set_ylim(-0.7, len(numbers) - 0.3)
    ax.set_yticks(places, [number.label for number in numbers])
    ax.set_xlabel("power, with 95 % interval")
    ax.set_title(title, fontsize="medium")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", color="0.92", lw=0.6)
    ax.set_axisbelow(True)
    return figure
