"""From the start of a process to its first p-value, and to those of 20 other sizes.

Every method in fresh processes: with no programs on disk, then with those of the run before
(`ntk.cache()`); beside permutation tests that compile nothing, each in a process of its own, on the
same data in one run: scipy's `permutation_test` with the statistic of `gmmd`, and hyppo's MMD.
CPU seconds are user + system of the process, beyond `import jax` (beyond the start of Python for
the others), so that they tell little of the load of the machine; wall seconds begin with the
process. `size` is one of the 20 further calls, each of another size: the median and the longest.

    python benchmarks/latency.py [--methods net,gmmd] [--further 20]

hyppo is no dependency of ours: `pip install hyppo` to have its row.
"""

import argparse
import compileall
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

METHODS = ("net", "ntk", "ntk-symmetric", "ntk-fuse", "gmmd")
N, DIM, SHIFT, PERMUTATIONS = 200, 20, 0.05, 400
ROW = "{:<22}{:<6}{:>9}{:>9}{:>9}{:>11}{:>11}{:>10}{:>9}"


def samples(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, DIM)), rng.normal(size=(n, DIM)) + SHIFT


def sizes(further: int) -> list[int]:
    """The first size, and others around it, none twice."""
    return [N, *(N - 10 + i + (i >= 10) for i in range(further))]


def ours(method: str) -> Callable[[int], float]:
    import ntkmmd_jax as ntk

    ntk.cache()
    options: dict[str, Any] = {"method": method, "n_permutations": PERMUTATIONS}
    return lambda n: ntk.two_sample_test(*samples(n), **options).pvalue


def scipys() -> Callable[[int], float]:
    from scipy.spatial.distance import pdist, squareform
    from scipy.stats import permutation_test

    def pvalue(n: int) -> float:
        squares = pdist(np.concatenate(samples(n)), "sqeuclidean")
        # The bandwidth of `gmmd`: the median distance.
        kernel = np.exp(squareform(squares) / (-2 * np.median(squares)))

        def mmd(x: np.ndarray, y: np.ndarray) -> float:  # biased, of the points of these numbers
            within = kernel[np.ix_(x, x)].mean() + kernel[np.ix_(y, y)].mean()
            return within - 2 * kernel[np.ix_(x, y)].mean()

        labels = (np.arange(n), np.arange(n, 2 * n))
        options: dict[str, Any] = {"n_resamples": PERMUTATIONS, "alternative": "greater"}
        return float(permutation_test(labels, mmd, rng=0, **options).pvalue)

    return pvalue


def hyppos() -> Callable[[int], float]:
    from hyppo.ksample import MMD

    options: dict[str, Any] = {"reps": PERMUTATIONS, "auto": False, "random_state": 0}
    return lambda n: float(MMD(compute_kernel="gaussian").test(*samples(n), **options)[1])


OTHERS = {"scipy, stat. of gmmd": scipys, "hyppo MMD": hyppos}


def child(name: str, further: int) -> None:
    """One process: its import, its first p-value, and all the others, as JSON."""
    if name not in OTHERS:
        import jax  # noqa: F401

    after_import = time.process_time()
    run = OTHERS[name]() if name in OTHERS else ours(name)
    calls = []
    for n in sizes(further):
        start, begun = time.perf_counter(), time.process_time()
        pvalue = run(n)
        spent = (time.perf_counter() - start, time.process_time() - begun)
        calls.append((n, pvalue, *spent, time.time(), time.process_time() - after_import))
    print(json.dumps(calls))


def measured(name: str, folder: str, further: int) -> list[str]:
    """The columns of a row, from a fresh process."""
    # Where a user's own cache is named, it would be taken instead.
    env = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    start = time.time()
    command = [sys.executable, __file__, "--child", name, "--further", str(further)]
    done = subprocess.run(
        command, env={**env, "XDG_CACHE_HOME": folder}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    first, *others = json.loads(done.stdout)
    _, pvalue, _, _, at, spent = first
    columns = [f"{pvalue:.4f}", f"{at - start:.2f}", f"{spent:.2f}"]
    if not others:
        return [*columns, *4 * ["–"]]
    wall, cpu = np.array([call[2:4] for call in others]).T
    found = (np.median(wall), wall.max(), np.median(cpu), cpu.max())
    return [*columns, *(f"{value:.3f}" for value in found)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--further", type=int, default=20, help="calls of other sizes")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.child, given.further)
    if (spec := importlib.util.find_spec("ntkmmd_jax")) is not None and spec.origin is not None:
        compileall.compile_dir(os.path.dirname(spec.origin), quiet=2)  # as installing does
    print(f"n = {N} + {N}, d = {DIM}, {PERMUTATIONS} permutations; seconds, wall and CPU")
    wall_cpu = ("size wall", "longest", "size CPU", "longest")
    print(ROW.format("", "cache", "p", "wall", "CPU", *wall_cpu), flush=True)
    for method in given.methods.split(","):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("cold", "warm"):
                row = measured(method, folder, given.further)
                print(ROW.format(method, state, *row), flush=True)
    for name in OTHERS:
        if name.startswith("hyppo") and importlib.util.find_spec("hyppo") is None:
            print("hyppo is not installed: pip install hyppo adds its row")
            continue
        print(ROW.format(name, "", *measured(name, "", given.further)), flush=True)


if __name__ == "__main__":
    main()
