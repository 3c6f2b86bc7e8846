"""Figure 3: MNIST with more of some ones, the statistic and the witness along one training pass.

n_X = 3000, n_Y = 2981, of which 1000 + 1000 for training, and the rest to test: one data set. The
network is the paper's, He-initialised and trained whole (it does not say), with batch size 1,
α = 0.01, momentum 0.9; its time t is that of `SGD.elapsed`, 0.1 at the end. Which ones are the
cohort is our choice (`datasets.mnist`). The embedding is scikit-learn's t-SNE of the test images.
The stand-in `--data digits` has 8 × 8 images, too small to pool twice: one convolution, 5×5×1×16.

Nor does the paper say in which order samples are visited. Here x and y take turns. In a random
order the first samples hold unequally many of each, so that the sum of their ±∇f has a part along
the mean gradient, which tells nothing of p − q; it evens out. One random order is drawn too. It
was tried first, and turns were taken after it: another random order of these data had p = 0.0025
after 50 samples, 0.99 after 200, and 0.0025 after 800 and 2000.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax import plotting
from ntkmmd_jax.datasets import mnist
from ntkmmd_jax.experiments.experiment import Context, Experiment, Number, Outcome
from ntkmmd_jax.measure import interleaved, signed_measure, split
from ntkmmd_jax.networks import convnet
from ntkmmd_jax.training import trajectory
from ntkmmd_jax.twosample import NetMMD
from ntkmmd_jax.twosample.calibrations import Permutation
from ntkmmd_jax.twosample.evidence import Scores
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.witness import exact_witness

N_X, N_Y, N_TRAIN = 3000, 2981, 1000
SHARE = 0.15
NETWORKS = {"mnist": convnet(), "digits": convnet((16,))}
MOMENTS = (50, 200, 800, 2000)  # samples visited when the null and the witness are drawn
COUNTS = (50, 100, 200, 300, 400, 600, 800, 1200, 1600, 2000)


def trained_test(data: str) -> NetMMD:
    """The paper's convolutional network and its training."""
    return NetMMD(network=NETWORKS[data], learning_rate=0.01, momentum=0.9)


def run(context: Context) -> Outcome:
    """Train once; test and look at the witness on the way."""
    embed = _embedding()
    k_data, k_split, k_init, k_train, k_null = jax.random.split(jax.random.key(context.seed), 5)
    source = mnist.images(context.data)
    which = mnist.draw(k_data, N_X, N_Y, SHARE, source)
    train, test = split(k_split, *which, (N_TRAIN / N_X, N_TRAIN / N_Y))
    points = source.pixels(jnp.concatenate(test))
    settings = trained_test(context.data)
    in_turn = interleaved(N_TRAIN, N_TRAIN)
    measure = signed_measure(*map(source.pixels, train))
    measure = jax.tree.map(lambda leaf: leaf[in_turn], measure)
    params = settings.network.init(k_init, points[:1])

    def tested(scores: jax.Array) -> TwoSampleResult:
        if not np.isfinite(scores).all():
            raise ValueError("the training diverged: the witness is not finite")
        of_x, about = len(test[0]), {"method": "net", "n_x": N_X, "n_y": N_Y}
        evidence = Scores((scores[:of_x], scores[of_x:]))
        found = Permutation(settings.n_permutations).result(k_null, evidence, 0.05)
        return dataclasses.replace(found, **about)

    def along(shuffle: bool) -> tuple[dict[int, jax.Array], dict[int, TwoSampleResult]]:
        sgd = dataclasses.replace(settings.sgd, shuffle=shuffle)
        path = trajectory(k_train, settings.network, params, measure, sgd, every=COUNTS[0])
        scores = {count: path[path.counts.index(count)](points) for count in COUNTS}
        return scores, {count: tested(values) for count, values in scores.items()}

    scores, results = along(shuffle=False)
    _, shuffled = along(shuffle=True)
    exact_scores = exact_witness(settings.network, params, measure)(points)
    exact, end = tested(exact_scores), results[COUNTS[-1]]
    correlation = np.corrcoef(scores[COUNTS[-1]], exact_scores)[0, 1]
    numbers = [
        Number(f"p-value after {count} samples, {order}", float(found[count].pvalue))
        for order, found in (("x and y in turn", results), ("in random order", shuffled))
        for count in MOMENTS
    ] + [
        Number("T̂_a,net at the end", float(end.statistic)),
        Number("threshold at the end", float(end.threshold)),
        Number("T̂_a of the exact NTK", float(exact.statistic)),
        Number("p-value of the exact NTK", float(exact.pvalue)),
        Number("T̂_a,net / T̂_a − 1", float(end.statistic / exact.statistic - 1)),
        Number("correlation of both witnesses", float(correlation)),
    ]
    figure, (above, below) = plotting.panels(2, 5, 17, 6.6)
    _draw_statistics(above, results, shuffled, exact)
    in_cohort = np.isin(np.concatenate(test), source.cohort)
    _draw_maps(below, scores, embed(points, context.seed), in_cohort, len(test[0]))
    described = {"data": context.data, "n_x": N_X, "n_y": N_Y, "training": [N_TRAIN, N_TRAIN]}
    described |= {"share": SHARE, "cohort": len(source.cohort), "permutations": 400}
    described |= {"learning_rate": 0.01, "momentum": 0.9, "batch_size": 1}
    remarks = "One data set and one network, so these p-values are one draw of theirs."
    return Outcome(described, numbers, figure, remarks)


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


