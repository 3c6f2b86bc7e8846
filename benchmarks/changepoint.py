"""The streaming detector: false alarms, delays and speed.

python benchmarks/changepoint.py alarms [streams] [charts]  # looks in alarm beside the wanted 1 %
python benchmarks/changepoint.py arl [streams] [charts]     # run lengths beside the wanted 1,000
python benchmarks/changepoint.py delay [streams]            # frames to an alarm, at ARL 1,000, 10,000
python benchmarks/changepoint.py speed [frames]             # d = 54, window 200, strides 10 and 1
python benchmarks/changepoint.py gestures                   # MSRC-12, if it is there

`alarms` and `arl` take charts as ntk,all,gmmd,hotelling,net; a stream has a reference of its own.
"""

import itertools
import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from timing import best, peak_mb

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.live import run

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
        e = jax.random.normal(key, (n + 1, d)) * jnp.ones(n + 1).at[1:].set((1 - rho**2) ** 0.5)[:, None]
        take = lambda x, e: (rho * x + e, rho * x + e)  # noqa: E731
        return jax.lax.scan(take, jnp.zeros(d), e)[1][1:]

    return sample


SOURCES: dict[str, Callable[[jax.Array, int, int], jax.Array]] = {
    "Gaussian": lambda key, n, d: jax.random.normal(key, (n, d)),
    "t(3)": lambda key, n, d: jax.random.t(key, 3.0, (n, d)),
    "AR(.5)": autoregression(0.5),
    "AR(.8)": autoregression(0.8),
}


def _streams(charts: str, streams: int, horizon: Callable[[int], int], **goal: Any) -> None:
    """Detectors with a pool each, on what follows it; a line for every cell and chart."""
    for d, (law, source), pool, window, name in itertools.product(
        (5, 50), SOURCES.items(), (300, 600, 2000), (50, 100), charts.split(",")
    ):
        length, options = horizon(window), {"window": window, **CHARTS[name], **goal}
        sample = jax.jit(source, static_argnums=(1, 2))
        rates, warned, lengths = [], 0, []
        for seed in range(streams):
            frames = np.asarray(sample(jax.random.key(seed), pool + length, d))
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                state = changepoint.init(seed, frames[:pool], **options)
            warned += bool(said)
            _, report = run(state, frames[pool:])
            rates.append(report.alarms[report.looked].mean())
            first = report.first_alarm
            lengths.append((length, False) if first is None else (first + 1, True))
        runs, alarmed = map(np.asarray, zip(*lengths, strict=True))
        start = int(np.argmax(report.looked)) + 1
        found = changepoint.RunLengths(runs, alarmed, horizon=length, first=start)
        error = np.std(rates) / math.sqrt(streams)
        print(
            f"{law:8} d {d:2} pool {pool:4} window {window:3} {name:9} alarms {np.mean(rates):.4f} "
            f"± {error:.4f} ARL {found.mean:6.0f} ± {found.error:4.0f} warned {warned / streams:.2f}",
            flush=True,
        )


def alarms(streams: str = "400", charts: str = "ntk,gmmd,all,hotelling") -> None:
    """Looks in alarm for a wanted 1 %."""
    _streams(charts, int(streams), lambda window: 20 * window)


def arl(streams: str = "200", charts: str = "ntk,all") -> None:
    """Run lengths for a wanted 1,000."""
    _streams(charts, int(streams), lambda window: 1000, arl=1000, n_draws=500)
