"""Explanations: coordinates that are known to drive a difference, none under H0, time.

python benchmarks/explain.py found [RUNS [ROWS]]  # all that drive are named; whether any other is
python benchmarks/explain.py level [RUNS [ROWS]]  # x and y of one law: how often any is named
python benchmarks/explain.py methods [RUNS]       # through every method's result and witness
python benchmarks/explain.py speed                # CPU seconds of the first and of the next

ROWS, as 0:4, are those of the table.
"""

import sys
import time

import jax
import numpy as np

import ntkmmd_jax as ntk
from ntkmmd_jax.twosample.driving import driving

LEVEL, ORDERS = 0.05, 199  # with 199 relabellings the level of the p-value is exact too


def independent(rng, n, d):
    return rng.normal(size=(n, d))


def correlated(rng, n, d, rho=0.6):
    """Normal coordinates, every two of them with correlation ρ."""
    return np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, d))


def mean(y, rng):
    y[:, :2] += 0.6


def little(y, rng):
    y[:, :2] += 0.2


def spread(y, rng):
    y[:, 0] *= 2


def two_modes(y, rng):
    """Mean 0 and variance 1 as before, in two modes."""
    y[:, 0] = 0.95 * rng.choice([-1, 1], len(y)) + np.sqrt(1 - 0.95**2) * y[:, 0]


def more(y, rng):
    y[:, :2] += 0.8


def closer(y, rng):
    y[:, 1] = 0.8 * y[:, 0] + 0.6 * y[:, 1]


def correlation(y, rng):
    y[:, 1] = 0.6 * y[:, 0] + 0.8 * y[:, 1]


def common(y, rng):
    """The paper's covariance shift: a factor common to all."""
    y += np.sqrt(0.12) * rng.normal(size=(len(y), 1))


# what is changed: (law, n_x, n_y, d, change, which coordinates drive)
PROBLEMS = {
    "mean by .6 in two of 10": (independent, 200, 150, 10, mean, (0, 1)),
    "spread by 2 in one of 10": (independent, 200, 150, 10, spread, (0,)),
    "two modes in one of 10": (independent, 200, 150, 10, two_modes, (0,)),
    "correlation .6 of two of 10": (independent, 200, 150, 10, correlation, (0, 1)),
    "mean by .6 in two of 10, all correlated .6": (correlated, 200, 150, 10, mean, (0, 1)),
    "spread by 2 in one of 10, all correlated .6": (correlated, 200, 150, 10, spread, (0,)),
    "mean by .6 in two of 100": (independent, 200, 150, 100, mean, (0, 1)),
    "spread by 2 in one of 100": (independent, 200, 150, 100, spread, (0,)),
    "correlation .6 of two of 100": (independent, 200, 150, 100, correlation, (0, 1)),
    "factor common to all 100, rho = .12": (independent, 200, 200, 100, common, tuple(range(100))),
    "mean by .6 in two of 784": (independent, 200, 150, 784, mean, (0, 1)),
    "mean by .2 in two of 10, in bins": (independent, 3000, 2500, 10, little, (0, 1)),
    "mean by .8 in two of 100": (independent, 200, 150, 100, more, (0, 1)),
    "correlation .8 of two of 100": (independent, 200, 150, 100, closer, (0, 1)),
    "mean by .8 in two of 784": (independent, 200, 150, 784, more, (0, 1)),
}  # fmt: skip


def heavy(rng, n, d):
    return rng.standard_t(2, size=(n, d))


def counts(rng, n, d):
    """Many ties: the rank is that of the middle."""
    return rng.poisson(1.0, size=(n, d)).astype(float)


NULLS = {
    "Gaussian, d = 1": (independent, 60, 40, 1),
    "Gaussian, d = 10": (independent, 200, 150, 10),
    "Gaussian, d = 10, n = 20 + 15": (independent, 20, 15, 10),
    "correlated .6, d = 10": (correlated, 200, 150, 10),
    "t(2), d = 10": (heavy, 200, 150, 10),
    "Poisson(1), d = 10": (counts, 200, 150, 10),
    "Gaussian, d = 30": (independent, 100, 80, 30),
    "Gaussian, d = 200, no pairs": (independent, 100, 80, 200),
    "correlated .6, d = 5, n = 2,000 + 1,500 in bins": (correlated, 2000, 1500, 5),
}


