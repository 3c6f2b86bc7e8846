"""The level of every method as it ships, under H0 at 5 %, on data that people really have.

    python benchmarks/levels.py [RUNS [METHOD ...]] [--sizes 7+9 200+200 14..60 ...] [--laws ties]

Both samples come from one law: Gaussian, tied, with a constant or a duplicated column, with heavy
tails, at scales from 1e-7 to 1e6, far from the origin. A cell shows the largest rejection rate over
the laws and which it was, "+k" replicas without a verdict (NaN), or that the size is refused.
METHOD is a name, or name/bins for a test without a split: "ntk-symmetric/16". The slowest methods
run a quarter of the replicas from 200 + 200 on. Of "14..60", both sizes of every replica are drawn
at random between 14 and 60, and its samples padded to one bucket, as `two_sample_test` pads them.
"""

import argparse
import sys
import time

import jax
import jax.numpy as jnp

import ntkmmd_jax as ntk
from ntkmmd_jax._lib import padding
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.twosample import shipped_test
from ntkmmd_jax.twosample.contract import run_program

SIZES = ("7+9", "14+11", "50+30", "20+100", "200+200")
SLOW = ("me", "scf", "c2st-s", "c2st-l", "ntk-fuse", "mmd-fuse", "mmd-agg")
LARGE = 400  # points of both, from which the slow ones have a quarter of the replicas
AT_ONCE = 8


def _normal(key, n):
    return jax.random.normal(key, (n, 3))


def _with_column(column):
    return lambda key, n: (lambda z: z.at[:, 1].set(column(z)))(_normal(key, n))


LAWS = {
    "gaussian": _normal,
    "ties": lambda key, n: jax.random.bernoulli(key, 0.4, (n, 3)).astype(jnp.float32),
    "constant column": _with_column(lambda z: 2.5),
    "duplicated column": _with_column(lambda z: z[:, 0]),
    "heavy tails": lambda key, n: jax.random.t(key, 1.5, (n, 3)),
    "scale 1e-7": lambda key, n: 1e-7 * _normal(key, n),
    "scale 1e-6": lambda key, n: 1e-6 * _normal(key, n),
    "scale 1e-3": lambda key, n: 1e-3 * _normal(key, n),
    "scale 1e6": lambda key, n: 1e6 * _normal(key, n),
    "offset 100": lambda key, n: 100 + _normal(key, n),
    "offset 1e4": lambda key, n: 1e4 + _normal(key, n),
}


def rates(method, size, runs, laws):
    """(rejections, NaN) of each law, by one program; or why the sizes are refused."""
    name, _, bins = method.partition("/")
    test = shipped_test(name, **({"bins": int(bins)} if bins else {}))
    padded = ".." in size
    low, high = map(int, size.split(".." if padded else "+"))
    places = padding.bucket(2 * high) if padded else low + high
    if padded and (places > test.pads_up_to or not test.pads(low, high)):
        return "samples of this method are not padded at these sizes"

    def pvalue(key, points, n_x, n_y):
        if padded:
            return run_program(test, key, Pooled(points, n_x, n_y)).pvalue
        return test(key, points[:low], points[low:]).pvalue

    @jax.jit
    def count(keys, z, sizes):
        def replica(one):
            key, points, (n_x, n_y) = one
            p = pvalue(key, points, n_x, n_y)
            return jnp.stack([p <= test.level, jnp.isnan(p)])

        return jax.lax.map(replica, (keys, z, sizes), batch_size=AT_ONCE).sum(0)

    found = {}
    for i, (law, draw) in enumerate(LAWS.items()):
        if law not in laws:
            continue
        k_data, k_test = jax.random.split(jax.random.fold_in(jax.random.key(2026), i))
        z = jax.jit(jax.vmap(lambda k, draw=draw: draw(k, places)))(jax.random.split(k_data, runs))
        k_sizes = jax.random.fold_in(k_data, 1)
        sizes = jax.random.randint(k_sizes, (runs, 2), min(low, high), 1 + max(low, high))
        try:
            found[law] = tuple(int(v) for v in count(jax.random.split(k_test, runs), z, sizes))
        except ValueError as error:
            return str(error)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="?", type=int, default=2000)
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--laws", nargs="+", default=tuple(LAWS), choices=tuple(LAWS))
    given = parser.parse_args()
    print(f"{given.runs} replicas each; the band ends at {_upper(given.runs):.4f}\n")
    print("| | " + " | ".join(given.sizes) + " |")
    print("|---" * (len(given.sizes) + 1) + "|", flush=True)
    for method in given.methods or ntk.methods():
        cells, start = [], time.perf_counter()
        for size in given.sizes:
            points = sum(map(int, size.replace("..", "+").split("+")))
            slow = method.partition("/")[0] in SLOW and points >= LARGE
            often = given.runs // 4 if slow else given.runs
            found = rates(method, size, often, given.laws)
            if isinstance(found, str):
                cells.append("refused")
                print(f"{method} {size}: {found}", file=sys.stderr)
                continue
            law = max(found, key=lambda name: found[name][0])
            missing = sum(nan for _, nan in found.values())
            rate = found[law][0] / often
            mark = " **!**" if rate > _upper(often) else ""
            cells.append(f"{rate:.4f} {law}{f' +{missing}' if missing else ''}{mark}")
            print(method, size, {k: v[0] / often for k, v in found.items()}, file=sys.stderr)
        print(f"| `{method}` | " + " | ".join(cells) + " |", flush=True)
        print(f"{method}: {time.perf_counter() - start:.0f} s", file=sys.stderr)


def _upper(runs):
    """Where the band of four standard errors about 5 % ends."""
    return 0.05 + 4 * (0.05 * 0.95 / runs) ** 0.5


if __name__ == "__main__":
    main()
