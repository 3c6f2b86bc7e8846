"""Pictures of a series: charts of detectors, and where a recording changes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ntkmmd_jax.plotting.canvas import COLOURS, GREEN, MARKERS, axes

if TYPE_CHECKING:
    from ntkmmd_jax.changepoint import Scan, Segmentation


def scan(found: "Scan", ax: Any = None, *, change: int | None = None) -> Any:
    """Statistic (line) and threshold (dashed) of every window size over time; alarms are filled."""
    ax = axes(ax)
    for i, (one, colour, marker) in enumerate(zip(found, COLOURS, MARKERS, strict=False)):
        times, values, alarms = map(np.asarray, (one.times, one.statistics, one.alarms))
        style = {"color": colour, "marker": marker, "ms": 4}
        ax.plot(times, values, mfc="white", lw=1, label=f"window {one.window}", **style)
        ax.plot(times[alarms], values[alarms], ls="none", **style)
        # Where thresholds coincide, each is seen in the gaps of the others.
        ax.axhline(float(one.threshold), color=colour, ls=(4 * i, (4, 8)), lw=1.2)
    if change is not None:
        ax.axvline(change, color="k", ls=":", label="change")
    ax.set_xlabel("frame")
    ax.set_ylabel(f"statistic of {found.method!r}")
    ax.legend(frameon=False, fontsize="small")
    return ax


def segmentation(found: "Segmentation", ax: Any = None, *, known: Any = ()) -> Any:
    """Normal scores over time: lines, or an image of many; changes, with their intervals shaded."""
    ax = axes(ax)
    profile, end = np.asarray(found.profile), found.binning.size * found.binning.bins
    times = (np.arange(len(profile)) + 0.5) * found.binning.size
    names = [str(i) for i in range(profile.shape[1])] if found.names is None else found.names
    if profile.shape[1] <= len(COLOURS):
        for column, name, colour in zip(profile.T, names, COLOURS, strict=False):
            ax.plot(times, column, color=colour, lw=1, label=name)
        ax.set_ylabel("normal score, mean of a bin")
        ax.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    else:
        extent = (0, end, profile.shape[1] - 0.5, -0.5)
        style = {"aspect": "auto", "cmap": "RdBu_r", "vmin": -2, "vmax": 2}
        image = ax.imshow(profile.T, extent=extent, interpolation="nearest", **style)
        ax.figure.colorbar(image, ax=ax, label="normal score, mean of a bin")
        ax.set_ylabel("coordinate")
    for change in found.found:
        ax.axvspan(*change.interval, color="k", alpha=0.15, lw=0)
        ax.axvline(change.frame, color="k", lw=1.5)
    for at in known:
        ax.axvline(at, color=GREEN, ls=":", lw=2)
    count = len(found.found)
    ax.set_title(f"{count or 'no'} change{'s' * (count != 1)}", fontsize="medium")
    ax.set_xlim(0, found.n)
    ax.set_xlabel("frame")
    return ax
