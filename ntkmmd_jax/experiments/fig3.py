"""Figure 3: MNIST with more of some ones, the statistic and the witness along one training pass.

n_X = 3000, n_Y = 2981, of which 1000 + 1000 for training, and the rest to test: one data set. The
network is the paper's, He-initialised and trained whole (it does not say), with batch size 1,
α = 0.01, momentum 0.9; its time t is that of `SGD.elapsed`, 0.1 at the end. Which ones are the
cohort is our choice (`datasets.mnist`). The embedding is scikit-learn's t-SNE of the test images.
The stand-in `--data digits` has 8 × 8 images, too small to pool twice: one convolution, 5×5×1×16.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import plotting
from ntkmmd_jax.datasets import mnist
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome
from ntkmmd_jax.measure import signed_measure, split
from ntkmmd_jax.networks import convnet
from ntkmmd_jax.training import trajectory
from ntkmmd_jax.twosample import NetMMD
from ntkmmd_jax.twosample.contract import score_result
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.witness import exact_witness

N_X, N_Y, N_TRAIN = 3000, 2981, 1000
SHARE = 0.15
NETWORKS = {"mnist": convnet(), "digits": convnet((16,))}
MOMENTS = (50, 200, 800, 2000)  # samples visited when the null and the witness are drawn
COUNTS = (50, 100, 150, 200, 300, 400, 600, 800, 1000, 1200, 1400, 1600, 1800, 2000)


def trained_test(data: str) -> NetMMD:
    """The paper's convolutional network and its training."""
    return NetMMD(network=NETWORKS[data], learning_rate=0.01, momentum=0.9)


def stand_in(data: str) -> str:
    """What to say when the data are not MNIST; nothing if they are."""
    return "" if data == "mnist" else "Stand-in: scikit-learn's 8 × 8 digits, not MNIST. "


def run(context: Context) -> Outcome:
    """Train once; test and look at the witness on the way."""
    embed = _embedding()
    k_data, k_split, k_init, k_train, k_null = jax.random.split(jax.random.key(context.seed), 5)
    source = mnist.images(context.data)
    which = mnist.draw(k_data, N_X, N_Y, SHARE, source)
    train, test = split(k_split, *which, (N_TRAIN / N_X, N_TRAIN / N_Y))
    settings = trained_test(context.data)
    network, measure = settings.network, signed_measure(*map(source.pixels, train))
    params = network.init(k_init, measure.points[:1])
    path = trajectory(k_train, network, params, measure, settings.sgd, every=COUNTS[0])
    points = source.pixels(jnp.concatenate(test))

    def tested(scores: jax.Array) -> TwoSampleResult:
        options = {"n_permutations": settings.n_permutations, "method": "net"}
        sizes = {"n_x": N_X, "n_y": N_Y}
        return score_result(k_null, scores, 0.05, of_x=len(test[0]), **options, **sizes)

    scores = {count: path[path.counts.index(count)](points) for count in COUNTS}
    for count, values in scores.items():
        if not np.isfinite(values).all():
            raise ValueError(f"the training diverged within {count} samples: no witness to show")
    results = {count: tested(values) for count, values in scores.items()}
    exact_scores = exact_witness(network, params, measure)(points)
    exact = tested(exact_scores)
    end = results[COUNTS[-1]]
    numbers = [
        Number(f"p-value after {count} samples", float(results[count].pvalue)) for count in MOMENTS
    ] + [
        Number("T̂_a,net at the end", float(end.statistic)),
        Number("its threshold", float(end.threshold)),
        Number("T̂_a of the exact NTK", float(exact.statistic)),
        Number("its p-value", float(exact.pvalue)),
        Number("|T̂_a,net − T̂_a| / |T̂_a|", float(abs(end.statistic / exact.statistic - 1))),
        Number("correlation of both witnesses", _correlation(scores[COUNTS[-1]], exact_scores)),
    ]
    in_cohort = np.isin(np.concatenate(test), source.cohort)
    figure = _draw(results, scores, exact, embed(points, context.seed), in_cohort, len(test[0]))
    remarks = stand_in(context.data)
    if remarks:
        figure.suptitle(remarks)
    return Outcome(
        {
            "data": context.data,
            "n_x": N_X,
            "n_y": N_Y,
            "training": [N_TRAIN, N_TRAIN],
            "share": SHARE,
            "cohort": len(source.cohort),
            "learning_rate": 0.01,
            "momentum": 0.9,
            "permutations": settings.n_permutations,
        },
        numbers,
        figure,
        remarks + "One data set and one network, so these p-values are one draw of theirs.",
    )


