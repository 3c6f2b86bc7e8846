"""How many bins: power and time of the tests without a split, from 16 bins to one a point.

    python benchmarks/bins.py [runs] [--bins 64 256 …] [--problems mixture …]

n = 500 + 500, level .05, 400 permutations; power with its 95 % interval, milliseconds a replica in
a sweep, and seconds of one call at n = 10,000 + 10,000. Every number of bins is exact in level:
this is about power and time only.
"""

import argparse

import jax
from timing import seconds

import ntkmmd_jax as ntk

BINS = (16, 32, 64, 128, 256, 512, 1000)
PROBLEMS = {
    "mean shift, d = 100": ("mean_shift", {"delta": [0.4]}),
    "covariance shift, d = 100": ("covariance_shift", {"rho": [0.06]}),
    "perturbed uniform, d = 2": ("perturbed_uniform", {"amplitude": [0.6], "dim": [2]}),
    "mixture of four, d = 2": ("mixture4", {"sigma": [1.3]}),
}


def tests(bins):
    symmetric = ntk.NTKMMD(train_fraction=None, bins=bins, standardize=True)
    return {"ntk-symmetric": symmetric, "ntk-fuse": ntk.FusedNTK(bins=bins)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="?", type=int, default=200)
    parser.add_argument("--bins", nargs="+", type=int, default=BINS)
    parser.add_argument("--problems", nargs="+", default=[""], help="beginnings of their names")
    given = parser.parse_args()
    runs = given.runs
    chosen = {name: PROBLEMS[name] for name in PROBLEMS if name.startswith(tuple(given.problems))}
    print(f"{'bins':>6}  {'problem':28}" + "".join(f"{name:>34}" for name in tests(None)))
    for bins in given.bins:
        for problem, (sampler, grid) in chosen.items():
            cells = []
            for name, test in tests(bins).items():
                options = {"n": 500, "n_runs": runs, "progress": False}
                sampled = getattr(ntk.datasets, sampler)
                (row,) = ntk.power_sweep(0, {name: test}, sampled, grid, **options).rows
                spent = 1e3 * row.seconds / runs
                cells.append(f"{row.power:.3f} [{row.low:.2f}, {row.high:.2f}] {spent:7.1f} ms")
            print(f"{bins:>6}  {problem:28}" + "".join(f"{cell:>34}" for cell in cells), flush=True)
    x, y = ntk.datasets.covariance_shift(jax.random.key(0), 10_000, 10_000, rho=0.06)
    for bins in given.bins:
        spent = [min(seconds(lambda k, t=t: t(k, x, y), 3)[1:]) for t in tests(bins).values()]
        print(
            f"{bins:>6}  n = 10,000, d = 100, one call  " + "".join(f"{s:>30.2f} s" for s in spent)
        )


if __name__ == "__main__":
    main()
