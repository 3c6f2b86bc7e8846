"""Watch the evidence grow: an anytime-valid two-sample test by betting."""

from ntkmmd_jax.sequential.bets import AGRAPA, ONS
from ntkmmd_jax.sequential.learners import Exact, Trained
from ntkmmd_jax.sequential.live import Watch
from ntkmmd_jax.sequential.recorded import Wealth
from ntkmmd_jax.sequential.ridge import Ridge
from ntkmmd_jax.sequential.state import Report, State, init, load, step

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
