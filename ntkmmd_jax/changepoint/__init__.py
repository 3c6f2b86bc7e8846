"""Change points: online, look after look, and in a whole recording (`segment`)."""

from ntkmmd_jax.changepoint import edetector
from ntkmmd_jax.changepoint.chart import METHODS
from ntkmmd_jax.changepoint.detector import init, step
from ntkmmd_jax.changepoint.event import Event
from ntkmmd_jax.changepoint.live import Detector
from ntkmmd_jax.changepoint.measures import Explanation, explain, run_lengths
from ntkmmd_jax.changepoint.moving import Contrast, contrast
from ntkmmd_jax.changepoint.runs import RunLengths
from ntkmmd_jax.changepoint.scan import Scan, scan
from ntkmmd_jax.changepoint.scoring import AlarmScore, Score, score, score_alarms
from ntkmmd_jax.changepoint.segmentation import segment
from ntkmmd_jax.changepoint.segmented import Change, Segmentation
from ntkmmd_jax.changepoint.state import State, load
from ntkmmd_jax.changepoint.watch import Report

__all__ = [
    "METHODS",
    "AlarmScore",
    "Change",
    "Contrast",
    "Detector",
    "Event",
    "Explanation",
    "Report",
    "RunLengths",
    "Scan",
    "Score",
    "Segmentation",
    "State",
    "contrast",
    "edetector",
    "explain",
    "init",
    "load",
    "run_lengths",
    "scan",
    "score",
    "score_alarms",
    "segment",
    "step",
]
