"""Online change-point detection: a reference block against a sliding window, look after look."""

from ntkmmd_jax.changepoint import edetector
from ntkmmd_jax.changepoint.chart import METHODS
from ntkmmd_jax.changepoint.detector import Report, State, init, load, step
from ntkmmd_jax.changepoint.live import Detector
from ntkmmd_jax.changepoint.measures import Explanation, RunLengths, explain, run_lengths
from ntkmmd_jax.changepoint.scan import Scan, scan

__all__ = [
    "METHODS",
    "Detector",
    "Explanation",
    "Report",
    "RunLengths",
    "Scan",
    "State",
    "edetector",
    "explain",
    "init",
    "load",
    "run_lengths",
    "scan",
    "step",
]
