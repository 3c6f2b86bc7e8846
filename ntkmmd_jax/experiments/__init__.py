"""The paper's figures and tables, by identifier: `ntkmmd reproduce fig1`."""

from ntkmmd_jax.experiments import architectures, fig1, fig2, fig3, fig4, figA1, mixtures, tabA3
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome
from ntkmmd_jax.experiments.report import named, reproduce

EXPERIMENTS: dict[str, Experiment] = {
    experiment.identifier: experiment
    for experiment in (
        fig1.EXPERIMENT,
        fig2.EXPERIMENT,
        fig3.EXPERIMENT,
        fig4.EXPERIMENT,
        figA1.EXPERIMENT,
        *mixtures.EXPERIMENTS,
        *architectures.EXPERIMENTS,
        tabA3.EXPERIMENT,
    )
}

__all__ = ["EXPERIMENTS", "Context", "Experiment", "Number", "Outcome", "named", "reproduce"]