def named(seed, x, y):
    """The coordinates that are named."""
    key = jax.random.key(seed)
    found = driving(key, x, y, level=LEVEL, n_permutations=ORDERS)
    return set(np.flatnonzero(found.pvalue <= LEVEL).tolist())


def found(runs=200, rows=slice(None)):
    """In how many of the runs all driving coordinates are named, each of them, and any other."""
    print(
        f"| {runs} runs, {ORDERS} relabellings | all named | each | any other |\n|---|---|---|---|"
    )
    for name, (law, n_x, n_y, d, change, drives) in [*PROBLEMS.items()][rows]:
        rng, counts_ = np.random.default_rng(1), np.zeros(3)
        for seed in range(runs):
            x, y = law(rng, n_x, d), law(rng, n_y, d)
            change(y, rng)
            seen, true = named(seed, x, y), set(drives)
            counts_ += [true <= seen, len(true & seen) / len(true), bool(seen - true)]
        other = f"{counts_[2] / runs:.3f}" if len(drives) < d else "there is none"
        print(
            f"| {name} | {counts_[0] / runs:.3f} | {counts_[1] / runs:.3f} | {other} |", flush=True
        )


def level(runs=2000, rows=slice(None)):
    """How often any coordinate is named if x and y have one law."""
    band = 2 * np.sqrt(LEVEL * (1 - LEVEL) / runs)
    print(f"| {runs} replicas, wanted {LEVEL} ± {band:.3f} (2 SE) | any named |\n|---|---|")
    for name, (law, n_x, n_y, d) in [*NULLS.items()][rows]:
        rng = np.random.default_rng(2)
        hits = sum(bool(named(seed, law(rng, n_x, d), law(rng, n_y, d))) for seed in range(runs))
        print(f"| {name} | {hits / runs:.4f} |", flush=True)


def methods(runs=200):
    """What a user calls: test, then explain, of the README's data; also the witness's own share."""
    print(f"| {runs} runs | rejected | named alone | first by share |\n|---|---|---|---|")
    for method in ntk.methods():
        if method == "gmmd-lin":
            continue
        counts_ = np.zeros(3)
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            x, y = rng.normal(size=(200, 10)), rng.normal(size=(150, 10)) + 0.8 * np.eye(10)[0]
            result = ntk.two_sample_test(x, y, method=method, key=seed, n_permutations=99)
            explained = result.explain(x, y, key=seed, n_permutations=ORDERS)
            first = int(np.argmax(explained.shares)) == 0
            counts_ += [result.reject, "0" in explained.driving, first]
        print(f"| `{method}` | {' | '.join(f'{c / runs:.3f}' for c in counts_)} |", flush=True)


def speed():
    """Of `ntk-fuse`, after the test, with the default 999 relabellings."""
    print("| n + n, d | first, CPU s | next, CPU s |\n|---|---|---|")
    for n, d in ((200, 10), (200, 100), (500, 784), (5000, 784), (100_000, 10)):
        rng, times = np.random.default_rng(0), []
        x, y = rng.normal(size=(n, d)), rng.normal(size=(n, d))
        y[:, 0] += 1
        result = ntk.two_sample_test(x, y)
        for _ in range(2):
            start = time.process_time()
            result.explain(x, y)
            times.append(time.process_time() - start)
        print(f"| {n:,} + {n:,}, {d} | {times[0]:.2f} | {times[1]:.2f} |", flush=True)


def _number(text):
    return slice(*map(int, text.split(":"))) if ":" in text else int(text)


if __name__ == "__main__":
    wanted, *given = sys.argv[1:] or ["found"]
    known = {"found": found, "level": level, "methods": methods, "speed": speed}
    known[wanted](*map(_number, given))
