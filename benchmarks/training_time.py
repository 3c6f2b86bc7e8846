"""What training times add to the fused test: the default collection, and the same at time 0.

    python benchmarks/training_time.py [runs] [--problems mixture …]

Problems are those of the leaderboard, by the beginnings of their names; power with its 95 %
interval at level .05. At time 0 every scale is the MMD of its kernel, as in other fused tests. "One
scale, its times" is the widest scale of the collection alone.
"""

import argparse
import dataclasses

import ntkmmd_jax as ntk
from ntkmmd_jax.datasets import mnist
from ntkmmd_jax.experiments import leaderboard
from ntkmmd_jax.twosample.fused import collection


def at_start(members):
    """The same members, not trained."""
    scales = (m for m in members if isinstance(m, ntk.Scale))
    return tuple(dataclasses.replace(m, times=(0.0,)) for m in scales)


def tests():
    scales = tuple(m for m in collection() if isinstance(m, ntk.Scale))
    collections = {
        "scales and times": scales,
        "scales, time 0": at_start(scales),
        "one scale, its times": scales[-1:],
        "one scale, time 0": at_start(scales[-1:]),
    }
    return {name: ntk.FusedNTK(found, standardize=True) for name, found in collections.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="?", type=int, default=200)
    parser.add_argument("--problems", nargs="+", default=[""], help="beginnings of their names")
    given = parser.parse_args()
    try:
        mnist.images("mnist")
        data = "mnist"
    except FileNotFoundError:
        data = "digits"
    found = tests()
    print("| | " + " | ".join(found) + " |\n|---" + "|---" * len(found) + "|")
    for problem in leaderboard.problems(data):
        if not problem.name.startswith(tuple(given.problems)):
            continue
        grid = {name: [value] for name, value in problem.point.items()}
        options = {"n": problem.n, "n_runs": given.runs, "progress": False}
        rows = ntk.power_sweep(0, found, problem.sampler, grid, **options).rows
        cells = (f"{row.power:.2f} [{row.low:.2f}, {row.high:.2f}]" for row in rows)
        print(f"| {problem.name}, n = {problem.n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
