"""Time of one test of every method, beside the exact NTK-MMD in the same run.

    python benchmarks/methods.py [n ...]

Covariance shift, d = 100, defaults of each method, best of three warm runs; compilation ("first")
apart. The ratio is to `ntk` at the same n. hyppo's MMD stands beside them at n = 200, if installed.
"""

import sys

import jax
import numpy as np
from timing import best

import ntkmmd_jax as ntk


def hyppo_mmd(x, y):
    from hyppo.ksample import MMD

    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    return lambda key: MMD().test(x, y, reps=400, workers=1, auto=False, random_state=key)


def row(name, n, first, warm, base):
    return f"{name:16}{n:>8,}{first:>10.1f}{warm:>11.4f}{warm / base:>9.1f}"


def main(sizes=(200, 2_000, 10_000)):
    print(f"{'method':16}{'n':>8}{'first s':>10}{'seconds':>11}{'of ntk':>9}")
    for n in sizes:
        x, y = ntk.datasets.covariance_shift(jax.random.key(0), n, n, rho=0.12)
        base = None
        for method in ["ntk", *(name for name in ntk.methods() if name != "ntk")]:
            warm, first = best(
                lambda key, method=method, x=x, y=y: ntk.two_sample_test(
                    x, y, method=method, key=key
                )
            )
            base = base or warm
            print(row(method, n, first, warm, base), flush=True)
        if n <= 200:
            try:
                warm, first = best(hyppo_mmd(x, y))
            except ImportError:
                continue
            print(row("hyppo MMD", n, first, warm, base), flush=True)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or (200, 2_000, 10_000))