def _correlation(a: jax.Array, b: jax.Array) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def _embedding() -> Any:
    """`embed(points, seed)` in two dimensions by t-SNE; refuse at once if there is none."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise ImportError(
            "fig3 embeds images by scikit-learn's t-SNE, which is not there: "
            "pip install 'ntkmmd-jax[images]'"
        ) from error

    def embed(points: jax.Array, seed: int) -> np.ndarray:
        flat = np.asarray(points).reshape(len(points), -1)
        return TSNE(init="pca", random_state=seed).fit_transform(flat)

    return embed


def _draw(
    results: dict[int, TwoSampleResult],
    scores: dict[int, jax.Array],
    exact: TwoSampleResult,
    embedded: np.ndarray,
    in_cohort: np.ndarray,
    n_x: int,
) -> Any:
    figure, (above, below) = plotting.panels(2, 5, 17, 6.4)
    along, counts = above[0], list(results)
    style = {"color": plotting.VERMILION, "marker": "o", "ms": 3}
    along.plot(counts, [r.statistic for r in results.values()], **style, label="statistic")
    thresholds = [r.threshold for r in results.values()]
    along.plot(counts, thresholds, "--", color=plotting.GREEN, label="threshold, level 0.05")
    along.axhline(exact.statistic, color=plotting.GREY, lw=1, label="exact NTK, all samples")
    shown = [results[count].statistic for count in MOMENTS]
    along.plot(MOMENTS, shown, "o", mfc="none", mec="k", ms=9)
    along.set_xlabel("training samples visited")
    along.set_ylabel("statistic T̂ = Σ w ĝ, with ĝ per unit time")
    along.set_ylim(bottom=min(0, *thresholds, *(r.statistic for r in results.values())))
    along.legend(frameon=False, fontsize="small")
    along.spines[["top", "right"]].set_visible(False)
    where, is_y = below[0], np.arange(len(embedded)) >= n_x
    for chosen, colour, marker, label in (
        (~in_cohort, "#DDDDDD", ".", "other images"),
        (in_cohort & is_y, plotting.VERMILION, "s", "cohort, in y"),
        (in_cohort & ~is_y, plotting.BLUE, "o", "cohort, in x"),
    ):
        label = f"{label}: {chosen.sum()}"
        where.scatter(*embedded[chosen].T, s=5, c=colour, marker=marker, lw=0, label=label)
    where.set_title("where q has more than p", fontsize="medium")
    where.legend(frameon=False, fontsize="small", markerscale=2, loc="lower left")
    for ax, map_ax, count in zip(above[1:], below[1:], MOMENTS, strict=True):
        plotting.result(results[count], ax=ax)
        ax.set_title(f"after {count} samples", fontsize="medium")
        ax.set_xlabel("statistic")
        g = np.asarray(scores[count]) - np.mean(scores[count])  # a constant has no meaning
        limit = np.quantile(np.abs(g), 0.99)
        colours = {"c": g, "cmap": "PuOr", "vmin": -limit, "vmax": limit}
        drawn = map_ax.scatter(*embedded.T, s=4, lw=0, **colours)
        map_ax.set_title(f"witness after {count} samples", fontsize="medium")
        figure.colorbar(drawn, ax=map_ax, label="ĝ − mean; < 0 where q exceeds p")
    for ax in below:
        ax.set(xticks=[], yticks=[], xlabel="t-SNE 1", ylabel="t-SNE 2")
    return figure


TITLE = "MNIST abundance change along the training"
EXPERIMENT = Experiment("fig3", TITLE, None, 1, 3, run, uses_mnist=True)
