"""The streaming detector: frames a second and memory; run lengths wanted and found; delays.

python benchmarks/changepoint.py speed [frames]   # d = 54, window 200, a look every 10 frames
python benchmarks/changepoint.py arl              # Gaussian streams, d = 10, window 50
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from timing import best, peak_mb

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint


def speed(frames: int = 1_000_000) -> None:
    """Frames a second of `step`, and of the exact detector the memory on the way."""
    pool = jax.random.normal(jax.random.key(0), (600, 54))
    chunk = jax.random.normal(jax.random.key(1), (1000, 54))
    print("d = 54, window 200, stride 10; frames a second, after compilation")
    for test in changepoint.METHODS:
        state = changepoint.init(0, pool, window=200, test=test)
        state, _ = changepoint.step(state, chunk)  # the window is full
        seconds, _ = best(lambda _, state=state: changepoint.step(state, chunk))
        print(f"{test:10} {len(chunk) / seconds:8.0f}", flush=True)
    print("exact detector: frames seen, seconds, peak MB of the process")
    state, start = changepoint.init(0, pool, window=200, test="ntk"), time.perf_counter()
    for i in range(1, frames // len(chunk) + 1):
        state, _ = changepoint.step(state, chunk)
        if i % max(1, frames // len(chunk) // 8) == 0:
            int(state.time)  # wait
            spent = time.perf_counter() - start
            print(f"{i * len(chunk):9} {spent:7.1f} {peak_mb():7.0f}", flush=True)


def normals(key: jax.Array, n: int) -> jax.Array:
    """Frames before the change."""
    return jax.random.normal(key, (n, 10))


def shifted(key: jax.Array, n: int, size: jax.Array) -> jax.Array:
    """Frames after a change of the mean, of length `size`."""
    return normals(key, n) + size / jnp.sqrt(10.0)


def arl(pools: int = 8, wanted: int = 1000) -> None:
    """Run lengths over pools of 20,000 frames, and the delays for changes of several sizes."""
    network = ntk.mlp(128)
    tests = {
        "ntk": ntk.NTKMMD(network=network),
        "net": ntk.NetMMD(network=network, learning_rate=0.1),
        "gmmd": ntk.GaussianMMD(),
        "hotelling": ntk.Hotelling(),
    }
    sizes = (0.5, 1.0, 2.0, 3.0)
    print(f"d = 10, window 50, stride 10, {pools} pools of 20,000 frames, wanted ARL {wanted}")
    print("test, ARL found: mean [range]; mean delay ± error by size of the change of the mean")
    for name, test in tests.items():
        found = []
        for seed in range(pools):
            pool = normals(jax.random.key(100 + seed), 20_000)
            options = {"window": 50, "test": test, "contiguous": False, "arl": wanted}
            state = changepoint.init(seed, pool, **options)
            lengths = changepoint.run_lengths(
                200 + seed, state, normals, n_runs=250, horizon=2 * wanted
            )
            found.append(lengths.mean)
        given = {"before": normals, "n_runs": 200, "horizon": 1000}
        delays = [changepoint.run_lengths(3, state, shifted, **given, size=s) for s in sizes]
        shown = ", ".join(
            f"{size}: {one.mean:.0f} ± {one.error:.0f}"
            for size, one in zip(sizes, delays, strict=True)
        )
        spread = f"{np.mean(found):.0f} [{min(found):.0f}, {max(found):.0f}]"
        print(f"{name:10} {spread:18} {shown}", flush=True)


if __name__ == "__main__":
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "speed":
        speed(*map(int, sys.argv[2:]))
    elif command == "arl":
        arl()
    else:
        sys.exit(__doc__)
