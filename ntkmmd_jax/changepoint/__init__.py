"""Online change-point detection: a reference block against a sliding window, look after look."""

from ntkmmd_jax.changepoint.detector import Detector, Report, State, init, load, step
from ntkmmd_jax.changepoint.scan import Scan, scan

__all__ = ["Detector", "Report", "Scan", "State", "init", "load", "scan", "step"]
