"""The streaming detector: false alarms, delays and speed.

python benchmarks/changepoint.py alarms [references] [streams] [length] [cells]
python benchmarks/changepoint.py arl [references] [streams] [wanted] [cells]
python benchmarks/changepoint.py delay [streams]     # frames to an alarm at ARL 1,000 and 10,000
python benchmarks/changepoint.py speed [frames]      # d = 54, window 200, strides 10 and 1
python benchmarks/changepoint.py gestures            # MSRC-12, if it is there

`alarms` (wanted 1 % of the looks) watches streams of `length` windows, `arl` (wanted 1,000 frames)
streams as long as that: so many references, with so many streams each, by `init` and `step` as they
ship. Cells are chosen by charts=ntk,all (or any method), pools=300,600,2000, windows=50,100,
dims=5,50 and laws=Gaussian,t(3),AR(.5),AR(.8). Errors are those between references; "warned" is the
share of references that are told to be too short, and the last column leaves those out. Charts that
call LAPACK (hotelling) are many times faster with OPENBLAS_NUM_THREADS=1.
"""

import dataclasses
import itertools
import math
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from timing import best, peak_mb

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.detector import jitted_step
from ntkmmd_jax.changepoint.runs import first_alarms, threshold_for
from ntkmmd_jax.changepoint.threshold import look_counts

NETWORK = ntk.mlp(128)
SETTLED = 8  # windows after which a CUSUM has forgotten that it began with 0: its looks count then
CHARTS: dict[str, dict[str, Any]] = {
    "ntk": {"test": ntk.NTKMMD(network=NETWORK)},
    "all": {"test": ntk.NTKMMD(network=NETWORK), "shortest": 10},
    "gmmd": {"test": "gmmd"},
    "hotelling": {"test": "hotelling"},
    "net": {"test": "net"},
    "ntk-fuse": {"test": "ntk-fuse"},
    "cusum": {"test": ntk.NTKMMD(network=NETWORK), "drift": 0.5},
    "net-cusum": {"test": "net", "drift": 0.5},
}


def autoregression(rho: float) -> Callable[[jax.Array, int, int], jax.Array]:
    """A sampler of x_t = ρ x_{t−1} + √(1 − ρ²) e_t."""

    def sample(key: jax.Array, n: int, d: int) -> jax.Array:
        noise = jax.random.normal(key, (n, d))
        take = lambda x, e: (rho * x + (1 - rho**2) ** 0.5 * e, x)  # noqa: E731
        return jax.lax.scan(take, noise[0], jnp.roll(noise, -1, axis=0))[1]

    return sample


SOURCES: dict[str, Callable[[jax.Array, int, int], jax.Array]] = {
    "Gaussian": lambda key, n, d: jax.random.normal(key, (n, d)),
    "t(3)": lambda key, n, d: jax.random.t(key, 3.0, (n, d)),
    "AR(.5)": autoregression(0.5),
    "AR(.8)": autoregression(0.8),
}


Cell = tuple[int, tuple[str, Callable], int, int, str]


def cells(*chosen: str) -> list[Cell]:
    """Dimension, law, pool, window and chart, of words such as charts=ntk,all."""
    words = {"charts": "ntk,all,gmmd,hotelling", "pools": "300,600,2000", "windows": "50,100"}
    words |= {"dims": "5,50", "laws": ",".join(SOURCES)} | dict(one.split("=") for one in chosen)
    listed = {name: text.split(",") for name, text in words.items()}
    dims, pools, windows = (map(int, listed[name]) for name in ("dims", "pools", "windows"))
    laws = [(law, SOURCES[law]) for law in listed["laws"]]
    return list(itertools.product(dims, laws, pools, windows, listed["charts"]))


