"""The pictures of every result."""

from ntkmmd_jax.plotting.canvas import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    MARKERS,
    VERMILION,
    Figure,
    axes,
    panels,
    save,
)
from ntkmmd_jax.plotting.compared import comparison, side_by_side
from ntkmmd_jax.plotting.k_samples import pairs
from ntkmmd_jax.plotting.powers import plan, power, powers, published
from ntkmmd_jax.plotting.series import scan, segmentation
from ntkmmd_jax.plotting.tested import members, report, result, wealth

__all__ = [
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "MARKERS",
    "VERMILION",
    "Figure",
    "axes",
    "comparison",
    "members",
    "pairs",
    "panels",
    "plan",
    "power",
    "powers",
    "published",
    "report",
    "result",
    "save",
    "scan",
    "segmentation",
    "side_by_side",
    "wealth",
]
