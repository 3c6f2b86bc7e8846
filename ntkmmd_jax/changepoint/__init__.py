"""Online change-point detection: a reference against a sliding window, look after look."""

from ntkmmd_jax.changepoint.chart import METHODS
from ntkmmd_jax.changepoint.detector import init, step
from ntkmmd_jax.changepoint.live import Detector
from ntkmmd_jax.changepoint.measures import Explanation, explain, run_lengths
from ntkmmd_jax.changepoint.moving import Contrast, contrast
from ntkmmd_jax.changepoint.runs import RunLengths
from ntkmmd_jax.changepoint.scan import Scan, scan
from ntkmmd_jax.changepoint.state import State, load
from ntkmmd_jax.changepoint.watch import Report

__all__ = [
    "METHODS",
    "Contrast",
    "Detector",
    "Explanation",
    "Report",
    "RunLengths",
    "Scan",
    "State",
    "contrast",
    "explain",
    "init",
    "load",
    "run_lengths",
    "scan",
    "step",
]
