"""Power, level and time of methods on the problems of the leaderboard: all, or some.

    python benchmarks/leaderboard.py [--runs 500] [--methods ntk-fuse gmmd …] [--problems blobs …]
    python benchmarks/leaderboard.py --published [--methods ntk-fuse …] [--sizes 500 1000 …]

The code is that of `ntkmmd reproduce leaderboard` and `ntkmmd reproduce published`; problems are
taken by the beginning of their names. With --resume, what is in --out is not run again. Without
MNIST's files, scikit-learn's digits stand in for them. The leaderboard is printed as Markdown, the
mean power and the geometric mean of the times first; intervals are in the picture.
"""

import argparse
from pathlib import Path

import ntkmmd_jax as ntk
from ntkmmd_jax import plotting
from ntkmmd_jax.datasets import mnist
from ntkmmd_jax.experiments import Context, leaderboard, published


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--methods", nargs="+", default=None)
    parser.add_argument("--problems", nargs="+", default=[""], help="beginnings of their names")
    parser.add_argument("--published", action="store_true", help="beside MMD-FUSE and MMDAgg")
    parser.add_argument("--sizes", nargs="*", type=int, default=published.SIZES)
    parser.add_argument("--amplitudes", nargs="*", type=float, default=published.AMPLITUDES)
    parser.add_argument("--out", type=Path, default=Path("reproduction"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--devices", type=int, default=None)
    return parser.parse_args()


def data():
    try:
        mnist.images("mnist")
    except FileNotFoundError:
        return "digits"
    return "mnist"


def markdown(found, names, chosen):
    """A row a method, the best on average on top: mean power, milliseconds, power by problem."""
    known = {number.label: number.ours for number in found.numbers}
    means = {row[0].split(" (")[0]: row[-1] for row in found.table[1:]}
    yield "| | mean | ms | " + " | ".join(f"{one.name}, n = {one.n}" for one in chosen) + " |"
    yield "|---" * (3 + len(chosen)) + "|"
    for name in sorted(names, key=lambda name: means[name], reverse=True):
        mean, _, spent = means[name].partition(", ")
        powers = (known.get(f"{name}, {one.name}") for one in chosen)
        cells = ["refused" if power is None else f"{power:.2f}".lstrip("0") for power in powers]
        spent = spent.removesuffix(" ms")
        yield f"| `{name}` | {mean.lstrip('0')} | {spent} | " + " | ".join(cells) + " |"


def columns(found):
    """Column by column: all beside each other would be too wide to read."""
    head, *rows = found.table
    for column in range(1, len(head)):
        yield f"\n{head[column]}"
        yield from (f"  {row[0]:24}{row[column]}" for row in rows)


def main():
    given = parsed()
    ntk.use_cores(given.devices, lapack=True)
    name = "published" if given.published else "leaderboard"
    if not given.resume:
        for stale in (given.out / "checkpoints").glob(f"{name}-*.jsonl"):
            stale.unlink()
    context = Context(name, given.runs, given.out, devices=given.devices, data=data())
    if given.published:
        names = given.methods or tuple(published.STYLES)
        found = published.curves(context, names, given.sizes, given.amplitudes)
        lines = columns(found)
    else:
        names = given.methods or tuple(ntk.methods())
        chosen = [
            problem
            for problem in leaderboard.problems(context.data)
            if problem.name.startswith(tuple(given.problems))
        ]
        found = leaderboard.board(context, names, chosen)
        lines = markdown(found, names, chosen)
    print("\n".join(lines))
    plotting.save(found.figure, given.out / f"{name}.png")
    print(f"\nwritten: {given.out / name}.png")


if __name__ == "__main__":
    main()