def _draw_statistics(axes: Any, results: dict, shuffled: dict, exact: TwoSampleResult) -> None:
    """The statistic along the pass, and its null at four moments."""
    ax, counts = axes[0], list(results)
    lines = (
        ("x and y in turn", results, {"color": plotting.VERMILION, "marker": "o", "ms": 4}),
        ("random order", shuffled, {"color": plotting.BLUE, "marker": "^", "ms": 4, "ls": ":"}),
    )
    for label, found, style in lines:
        ax.plot(counts, [r.statistic for r in found.values()], **style, label=label)
    thresholds = [r.threshold for r in results.values()]
    ax.plot(counts, thresholds, "--", color=plotting.GREEN, label="threshold, in turn")
    ax.axhline(exact.statistic, color=plotting.GREY, lw=1, label="exact NTK")
    shown = [results[count].statistic for count in MOMENTS]
    ax.plot(MOMENTS, shown, "o", mfc="none", mec="k", ms=10)
    ax.set_xlabel("training samples visited")
    ax.set_ylabel("statistic, per unit of training time")
    ax.set_title("along the training", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)
    for ax, count in zip(axes[1:], MOMENTS, strict=True):
        plotting.result(results[count], ax=ax)
        pvalue = float(results[count].pvalue)
        ax.set_title(f"after {count} samples: p = {pvalue:.2g}", fontsize="medium")
        ax.set_xlabel("statistic, per unit of training time")
        ax.get_legend().remove()
    axes[1].legend(["null (400 permutations)", "threshold, level 0.05", "statistic"],
                   fontsize="small", loc="upper left", framealpha=1, edgecolor="none")  # fmt: skip


def _draw_maps(
    axes: Any, scores: dict, embedded: np.ndarray, in_cohort: np.ndarray, n_x: int
) -> None:
    """The cohort on the embedding of the test images, and the witness there at four moments."""
    is_y = np.arange(len(embedded)) >= n_x
    for chosen, colour, marker, label in (
        (~in_cohort, "#D0D0D0", ".", None),
        (in_cohort & is_y, plotting.VERMILION, "s", f"{np.sum(in_cohort & is_y)} in y"),
        (in_cohort & ~is_y, plotting.BLUE, "o", f"{np.sum(in_cohort & ~is_y)} in x"),
    ):
        axes[0].scatter(*embedded[chosen].T, s=5, c=colour, marker=marker, lw=0, label=label)
    axes[0].set_title("test images, and the cohort", fontsize="medium")
    legend = {"fontsize": "small", "markerscale": 2, "ncols": 2, "frameon": False}
    axes[0].legend(loc="upper left", columnspacing=1, handletextpad=0.2, **legend)
    axes[0].set_ylabel("t-SNE 2")
    shown = {
        k: np.asarray(scores[k]) - np.mean(scores[k]) for k in MOMENTS
    }  # constants say nothing
    limit = np.quantile(np.abs(list(shown.values())), 0.99)  # one scale for all moments
    for ax, (count, g) in zip(axes[1:], shown.items(), strict=True):
        colours = {"c": g, "cmap": "PuOr", "vmin": -limit, "vmax": limit}
        drawn = ax.scatter(*embedded.T, s=4, lw=0, **colours)
        ax.set_title(f"witness after {count} samples", fontsize="medium")
    drawn.axes.figure.colorbar(drawn, ax=axes[-1], label="ĝ − mean (< 0: q exceeds p)")
    low, high = embedded[:, 1].min(), embedded[:, 1].max()
    for ax in axes:
        ax.set(xticks=[], yticks=[], xlabel="t-SNE 1")
        ax.set_ylim(low - 0.04 * (high - low), high + 0.12 * (high - low))  # room for the legend


TITLE = "MNIST abundance change along the training"
DATA = {"data": ("mnist", "digits"), "load": mnist.images}
EXPERIMENT = Experiment("fig3", TITLE, None, 1, 8, run, **DATA)
