"""Offline segmentation: false changes, found changes, intervals, recordings, time.

python benchmarks/segment.py level [RUNS]          # series without a change: how many are split
python benchmarks/segment.py found [RUNS [ORDERS]] # precision, recall, F1, covering, intervals
python benchmarks/segment.py gestures              # MSRC-12, in the folder NTKMMD_DATA
python benchmarks/segment.py speed                 # seconds and memory over the length
"""

import sys
import time
import warnings
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
from timing import peak_mb

from ntkmmd_jax import changepoint, datasets
from ntkmmd_jax._lib.ranks import normal_scores
from ntkmmd_jax.changepoint.cutting import binning
from ntkmmd_jax.changepoint.segmentation import bin_grams, significant_cuts
from ntkmmd_jax.changepoint.splits import best_split

LEVEL, ORDERS, AT_ONCE = 0.05, 99, 20  # with 99 orders the level of the p-value is exact too


def autoregression(rng, n, d, phi):
    """Normal frames that remember: x_t = φ x_{t−1} + √(1 − φ²) ε_t."""
    noise = rng.normal(size=(n, d))
    for t in range(1, n):
        noise[t] = phi * noise[t - 1] + np.sqrt(1 - phi**2) * noise[t]
    return noise


LAWS = {
    "Gaussian": lambda rng, n, d: rng.normal(size=(n, d)),
    "t(3)": lambda rng, n, d: rng.standard_t(3, size=(n, d)),
    "AR(.5)": lambda rng, n, d: autoregression(rng, n, d, 0.5),
    "AR(.8)": lambda rng, n, d: autoregression(rng, n, d, 0.8),
}


@jax.jit(static_argnames="size")
def _pvalues(keys, frames, correlations, *, size):
    def one(of):
        key, series, correlation = of
        k_grams, k_orders = jax.random.split(key)
        _, grams = bin_grams(k_grams, series, size=size)
        bins = len(series) // size
        return best_split(k_orders, grams, 0, bins, correlation, n_permutations=ORDERS).pvalue

    return jax.lax.map(one, (keys, frames, correlations))


def false_changes(law, n, d, runs, seed):
    """The share of series in which any change is found, and the bins: mean size, correlation."""
    rng, groups, cuts = np.random.default_rng(seed), defaultdict(list), []
    for _ in range(runs):
        scores = normal_scores(law(rng, n, d))
        cut = binning(scores, None)
        cuts.append((cut.size, cut.correlation))
        groups[cut.size].append((scores, cut.correlation))
    found = 0
    for size, group in groups.items():
        for start in range(0, len(group), AT_ONCE):
            part = group[start : start + AT_ONCE]
            filled = part + part[:1] * (AT_ONCE - len(part))
            frames, correlations = (jnp.asarray(np.stack(of)) for of in zip(*filled, strict=True))
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), size), start)
            keys = jax.random.split(key, AT_ONCE)
            correlations = correlations.astype(frames.dtype)
            pvalues = _pvalues(keys, frames, correlations, size=size)[: len(part)]
            found += int(np.sum(np.asarray(pvalues) <= LEVEL + 1e-6))
    return found / runs, *np.mean(cuts, axis=0)


def level(runs=400):
    """The share of series without a change that are split."""
    band = 2 * np.sqrt(LEVEL * (1 - LEVEL) / runs)
    print(f"{runs} series a cell, wanted {LEVEL} ± {band:.3f} (2 standard errors); in brackets")
    print("the mean length of bins, and the mean correlation that neighbours are taken to have\n")
    print("| | " + " | ".join(f"n = {n}, d = {d}" for n in (300, 1000) for d in (1, 5, 50)) + " |")
    print("|---" * 7 + "|")
    for i, (name, law) in enumerate(LAWS.items()):
        cells = []
        for n in (300, 1000):
            for d in (1, 5, 50):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    share, size, correlation = false_changes(law, n, d, runs, 1000 * i + n + d)
                cells.append(f"{share:.3f} ({size:.0f}, {correlation:.2f})")
                print(name, n, d, cells[-1], file=sys.stderr, flush=True)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


N, MARGIN, CHANGES = 1000, 10, (180, 420, 500, 780)


def _alternating(rng, before, after):
    """Five segments, every other one of the second kind."""
    parts = np.diff([0, *CHANGES, N])
    drawn = [(after if i % 2 else before)(rng, m) for i, m in enumerate(parts)]
    return np.concatenate(drawn), CHANGES


def _normal(rng, m, d=5):
    return rng.normal(size=(m, d))


def _correlated(rng, m):
    z = _normal(rng, m)
    z[:, 1] = 0.9 * z[:, 0] + np.sqrt(1 - 0.9**2) * z[:, 1]
    return z


def _remembering(rng):
    series = autoregression(rng, N, 5, 0.5)
    for low, high in ((180, 420), (500, 780)):
        series[low:high, 0] += 2
    return series, CHANGES


def _one_of_many(rng):
    series = _normal(rng, N, 50)
    series[400:, 7] += 1.5
    return series, (400,)


