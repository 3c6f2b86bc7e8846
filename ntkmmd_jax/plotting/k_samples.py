"""The picture of many samples: distances of all pairs below the diagonal, p-values above it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ntkmmd_jax.plotting.canvas import GREY, VERMILION, panels

if TYPE_CHECKING:
    from ntkmmd_jax.twosample.k_samples import KSampleResult

_WRITTEN = 12  # samples up to which numbers are written into the cells


def pairs(found: "KSampleResult", ax: Any = None) -> Any:
    """MMD² of every pair (shaded) and its adjusted p-value; the pairs that differ stand out."""
    k = len(found.names)
    if ax is None:
        side = 1.6 + 0.75 * min(k, _WRITTEN)
        ax = panels(1, 1, side + 1.2, side)[1]
    distances, adjusted = np.asarray(found.distances), np.asarray(found.adjusted)
    below, level = np.tri(k, k=-1, dtype=bool), float(found.level)
    image = ax.imshow(np.where(below, distances, np.nan), cmap="Blues", vmin=0)
    ax.figure.colorbar(image, ax=ax, label="MMD² of the pair (below)", shrink=0.8)
    middle, size = distances[below].max() / 2, "small" if k <= 6 else "x-small"
    for i, j in np.argwhere(~np.eye(k, dtype=bool)) if k <= _WRITTEN else ():
        differs = adjusted[i, j] <= level
        if below[i, j]:
            text, colour = f"{distances[i, j]:.2g}", "w" if distances[i, j] > middle else "k"
        else:
            text, colour = f"{adjusted[i, j]:.2g}", VERMILION if differs else GREY
        weight = "bold" if differs else "normal"
        ax.text(j, i, text, ha="center", va="center", color=colour, weight=weight, fontsize=size)
    if k > _WRITTEN:  # no room for numbers
        ax.plot(*np.argwhere((adjusted <= level) & ~below).T[::-1], "s", color=VERMILION, ms=4)
    ax.plot([-0.5, k - 0.5], [-0.5, k - 0.5], color=GREY, lw=0.8)
    names = [f"{name}\nn = {n:,}" for name, n in zip(found.names, found.sizes, strict=True)]
    slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if k > 4 else {}
    ax.set_xticks(range(k), found.names, fontsize="small", **slanted)
    ax.set_yticks(range(k), names, fontsize="small")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    verdict = "not all come from one law" if found.reject else "no evidence against one law"
    said = f"all: p = {float(found.pvalue):.2g}, {verdict}\n"
    shown = "adjusted p-values" if k <= _WRITTEN else "marks of adjusted p-values"
    about = f"above: {shown}, ≤ {level:g} in orange"
    ax.set_title(said + about, fontsize="medium")
    return ax