@partial(jax.jit, static_argnames=("source", "frames", "d", "streams"))
def watched(state: Any, key: jax.Array, source: Any, frames: int, d: int, streams: int) -> tuple:
    """Of streams without a change: the share of looks in alarm, and frames to the first alarm."""

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        k_frames, k_looks = jax.random.split(key)
        begun = dataclasses.replace(state, key=k_looks)
        _, report = jitted_step(begun, source(k_frames, frames, d), frames)
        first = jnp.where(report.alarms.any(), 1 + report.alarms.argmax(), frames + 1)
        begin = 0 if state.cusum is None else SETTLED * state.window
        return report.alarms[begin:].sum() / report.looked[begin:].sum(), first

    return jax.lax.map(one, jax.random.split(key, streams))


def promised(cell: Cell, references: int, streams: int, frames: int, **wanted: Any) -> tuple:
    """What `watched` sees of every reference (r, streams), which were warned of, and a state."""
    d, (_, source), pool, window, name = cell
    jax.clear_caches()  # else many cells take more mappings of memory than a process may
    sample, seen, warned, state = jax.jit(source, static_argnums=(1, 2)), [], [], None
    for seed in range(references):
        k_pool, k_watch = jax.random.split(jax.random.key(seed))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            options = {"window": window, **wanted, **CHARTS.get(name, {"test": name})}
            state = changepoint.init(seed, sample(k_pool, pool, d), **options)
        warned.append(bool(said))
        seen.append(jax.device_get(watched(state, k_watch, source, frames, d, streams)))
    rates, first = (np.stack(part) for part in zip(*seen, strict=True))
    return rates, first, np.array(warned), state


def _row(cell: Cell, found: str, error: str, warned: np.ndarray, quiet: str) -> None:
    d, (law, _), pool, window, name = cell
    shown = f"| {name} | {law} | {d} | {pool:,} | {window} | {found} ± {error} |"
    print(f"{shown} {np.mean(warned):.2f} | {quiet} |", flush=True)


def _head(what: str) -> None:
    print(f"| chart | frames | d | reference | window | {what} | warned | where not |")
    print("|---|---|---|---|---|---|---|---|", flush=True)


def alarms(references: str = "50", streams: str = "20", length: str = "20", *chosen: str) -> None:
    """Looks in alarm in %, for a wanted 1 %, over `length` windows of every stream."""
    _head("looks in alarm, %")
    for cell in cells(*chosen):
        sizes = int(references), int(streams), int(length) * cell[3]
        rates, _, warned, _ = promised(cell, *sizes, level=0.01)
        rates = 100 * rates.mean(1)
        error = [np.std(part, ddof=1) / math.sqrt(len(part)) for part in (rates, rates[~warned])]
        quiet = f"{rates[~warned].mean():.2f} ± {error[1]:.2f}" if (~warned).sum() > 9 else ""
        _row(cell, f"{rates.mean():.2f}", f"{error[0]:.2f}", warned, quiet)


def arl(references: str = "20", streams: str = "50", wanted: str = "1000", *chosen: str) -> None:
    """Run lengths for a wanted one; streams end after as many frames."""
    _head("frames to a false alarm")
    for cell in cells(*chosen):
        horizon = int(wanted)
        _, first, warned, state = promised(
            cell, int(references), int(streams), horizon, arl=horizon
        )
        begin = -(-state.first // state.stride) * state.stride

        def mean(first: np.ndarray, horizon: int = horizon, begin: int = begin) -> float:
            lengths = np.minimum(first, horizon).ravel()
            about = {"horizon": horizon, "first": begin}
            return changepoint.RunLengths(lengths, (first <= horizon).ravel(), **about).mean

        def shown(first: np.ndarray, mean: Any = mean) -> tuple[str, str]:  # jackknife
            without = [mean(np.delete(first, i, axis=0)) for i in range(len(first))]
            error = np.std(without) * math.sqrt(len(first) - 1)
            return f"{mean(first):,.0f}", f"{error:,.0f}"

        quiet = " ± ".join(shown(first[~warned])) if (~warned).sum() > 9 else ""
        _row(cell, *shown(first), warned, quiet)


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
    commands = {one.__name__: one for one in (alarms, arl, delay, speed, gestures)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