def _different(rng):
    """A change of each kind, one after the other, in units of their own, with an idle column."""
    series = _normal(rng, N, 6)
    series[200:, 1] += 1.5
    series[450:, 2] *= 2.5
    series[700:, 3] = 0.9 * series[700:, 4] + 0.44 * series[700:, 3]
    series[:, 5] = 3.0
    return series * [1e-3, 1, 1e4, 1, 1, 1] + 100, (200, 450, 700)


def _shifted(shift):
    return lambda rng, m: _normal(rng, m) + np.eye(5)[0] * shift


KINDS = {
    "nothing": lambda rng: (_normal(rng, N), ()),
    "mean 1 in 1 of 5": lambda rng: _alternating(rng, _normal, _shifted(1)),
    "mean 2 in 1 of 5": lambda rng: _alternating(rng, _normal, _shifted(2)),
    "spread 1.5 in 5": lambda rng: _alternating(rng, _normal, lambda rng, m: 1.5 * _normal(rng, m)),
    "correlation 0.9": lambda rng: _alternating(rng, _normal, _correlated),
    "t(3), mean 1.5": lambda rng: _alternating(
        rng,
        lambda rng, m: rng.standard_t(3, size=(m, 5)),
        lambda rng, m: rng.standard_t(3, size=(m, 5)) + np.eye(5)[0] * 1.5,
    ),
    "AR(.5), mean 2": _remembering,
    "mean 1.5 in 1 of 50": _one_of_many,
    "mean, spread, correlation": _different,
}


def _by_means(seed, series, orders):
    """The baseline: the same segmentation, of the means of standardised frames only."""
    spread = series.std(0)
    frames = (series - series.mean(0)) / np.where(spread > 0, spread, 1)
    cut = binning(normal_scores(series), None)
    sums = frames[: cut.bins * cut.size].reshape(cut.bins, cut.size, -1).sum(1)
    sums = sums - sums.mean(0)
    grams = jnp.asarray(sums @ sums.T, jnp.float32)[None]
    options = {"level": LEVEL, "n_permutations": orders}
    return [
        at * cut.size for at, *_ in significant_cuts(jax.random.key(seed), grams, cut, **options)
    ]


def found(runs=20, orders=999):
    """Agreement of found and true changes."""
    print(f"{runs} series a row, n = {N}, margin {MARGIN}, {orders} orders; median errors\n")
    print("| | F1 | precision | recall | covering | error | 95 % interval holds | its width | s |")
    print("|---" * 9 + "|")
    for i, (name, draw) in enumerate(KINDS.items()):
        rng, rows, hits, widths, errors, spent, base = (
            np.random.default_rng(i),
            [],
            [],
            [],
            [],
            [],
            [],
        )
        for run in range(runs):
            series, true = draw(rng)
            start = time.perf_counter()
            result = changepoint.segment(series, key=run, n_permutations=orders)
            spent.append(time.perf_counter() - start)
            one = changepoint.score(result, true, margin=MARGIN)
            rows.append((one.f1, one.precision, one.recall, one.covering))
            # Of all changes that are found at all, within 50 frames: not only of those found well.
            near = dict(changepoint.score(result, true, margin=50).pairs)
            for change in result.found:
                if change.frame in near:
                    low, high = change.interval
                    hits.append(low <= near[change.frame] <= high)
                    widths.append(high - low + 1)
                    errors.append(abs(change.frame - near[change.frame]))
            base.append(changepoint.score(_by_means(run, series, orders), true, margin=MARGIN, n=N))
        cells = [f"{value:.2f}" for value in np.mean(rows, axis=0)]
        if hits:
            cells += [f"{np.median(errors):.0f}", f"{np.mean(hits):.2f} of {len(hits)}"]
            cells += [f"{np.median(widths):.0f}"]
        else:
            cells += ["", "", ""]
        print(f"| {name} | " + " | ".join(cells) + f" | {np.median(spent):.1f} |")
        means = np.mean([(b.f1, b.precision, b.recall, b.covering) for b in base], axis=0)
        print("| – by means alone | " + " | ".join(f"{v:.2f}" for v in means) + " | | | | |")
        sys.stdout.flush()


def gestures():
    """Bow, then throw: one true change, at frame 550."""
    for subject in datasets.gestures.SUBJECTS:
        result = changepoint.segment(datasets.msrc12(subject))
        print(f"{subject}: {result}")
        print(changepoint.score(result, [datasets.gestures.CHANGE], margin=MARGIN), "\n")


def speed():
    """Seconds and memory over the length, two changes, d = 54."""
    rng = np.random.default_rng(0)
    for n in (1_000, 10_000, 100_000):
        series = rng.normal(size=(n, 54)).astype(np.float32)
        series[n // 2 :, :5] += 1
        series[3 * n // 4 :] *= 1.5
        for _ in range(2):
            start = time.perf_counter()
            result = changepoint.segment(series)
            spent = time.perf_counter() - start
        print(f"n = {n}: {spent:.1f} s, {peak_mb():.0f} MB, changes {result.changes}", flush=True)


if __name__ == "__main__":
    command, *numbers = sys.argv[1:] or ["level"]
    commands = {"level": level, "found": found, "gestures": gestures, "speed": speed}
    commands[command](*map(int, numbers))
