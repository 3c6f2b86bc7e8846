"""Time of `ntk-fuse` and of MMD-FUSE over n in one run, and the exponent of `ntk-fuse` in n.

    python benchmarks/fused_time.py [--sizes 500 2000 10000] [--kernel-up-to 2000] [--up-to 100000]

Median of warm calls. MMD-FUSE has 2,000 permutations, as published; it is quadratic, so that at
n = 10,000 it takes minutes: it runs up to --kernel-up-to only. The exponent is the slope of log
time over log n, by least squares: of all sizes, and of the largest three, beyond fixed costs.
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


def median(sampler, point, n, calls, method, **options):
    """Seconds of a warm call."""
    x, y = jax.block_until_ready(sampler(jax.random.key(0), n, n, **point))
    run = lambda key: ntk.two_sample_test(x, y, method=method, key=key, **options)  # noqa: E731
    return statistics.median(seconds(run, calls)[1:])


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
        print(f"{name}\n{'n of each':>12}{'ntk-fuse ms':>14}{'MMD-FUSE ms':>14}{'ratio':>9}")
        for n in given.sizes:
            ours = median(sampler, point, n, given.calls, "ntk-fuse")
            theirs = math.nan
            if n <= given.kernel_up_to:
                calls = given.calls if n <= 1_000 else 2
                theirs = median(sampler, point, n, calls, "mmd-fuse", n_permutations=2_000)
            row = f"{n:>12,}{1e3 * ours:>14.1f}{1e3 * theirs:>14.1f}{theirs / ours:>9.1f}"
            print(row, flush=True)
        sizes = [n for n in GROWING if n <= given.up_to]
        times = [median(sampler, point, n, given.calls, "ntk-fuse") for n in sizes]
        shown = ", ".join(f"{1e3 * t:.0f} ms at {n:,}" for n, t in zip(sizes, times, strict=True))
        print(f"  ntk-fuse: {shown}")
        if len(sizes) > 1:
            last = slope(sizes[-3:], times[-3:])
            print(f"  exponent in n: {slope(sizes, times):.2f}, of the last three {last:.2f}\n")


if __name__ == "__main__":
    main()
