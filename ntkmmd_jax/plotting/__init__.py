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
    figure,
    panels,
    save,
)
from ntkmmd_jax.plotting.compared import as_widths, comparison, side_by_side, widths
from ntkmmd_jax.plotting.explained import coordinates, explanation, extremes, witness_map
from ntkmmd_jax.plotting.k_samples import pairs
from ntkmmd_jax.plotting.powered import plan, power, powers, published
from ntkmmd_jax.plotting.series import scan, segmentation
from ntkmmd_jax.plotting.tested import members, report, result, wealth
from ntkmmd_jax.plotting.tolerated import tolerance

__all__ = [
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "MARKERS",
    "VERMILION",
    "Figure",
    "as_widths",
    "axes",
    "comparison",
    "coordinates",
    "explanation",
    "extremes",
    "figure",
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
    "tolerance",
    "wealth",
    "widths",
    "witness_map",
]
