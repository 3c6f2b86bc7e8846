"""Power on the covariance shift of the paper's Figure 1, ours beside the published.

    python benchmarks/power.py [replicas]

d = 100, half split, two-layer softplus network of width 512, α = 0.1, one pass, batch size 1, 400
permutations. Intervals are Wilson's at 95 %. Published: 500 replicas, net, n_X = n_Y = 200.
"""

import sys
import time

import jax
import numpy as np

import ntkmmd_jax as ntk
from ntkmmd_jax.power_table import wilson

RHO = (0.0, 0.04, 0.08, 0.12, 0.16)
PUBLISHED = (0.058, 0.130, 0.430, 0.824, 0.960)
TESTS = {
    "net": ntk.NetMMD(shared_pool=True),
    "ntk": ntk.NTKMMD(shared_pool=True),
    "ntk-full": ntk.NTKMMD(calibration="full", shared_pool=True),
}


def rejections(n_x, n_y, n_runs):
    """Rejection counts (tests, ρ); all tests see the same data."""

    def replica(key, rho):
        k_data, k_test = jax.random.split(key)
        x, y = ntk.datasets.covariance_shift(k_data, n_x, n_y, rho=rho)
        return [test(k_test, x, y).reject for test in TESTS.values()]

    @jax.jit
    def cell(key, rho):
        keys = jax.random.split(key, n_runs)
        return jax.lax.map(lambda k: replica(k, rho), keys, batch_size=20)

    keys = jax.random.split(jax.random.key(1), len(RHO))
    cells = [cell(key, rho) for key, rho in zip(keys, RHO, strict=True)]
    return np.stack(cells, axis=1).sum(axis=2)


def main(n_runs=500):
    print(f"{n_runs} replicas; power, with 95 % interval")
    print(f"{'':22}" + "".join(f"{f'ρ = {rho}':>20}" for rho in RHO))
    print(f"{'published, net':22}" + "".join(f"{p:>20.3f}" for p in PUBLISHED))
    for n_x, n_y in ((200, 200), (200, 120)):
        start = time.perf_counter()
        for name, row in zip(TESTS, rejections(n_x, n_y, n_runs), strict=True):
            cells = [f"{r / n_runs:.3f} [{a:.3f}, {b:.3f}]"
                     for r, (a, b) in ((r, wilson(r, n_runs)) for r in row)]  # fmt: skip
            print(f"{f'{name}, {n_x} + {n_y}':22}" + "".join(f"{c:>20}" for c in cells))
        print(f"  ({time.perf_counter() - start:.0f} s, compilation included)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
