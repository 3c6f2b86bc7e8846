"""The picture of a tolerance test."""

from typing import TYPE_CHECKING, Any

from ntkmmd_jax.plotting.canvas import BLUE, GREEN, GREY, VERMILION, axes

if TYPE_CHECKING:
    from ntkmmd_jax.twosample.tolerance import ToleranceResult


def tolerance(result: "ToleranceResult", ax: Any = None) -> Any:
    """The MMD with its interval, and the tolerance, on one line."""
    ax = axes(ax)
    (low, high), accepted = result.interval, float(result.tolerance)
    colour = VERMILION if result.exceeds else GREEN if result.within else GREY
    label = f"MMD, {1 - 2 * float(result.level):.0%} interval"
    reach = [[result.mmd - low], [max(high - result.mmd, 0)]]
    ax.axvspan(0, accepted, color=BLUE, alpha=0.12, lw=0)
    ax.axvline(accepted, color=BLUE, ls="--", lw=2, label=f"tolerance {accepted:.3g}")
    style = {"fmt": "o", "color": colour, "capsize": 6, "lw": 2.5, "ms": 8}
    ax.errorbar([result.mmd], [0], xerr=reach, label=label, **style)
    ax.set_xlim(0, 1.15 * max(high, accepted))
    ax.set_ylim(-1, 1)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("MMD")
    ax.set_title(result.verdict.partition("; ")[2] or "undecided", fontsize="medium")
    ax.legend(framealpha=0.9, edgecolor="none", fontsize="small", loc="lower right")
    return ax
