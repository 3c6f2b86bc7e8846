"""The streaming detector: delays and speed. (False alarms: false_alarms.py.)

python benchmarks/changepoint.py delay [streams]     # frames to an alarm at ARL 1,000 and 10,000
python benchmarks/changepoint.py speed [frames]      # d = 54, window 200, strides 10 and 1
python benchmarks/changepoint.py gestures            # MSRC-12, if it is there
"""

import dataclasses
import itertools
import math
import sys
import time
import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from false_alarms import CHARTS, SOURCES
from timing import best, peak_mb

from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.detector import jitted_step
from ntkmmd_jax.changepoint.runs import first_alarms, threshold_for
from ntkmmd_jax.changepoint.threshold import look_counts


def doubled(key: jax.Array, n: int) -> jax.Array:
    """A mixture, d = 20: N(0, I) with probability .3, else N(0, 4 I)."""
    k_normal, k_which = jax.random.split(key)
    spread = jnp.where(jax.random.bernoulli(k_which, 0.7, (n, 1)), 2.0, 1.0)
    return spread * jax.random.normal(k_normal, (n, 20))


def wide(key: jax.Array, n: int) -> jax.Array:
    """All of N(0, 4 I), d = 20."""
    return 2 * jax.random.normal(key, (n, 20))


def moved(key: jax.Array, n: int, size: jax.Array, d: int = 10) -> jax.Array:
    """N(μ, I) with |μ| = size, d = 10."""
    return jax.random.normal(key, (n, d)) + size / math.sqrt(d)


@partial(jax.jit, static_argnames=("source", "frames", "streams"))
def statistics(state: Any, key: jax.Array, source: Any, frames: int, streams: int) -> jax.Array:
    """The chart's statistic after every frame of streams without a change, (streams, frames)."""
    run = lambda key: jitted_step(state, source(key, frames), frames)[1].statistics  # noqa: E731
    return jax.lax.map(run, jax.random.split(key, streams))


def delay(streams: str = "500") -> None:
    """Frames to an alarm, a look at every frame, at thresholds of a simulated ARL.

    The ARL that the threshold of the reference has stands beside it.
    """
    runs = int(streams)
    for d, wanted in itertools.product((20, 10), (1000, 10_000)):
        before = partial(SOURCES["Gaussian"], d=d)
        pool = before(jax.random.key(7), 2000)
        for name in ("ntk", "all", "gmmd", "gmmd, all"):
            chart = {"test": CHARTS[name.split(",")[0]]["test"]}
            if name.endswith("all"):
                chart["shortest"] = 2
            state = changepoint.init(0, pool, window=50, stride=1, arl=wanted, **chart)
            looks = look_counts(wanted // 2, state.first, 1)
            values = statistics(state, jax.random.key(1), before, wanted // 2, runs)
            values = np.asarray(values)[:, looks - 1]
            found = first_alarms(values, looks, float(state.threshold))
            equal = jnp.asarray(threshold_for(values, looks, wanted), state.threshold.dtype)
            state = dataclasses.replace(state, threshold=equal)
            given: Any = {"before": before, "n_runs": runs, "horizon": 500}
            changes = {"mixture": doubled, "spread 2": wide} if d == 20 else {}
            delays = {n: changepoint.run_lengths(2, state, f, **given) for n, f in changes.items()}
            if d == 10:
                for size in (0.5, 1.0, 2.0, 3.0):
                    one = changepoint.run_lengths(2, state, moved, **given, size=size)
                    delays[f"mean {size}"] = one
            shown = ", ".join(f"{n}: {x.mean:.1f} ± {x.error:.1f}" for n, x in delays.items())
            print(
                f"d {d} ARL {wanted:6} {name:10} {shown}; "
                f"threshold of the reference: ARL {found.mean:.0f} ± {found.error:.0f}",
                flush=True,
            )


def speed(frames: str = "1000000") -> None:
    """Frames a second of `step`, and of the exact detector the memory on the way."""
    pool = jax.random.normal(jax.random.key(0), (600, 54))
    chunk = jax.random.normal(jax.random.key(1), (4096, 54))
    print("d = 54, window 200; frames a second, and a second of processor time, after compilation")
    charts = {"ntk": {}, "ntk, all": {"shortest": 10}, "gmmd": {}, "hotelling": {}, "net": {}}
    for (name, options), stride in itertools.product(charts.items(), (10, 1)):
        if stride == 1 and name.split(",")[0] not in ("ntk", "gmmd"):
            continue
        options = {"test": name.split(",")[0], "threshold": 1.0, "stride": stride, **options}
        state = changepoint.init(0, pool, window=200, **options)
        part = chunk if options["test"] in ("ntk", "gmmd", "hotelling") else chunk[:512]
        state, _ = changepoint.step(state, part)  # the window is full
        used = time.process_time()
        seconds, _ = best(lambda _, state=state, part=part: changepoint.step(state, part), 7)
        used = (time.process_time() - used) / 8  # of all threads: other work does not count
        rates = f"{len(part) / seconds:8.0f} {len(part) / used:8.0f}"
        print(f"{name:14} stride {stride:2} {rates}", flush=True)
    print("exact detector, stride 1: frames seen, seconds, peak MB of the process")
    state = changepoint.init(0, pool, window=200, test="ntk", stride=1)
    begin, count = time.perf_counter(), int(frames) // len(chunk)
    for i in range(1, count + 1):
        state, _ = changepoint.step(state, chunk)
        if i % max(1, count // 8) == 0:
            int(state.time)  # wait
            spent = time.perf_counter() - begin
            print(f"{i * len(chunk):9} {spent:7.1f} {peak_mb():7.0f}", flush=True)


def gestures() -> None:
    """Delays and false alarms of three people, bow and then throw."""
    from ntkmmd_jax.datasets.gestures import CHANGE, SUBJECTS, msrc12

    fine: dict[str, Any] = {"shortest": 5, "stride": 1}
    settings: list[tuple[str, int, dict]] = [
        *(("ntk", window, extra) for window in (50, 100) for extra in ({"stride": 1}, fine)),
        *itertools.product(("ntk", "gmmd", "net", "hotelling"), (100, 150, 200), ({},)),
    ]
    print("| | window | shortest | stride | delay and looks in false alarm: " + ", ".join(SUBJECTS))
    for name, window, extra in settings:
        cells = []
        for subject in SUBJECTS:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                options = {"reference": 300, "window": window, "test": name, **extra}
                found = changepoint.scan(0, msrc12(subject), **options)
            alarms, looks = found.false_alarms(CHANGE)
            cells.append(f"{found.delay(CHANGE)}, {alarms} of {looks}{' (warned)' * bool(said)}")
        about = f"{extra.get('shortest', '')} | {extra.get('stride', 10)}"
        print(f"| {name} | {window} | {about} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    commands = {one.__name__: one for one in (delay, speed, gestures)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
