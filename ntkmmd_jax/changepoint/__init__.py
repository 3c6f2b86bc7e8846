"""Change points: online, look after look, and in a whole recording (`segment`)."""

from ntkmmd_jax.changepoint import edetector
from ntkmmd_jax.changepoint.chart import METHODS
from ntkmmd_jax.changepoint.detector import Report, State, init, load, step
from ntkmmd_jax.changepoint.live import Detector
from ntkmmd_jax.changepoint.measures import Explanation, RunLengths, explain, run_lengths
from ntkmmd_jax.changepoint.scan import Scan, scan
from ntkmmd_jax.changepoint.scoring import AlarmScore, Score, score, score_alarms
from ntkmmd_jax.changepoint.segmentation import segment
from ntkmmd_jax.changepoint.segmented import Change, Segmentation

__all__ = [
    "METHODS",
    "AlarmScore",
    "Change",
    "Detector",
    "Explanation",
    "Report",
    "RunLengths",
    "Scan",
    "Score",
    "Segmentation",
    "State",
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
