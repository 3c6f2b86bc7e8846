"""Time of `ntk-fuse` and of MMD-FUSE over n in one run, and the exponent of `ntk-fuse` in n.

    python benchmarks/fused_time.py [--sizes 500 2000 10000] [--kernel-up-to 2000] [--up-to 100000]

Median of warm calls, the shortest in brackets. MMD-FUSE has 2,000 permutations, as published; it is
quadratic, so that at n = 10,000 it takes minutes: it runs up to --kernel-up-to only. The exponent
is the slope of log time over log n, by least squares: of all sizes, and of the largest three,
beyond fixed costs.
"""

import argparse
import math
import statistics

import jax
import numpy as np
from timing import seconds

import ntkmmd_jax as ntk

PROBLEMS = {
    "mixture of four, d = 2": (ntk.datasets.mixture4, {"sigma": 1.3}),
    "covariance shift, d = 100": (ntk.datasets.covariance_shift, {"rho": 0.02}),
}
GROWING = (1_000, 3_000, 10_000, 30_000, 100_000)


def warm(sampler, point, n, calls, method, **options):
    """Milliseconds of warm calls: the median, and the shortest."""
    x, y = jax.block_until_ready(sampler(jax.random.key(0), n, n, **point))
    run = lambda key: ntk.two_sample_test(x, y, method=method, key=key, **options)  # noqa: E731
    spent = [1e3 * one for one in seconds(run, calls)[1:]]
    return statistics.median(spent), min(spent)


def slope(sizes, times):
    return np.polyfit(np.log(sizes), np.log(times), 1)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=[500, 2_000, 10_000])
    parser.add_argument("--kernel-up-to", type=int, default=2_000)
    parser.add_argument("--up-to", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=5)
    given = parser.parse_args()
    for name, (sampler, point) in PROBLEMS.items():
        print(f"{name}\n{'n of each':>12}{'ntk-fuse ms':>20}{'MMD-FUSE ms':>22}{'ratio':>8}")
        for n in given.sizes:
            ours, theirs = warm(sampler, point, n, given.calls, "ntk-fuse"), (math.nan, math.nan)
            if n <= given.kernel_up_to:
                calls = given.calls if n <= 1_000 else 2
                theirs = warm(sampler, point, n, calls, "mmd-fuse", n_permutations=2_000)
            cells = [f"{median:,.1f} ({least:,.1f})" for median, least in (ours, theirs)]
            ratio = theirs[0] / ours[0]
            print(f"{n:>12,}{cells[0]:>20}{cells[1]:>22}{ratio:>8.1f}", flush=True)
        sizes = [n for n in GROWING if n <= given.up_to]
        found = [warm(sampler, point, n, given.calls, "ntk-fuse") for n in sizes]
        times = [median for median, _ in found]
        for n, (median, least) in zip(sizes, found, strict=True):
            print(f"{n:>12,}{f'{median:,.1f} ({least:,.1f})':>20}")
        if len(sizes) > 1:
            last = slope(sizes[-3:], times[-3:])
            print(f"  exponent in n: {slope(sizes, times):.2f}, of the last three {last:.2f}\n")


if __name__ == "__main__":
    main()
