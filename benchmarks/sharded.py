"""One exact test of n + n points over several devices: time of the second call, and the p-value.

    python benchmarks/sharded.py [1000000] [--dim 20] [--devices 1 2]

Each row is a process of its own, every device one thread of the CPU. The ratio to the first row is
what more devices save; points are placed on the host, by one thread, whatever their number.
"""

import argparse
import json
import subprocess
import sys
import time

from timing import peak_mb


def measure(n, dim, devices):
    import ntkmmd_jax as ntk

    ntk.use_cores(devices)
    import numpy as np

    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, dim), dtype=np.float32) for _ in range(2))
    y[:, 0] *= 1.01
    for key in (0, 1):
        start = time.perf_counter()
        result = ntk.sharded_test(x, y, key=key)
    spent = time.perf_counter() - start
    print(json.dumps([spent, result.statistic, result.pvalue, peak_mb()]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=20)
    parser.add_argument("--devices", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        return measure(given.n, given.dim, given.one)
    first = None
    print("devices   seconds   ratio         T_NTK        p   peak MB")
    for devices in given.devices:
        command = [sys.executable, __file__, str(given.n), "--dim", str(given.dim)]
        done = subprocess.run(
            [*command, "--one", str(devices)], check=True, stdout=subprocess.PIPE, text=True
        )
        spent, statistic, pvalue, peak = json.loads(done.stdout.splitlines()[-1])
        first = first or spent
        line = f"{devices:7}{spent:10.2f}{first / spent:8.2f}{statistic:14.6g}"
        print(f"{line}{pvalue:9.4f}{peak:10.0f}")
    return None


if __name__ == "__main__":
    main()
