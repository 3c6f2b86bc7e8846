"""Pictures of a series: charts of detectors, and where a recording changes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ntkmmd_jax.plotting.canvas import COLOURS, GREEN, GREY, MARKERS, axes, panels

if TYPE_CHECKING:
    from ntkmmd_jax.changepoint import Scan, Segmentation


def scan(found: "Scan", ax: Any = None, *, change: int | None = None) -> Any:
    """Statistic and threshold (dashed) of every window size over time; alarms are filled.

    The reference is shaded; where the first alarm of a window puts the change, there is a mark on
    the axis; a known change is a dotted line.
    """
    beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if ax is None else {}
    ax = axes(panels(1, 1, 7.5, 3.6)[1] if ax is None else ax)
    start, stop = found.reference
    ax.axvspan(start, stop, color=GREY, alpha=0.2, lw=0, label=f"reference, {start}:{stop}")
    for i, (one, colour, marker) in enumerate(zip(found, COLOURS, MARKERS, strict=False)):
        times, values, alarms = map(np.asarray, (one.times, one.statistics, one.alarms))
        limit, endless = float(one.threshold), values == np.finfo(values.dtype).max
        values = np.where(endless, 1.1 * max(values[~endless].max(initial=limit), 0), values)
        style = {"color": colour, "marker": marker, "ms": 4}
        ax.plot(times, values, mfc="white", lw=1, label=f"window {one.window}", **style)
        raised = "alarms" if alarms.any() else None
        ax.plot(times[alarms], values[alarms], ls="none", label=raised, **style)
        dashes = (4 * i, (4, 8))  # where thresholds coincide, each is seen in the gaps of others
        ax.axhline(limit, color=colour, ls=dashes, lw=1.2, label=f"threshold {limit:.3g}")
        for event in one.events[:1]:
            if event.change is not None:
                said = f"change, estimated: {event.change}"
                at = {"transform": ax.get_xaxis_transform(), "clip_on": False, "ls": "none"}
                ax.plot(event.change, 0, marker="^", ms=8, color=colour, label=said, **at)
    if change is not None:
        ax.axvline(change, color="k", ls=":", label=f"change, known: {change}")
    ax.set_xlabel("frame")
    ax.set_ylabel(f"statistic of {found.method!r}")
    ax.legend(frameon=False, fontsize="small", **beside)
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
