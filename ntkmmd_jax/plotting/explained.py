"""Pictures of an explanation: coordinates, a map of the witness, extreme samples."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ntkmmd_jax.plotting.canvas import BLUE, GREY, VERMILION, axes, figure

if TYPE_CHECKING:
    from ntkmmd_jax.twosample.explained import Explanation

_BARS = 12  # coordinates that are drawn
_LONGEST = 24  # letters of a name


def explanation(found: "Explanation") -> Any:
    """Coordinates beside the map, and below them the extreme samples; returns the figure."""
    if not found.is_image:
        whole = figure(10, 3.9)
        left, right = whole.subplots(1, 2)
        coordinates(found, ax=left)
        witness_map(found, ax=right)
        return whole
    whole = figure(10, 6.4)
    above, below = whole.subfigures(2, 1, height_ratios=[3, 2])
    left, right = above.subplots(1, 2)
    coordinates(found, ax=left)
    witness_map(found, ax=right)
    extremes(found, below)
    return whole


def coordinates(found: "Explanation", ax: Any = None) -> Any:
    """T of every coordinate: an image, or bars of the largest; those that are named stand out."""
    ax = axes(ax)
    named = found.pvalue <= found.level
    ax.set_title(f"{named.sum()} of {len(named)} coordinates named", fontsize="medium")
    if found.is_image:
        values = found.statistic.reshape(found.shape).reshape(*found.shape[:2], -1).max(2)
        marked = named.reshape(found.shape).reshape(*found.shape[:2], -1).any(2)
        image = ax.imshow(values, cmap="cividis")
        if marked.any() and not marked.all():
            ax.contour(marked, levels=[0.5], colors=VERMILION, linewidths=1)
        ax.figure.colorbar(image, ax=ax, label="difference, in standard deviations")
        return ax
    rows = found.coordinates[:_BARS]
    heights = [row["statistic"] for row in rows]
    colours = [VERMILION if row["pvalue"] <= found.level else GREY for row in rows]
    places = np.arange(len(rows))
    bars = ax.barh(places, heights, color=colours, alpha=0.8)
    ax.set_yticks(places, [_short(row["name"]) for row in rows])
    said = [f"p = {r['pvalue']:.2g}" + _words(r, found.level) for r in rows]
    ax.bar_label(bars, said, padding=3, fontsize="x-small")
    ax.invert_yaxis()
    ax.set_xlim(0, 2.4 * max([*heights, 1]))  # room for the words
    ax.set_xlabel("difference, in standard deviations")
    return ax


def _words(row: dict[str, Any], level: float) -> str:
    return f", {_short(row['difference'], 34)}" if row["pvalue"] <= level else ""


def _short(text: str, longest: int = _LONGEST) -> str:
    """At most so many letters, and no formula: a $ in a name is a $."""
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return text.replace("$", r"\$")


def witness_map(found: "Explanation", ax: Any = None) -> Any:
    """Points of x (discs) and y (crosses) in a plane; the witness is their colour."""
    ax, drawn = axes(ax), found.map
    values = np.concatenate([drawn.of_x, drawn.of_y])
    middle = (drawn.of_x.mean() + drawn.of_y.mean()) / 2
    reach = max(float(np.quantile(np.abs(values - middle), 0.99)), 1e-12)
    style = {"cmap": "RdBu", "vmin": middle - reach, "vmax": middle + reach}
    if drawn.grid is not None:
        sides, heights = drawn.grid[:2], drawn.grid[2]
        shades = ax.pcolormesh(*sides, heights, shading="nearest", **style)
        ax.plot(*drawn.x.T, "o", ms=3, mfc=BLUE, mec="white", mew=0.4, label="x")
        ax.plot(*drawn.y.T, "x", ms=3.5, color=VERMILION, label="y")
    else:
        shades = ax.scatter(
            *drawn.x.T, c=drawn.of_x, s=14, lw=0.5, edgecolors=GREY, label="x", **style
        )
        ax.scatter(*drawn.y.T, c=drawn.of_y, s=18, marker="X", lw=0.3, edgecolors=GREY,
                   label="y", **style)  # fmt: skip
    bar = ax.figure.colorbar(shades, ax=ax)
    bar.set_label("witness: high (blue) is x-like")
    ax.set_xlabel(_short(drawn.labels[0], 40))
    ax.set_ylabel(_short(drawn.labels[1], 40))
    ax.set_title("where they differ", fontsize="medium")
    legend = ax.legend(framealpha=0.9, edgecolor="none", fontsize="small")
    for handle in legend.legend_handles if drawn.grid is None else ():
        handle.set(array=None, facecolor=GREY)
    return ax


def extremes(found: "Explanation", into: Any = None) -> Any:
    """The most x-like samples in a row above the most y-like ones, as images.

    Args:
        found: An explanation of images.
        into: A figure or a part of one; by default a new one.

    Returns:
        The first of their axes.
    """
    into = figure(6, 3) if into is None else into
    both = (("x", found.most_x), ("y", found.most_y))
    count = max(len(one.rows) for _, one in both)
    panels = into.subplots(2, count, squeeze=False)
    points = np.concatenate([one.points for _, one in both])
    low, high = points.min(), points.max()
    for row, (side, one) in zip(panels, both, strict=True):
        for ax in row:
            ax.set_axis_off()
        for ax, index, value, point in zip(row, one.rows, one.witness, one.points, strict=False):
            pixels = point.reshape(found.shape)
            if pixels.ndim == 3:
                scaled = (pixels - low) / (high - low if high > low else 1)
                pixels = scaled if found.shape[2] in (3, 4) else scaled.mean(2)
                ax.imshow(pixels, cmap="gray", vmin=0, vmax=1)
            else:
                ax.imshow(pixels, cmap="gray", vmin=low, vmax=high)
            ax.set_title(f"{side}[{index}]: {value:.2g}", fontsize="small")
    into.suptitle("most x-like (above) and most y-like samples, and their witness",
                  fontsize="medium")  # fmt: skip
    return panels[0, 0]
