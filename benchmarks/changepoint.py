"""The streaming detector: false alarms, delays and speed.

python benchmarks/changepoint.py alarms [streams] [charts] [pools] [windows]  # looks in alarm
python benchmarks/changepoint.py arl [streams] [charts] [pools] [windows]     # run lengths
python benchmarks/changepoint.py delay [streams]     # frames to an alarm at ARL 1,000 and 10,000
python benchmarks/changepoint.py speed [frames]      # d = 54, window 200, strides 10 and 1
python benchmarks/changepoint.py gestures            # MSRC-12, if it is there

`alarms` (wanted 1 % of the looks) and `arl` (wanted 1,000 frames) take charts as
ntk,all,gmmd,hotelling, pools as 300,600,2000 and windows as 50,100. A stream has a reference of its
own; "warned" is the share of references that are told to be too short.
"""

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
from ntkmmd_jax.changepoint.by_parts import of_test
from ntkmmd_jax.changepoint.by_rows import of_level, world_of
from ntkmmd_jax.changepoint.chart import chart_test, make_chart
from ntkmmd_jax.changepoint.detector import jitted_step
from ntkmmd_jax.changepoint.live import run
from ntkmmd_jax.changepoint.state import chart_rows, in_use, start
from ntkmmd_jax.changepoint.threshold import is_doubtful

