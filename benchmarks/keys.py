"""How much the p-value of one data set moves with the key: keys 0 to 9 on the same points.

    python benchmarks/keys.py [delta [n [dim [seed]]]]

A mean shift of 20 + 20 points, at which p-values are about 0.05. Methods as they ship. What is
random beside the labels is the split, the network, and what is trained.
"""

import statistics
import sys

import jax

import ntkmmd_jax as ntk

METHODS = ("net", "ntk", "ntk-symmetric", "ntk-fuse", "gmmd")


def main(delta=0.6, n=20, dim=3, seed=0):
    x, y = ntk.datasets.mean_shift(
        jax.random.key(int(seed)), int(n), int(n), delta=delta, dim=int(dim)
    )
    print(f"mean shift {delta:g}, d = {int(dim)}, {int(n)} + {int(n)} points; keys 0 to 9")
    print(f"{'':16}{'least':>9}{'median':>9}{'most':>9}{'sd':>9}{'rejected':>10}")
    for method in METHODS:
        found = [ntk.two_sample_test(x, y, method=method, key=key) for key in range(10)]
        p = [result.pvalue for result in found]
        numbers = (min(p), statistics.median(p), max(p), statistics.stdev(p))
        rejected = sum(result.reject for result in found)
        print(f"{method:16}" + "".join(f"{v:>9.4f}" for v in numbers) + f"{rejected:>10}")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
