"""The experiments by identifier: the paper's in its order, then ours."""

from ntkmmd_jax.experiments import (
    architectures,
    fig1,
    fig2,
    fig3,
    fig4,
    figA1,
    heatmap,
    leaderboard,
    mixtures,
    published,
    readings,
    recipe,
    splits,
    tabA3,
)
from ntkmmd_jax.experiments.experiment import Experiment

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
        recipe.EXPERIMENT,
        readings.EXPERIMENT,
        splits.EXPERIMENT,
        heatmap.EXPERIMENT,
        leaderboard.EXPERIMENT,
        published.EXPERIMENT,
    )
}
