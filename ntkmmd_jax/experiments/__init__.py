"""The paper's figures and tables, by identifier: `ntkmmd reproduce fig1`."""

from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome
from ntkmmd_jax.experiments.registry import EXPERIMENTS
from ntkmmd_jax.experiments.report import named, reproduce

__all__ = ["EXPERIMENTS", "Context", "Experiment", "Number", "Outcome", "named", "reproduce"]
