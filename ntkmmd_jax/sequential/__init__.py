"""Watch the evidence grow: an anytime-valid two-sample test by betting."""

from typing import TYPE_CHECKING

from ntkmmd_jax._lib.lazy import lazily

if TYPE_CHECKING:
    from ntkmmd_jax.sequential.bets import AGRAPA, ONS
    from ntkmmd_jax.sequential.learners import Exact, Trained
    from ntkmmd_jax.sequential.live import Watch
    from ntkmmd_jax.sequential.recorded import Wealth
    from ntkmmd_jax.sequential.ridge import Ridge
    from ntkmmd_jax.sequential.state import Report, State, init, load, step

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ntkmmd_jax.sequential.bets": "AGRAPA ONS",
        "ntkmmd_jax.sequential.learners": "Exact Trained",
        "ntkmmd_jax.sequential.live": "Watch",
        "ntkmmd_jax.sequential.recorded": "Wealth",
        "ntkmmd_jax.sequential.ridge": "Ridge",
        "ntkmmd_jax.sequential.state": "Report State init load step",
    },
)

__all__ = [
    "AGRAPA",
    "ONS",
    "Exact",
    "Report",
    "Ridge",
    "State",
    "Trained",
    "Watch",
    "Wealth",
    "init",
    "load",
    "step",
]