NETWORK = ntk.mlp(128)
CHARTS: dict[str, dict[str, Any]] = {
    "ntk": {"test": ntk.NTKMMD(network=NETWORK)},
    "all": {"test": ntk.NTKMMD(network=NETWORK), "shortest": 10},
    "gmmd": {"test": "gmmd"},
    "hotelling": {"test": "hotelling"},
    "net": {"test": ntk.NetMMD(network=NETWORK, learning_rate=0.1)},
    "cusum": {"test": ntk.NTKMMD(network=NETWORK), "drift": 0.5},
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


def cells(charts: str, *sizes: str) -> list[Cell]:
    """Dimension, law, pool, window and chart."""
    pools, windows = ([int(size) for size in text.split(",")] for text in sizes)
    return list(itertools.product((5, 50), SOURCES.items(), pools, windows, charts.split(",")))


def _said(cell: Cell) -> str:
    d, (law, _), pool, window, name = cell
    return f"{law:8} d {d:2} pool {pool:4} window {window:3} {name:9}"


def alarms(
    streams: str = "1000",
    charts: str = "ntk,gmmd,hotelling",
    pools: str = "300,600,2000",
    windows: str = "50,100",
) -> None:
    """Looks in alarm for a wanted 1 %: what `init` and `step` do, all streams in one program."""
    for cell in cells(charts, pools, windows):
        d, (_, source), pool, window, name = cell
        test = chart_test(CHARTS[name]["test"], window)

        def one(key: jax.Array, d=d, source=source, pool=pool, window=window, test=test) -> Any:
            k_frames, k_chart, k_threshold = jax.random.split(key, 3)
            frames = source(k_frames, pool + 20 * window, d)
            reference = frames[:pool]
            chart = make_chart(k_chart, test, reference, window, standardize=True)
            standard, rows = chart.standard(reference), chart_rows(chart, (d,), window)
            if rows is not None:
                world = world_of(rows, standard, window)
                found = of_level(k_threshold, world, 0.01, window=window, draws=1000)
            else:
                options: Any = {"window": window, "stride": 10, "level": 0.01, "draws": 1000}
                options |= {"arl": None, "block": None, "drift": None}
                size = in_use(chart, reference, window)
                found, _ = of_test(k_threshold, chart, standard, size=size, **options)
            about: Any = {"window": window, "shortest": None, "stride": 10, "after": "hold"}
            state = start(chart, reference, found, key, **about)
            _, report = jitted_step(state, frames[pool:], 20 * window)
            return report.alarms.sum() / report.looked.sum(), is_doubtful(found)

        keys = jax.random.split(jax.random.key(0), int(streams))
        rates, warned = jax.jit(partial(jax.lax.map, one))(keys)
        error = np.std(rates) / math.sqrt(len(rates))
        quiet = np.mean(rates[~warned]) if not warned.all() else math.nan
        print(
            f"{_said(cell)} alarms {np.mean(rates):.4f} ± {error:.4f} warned {np.mean(warned):.2f} "
            f"unwarned {quiet:.4f}",
            flush=True,
        )


def arl(
    streams: str = "200",
    charts: str = "ntk,all",
    pools: str = "300,600,2000",
    windows: str = "50,100",
) -> None:
    """Run lengths for a wanted 1,000, with `init` and `step`."""
    for cell in cells(charts, pools, windows):
        d, (_, source), pool, window, name = cell
        sample = jax.jit(source, static_argnums=(1, 2))
        warned, lengths, alarmed = 0, [], []
        for seed in range(int(streams)):
            frames = np.asarray(sample(jax.random.key(seed), pool + 1000, d))
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                options = {"window": window, "arl": 1000, "n_draws": 500, **CHARTS[name]}
                state = changepoint.init(seed, frames[:pool], **options)
            warned += bool(said)
            _, report = run(state, frames[pool:])
            first = report.first_alarm
            lengths.append(1000 if first is None else first + 1)
            alarmed.append(first is not None)
        begin = -(-state.first // 10) * 10
        pair = np.array(lengths), np.array(alarmed)
        found = changepoint.RunLengths(*pair, horizon=1000, first=begin)
        share = f"warned {warned / int(streams):.2f}"
        print(f"{_said(cell)} ARL {found.mean:6.0f} ± {found.error:4.0f} {share}", flush=True)


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


def delay(streams: str = "500") -> None:
    """Frames to an alarm, a look at every frame; ARL found beside the wanted one."""
    runs = int(streams)
    for d, wanted in itertools.product((20, 10), (1000, 10_000)):
        before = partial(SOURCES["Gaussian"], d=d)
        pool = before(jax.random.key(7), 2000)
        for name in ("ntk", "all", "gmmd", "gmmd, all"):
            chart = {"test": CHARTS[name.split(",")[0]]["test"]}
            if name.endswith("all"):
                chart["shortest"] = 2
            state = changepoint.init(0, pool, window=50, stride=1, arl=wanted, **chart)
            found = changepoint.run_lengths(1, state, before, n_runs=runs, horizon=wanted)
            given: Any = {"before": before, "n_runs": runs, "horizon": 500}
            changes = {"mixture": doubled, "spread 2": wide} if d == 20 else {}
            delays = {n: changepoint.run_lengths(2, state, f, **given) for n, f in changes.items()}
            if d == 10:
                for size in (0.5, 1.0, 2.0, 3.0):
                    one = changepoint.run_lengths(2, state, moved, **given, size=size)
                    delays[f"mean {size}"] = one
            shown = ", ".join(f"{n}: {x.mean:.1f} ± {x.error:.1f}" for n, x in delays.items())
            print(
                f"d {d} wanted {wanted:6} {name:10} ARL {found.mean:7.0f} ± {found.error:5.0f}; "
                f"{shown}",
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

    for subject, name in itertools.product(SUBJECTS, ("ntk", "all", "gmmd", "net", "hotelling")):
        series, chart = msrc12(subject), CHARTS[name] | {"test": CHARTS[name]["test"]}
        if name in ("ntk", "all"):
            chart["test"] = "ntk"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for window in (100, 150, 200):
                found = changepoint.scan(0, series, reference=300, window=window, **chart)
                alarms, looks = found.false_alarms(CHANGE)
                before = found.times[np.asarray(found.alarms) & (np.asarray(found.times) < CHANGE)]
                print(
                    f"{subject} {name:9} window {window} delay {found.delay(CHANGE)} "
                    f"false {alarms} of {looks} at {before.tolist()[:12]}",
                    flush=True,
                )
        if said:
            print(f"   {said[0].message}", flush=True)


if __name__ == "__main__":
    commands = {one.__name__: one for one in (alarms, arl, delay, speed, gestures)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
