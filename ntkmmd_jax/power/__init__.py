"""The power of tests over a grid: sharded, resumable, the same counts on any machine."""

from ntkmmd_jax.power.planned import Plan
from ntkmmd_jax.power.sweep import power_sweep
from ntkmmd_jax.power.table import PowerRow, PowerTable

__all__ = ["Plan", "PowerRow", "PowerTable", "power_sweep"]
