"""Power on the covariance shift of the paper's Figure 1, ours beside the published.

    python benchmarks/power.py [replicas]

d = 100, half split, two-layer softplus network of width 512, α = 0.1, one pass, batch size 1, 400
permutations. Intervals are Wilson's at 95 %. Published: 500 replicas, net, n_X = n_Y = 200.
"""

import sys
import time

import ntkmmd_jax as ntk

RHO = (0.0, 0.04, 0.08, 0.12, 0.16)
PUBLISHED = (0.058, 0.130, 0.430, 0.824, 0.960)


def main(n_runs=500):
    ntk.use_cores()
    print(f"{n_runs} replicas; power, with 95 % interval")
    print(f"{'':22}" + "".join(f"{f'ρ = {rho}':>20}" for rho in RHO))
    print(f"{'published, net':22}" + "".join(f"{p:>20.3f}" for p in PUBLISHED))
    tests, sampler = ["net", "ntk", "ntk-full"], ntk.datasets.covariance_shift
    for n in ((200, 200), (200, 120)):
        start = time.perf_counter()
        table = ntk.power_sweep(1, tests, sampler, {"rho": RHO}, n=n, n_runs=n_runs)
        for test in tests:
            rows = [row for row in table.rows if row.test == test]
            cells = [f"{row.power:.3f} [{row.low:.3f}, {row.high:.3f}]" for row in rows]
            print(f"{f'{test}, {n[0]} + {n[1]}':22}" + "".join(f"{c:>20}" for c in cells))
        print(f"  ({time.perf_counter() - start:.0f} s, compilation included)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
