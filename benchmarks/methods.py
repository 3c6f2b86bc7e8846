"""Time of one test of every method, beside the exact NTK-MMD in the same run.

    python benchmarks/methods.py [n ...]

Covariance shift, d = 100, defaults of each method, best of three warm runs; compilation ("first")
apart. The ratio is to `ntk` at the same n. hyppo's MMD stands beside them at n = 200, if installed.
"""

import sys
import time

import jax
import numpy as np

import ntkmmd_jax as ntk


def measure(run):
    times = []
    for key in range(4):
        start = time.perf_counter()
        run(key)
        times.append(time.perf_counter() - start)
    return times[0], min(times[1:])


def hyppo_mmd(x, y):
    from hyppo.ksample import MMD

    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    return lambda key: MMD().test(x, y, reps=400, workers=1, auto=False, random_state=key)


def main(sizes=(200, 2_000, 10_000)):
    print(f"{'method':16}{'n':>8}{'first s':>10}{'seconds':>11}{'of ntk':>9}")
    for n in sizes:
        x, y = ntk.datasets.covariance_shift(jax.random.key(0), n, n, rho=0.12)
        base = None
        for method in ["ntk", *(name for name in ntk.methods() if name != "ntk")]:
            first, best = measure(
                lambda key, method=method, x=x, y=y: ntk.two_sample_test(
                    x, y, method=method, key=key
                )
            )
            base = base or best
            print(f"{method:16}{n:>8,}{first:>10.1f}{best:>11.4f}{best / base:>9.1f}", flush=True)
        try:
            first, best = measure(hyppo_mmd(x, y)) if n <= 200 else (0, 0)
        except ImportError:
            continue
        if best:
            print(
                f"{'hyppo MMD':16}{n:>8,}{first:>10.1f}{best:>11.4f}{best / base:>9.1f}", flush=True
            )


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or (200, 2_000, 10_000))
