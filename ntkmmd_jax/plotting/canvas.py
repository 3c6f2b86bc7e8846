"""What every picture shares; the one importer of matplotlib. Colours: Okabe–Ito, for all eyes."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure as Figure

BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
COLOURS = (BLUE, VERMILION, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^Dv*P"


def axes(ax: Any = None) -> Any:
    """The axes given, or those of a new figure; without a frame above and on the right."""
    ax = plt.subplots(figsize=(5, 3.4), layout="constrained")[1] if ax is None else ax
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def figure(width: float, height: float) -> Any:
    """A figure without axes, in inches."""
    return plt.figure(figsize=(width, height), layout="constrained")


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple:
    """A figure of several axes, in inches, and the array of its axes."""
    size = (width, height)
    return plt.subplots(rows, columns, figsize=size, layout="constrained", **options)


def save(figure: Any, path: Any) -> None:
    """Save a figure and close it."""
    try:
        figure.savefig(path, dpi=150)
    finally:
        plt.close(figure)
