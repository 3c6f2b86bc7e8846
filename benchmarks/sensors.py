"""Charts on recordings that are unlike gestures: looks in false alarm, and delays.

    python benchmarks/sensors.py [RECORDINGS] [charts=net,ntk,all,gmmd,hotelling]

Made up, since no such recordings can be shipped: an accelerometer of someone who walks and then
runs, a heartbeat with breath whose amplitude doubles, slow temperatures that are rounded and have
a constant column, counts of events, moving averages, a swing of which windows hold two whole
periods, the same with six harmonics, returns whose spread comes in episodes, and a machine of which
two of twenty sensors are slow. 2,400 frames, of
which the first 800 are the reference; from 1,800 on all is different. Windows of 100 frames, a look
at every tenth, level 1 % a look: `scan` as it ships.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.signal import lfilter

from ntkmmd_jax import changepoint

FRAMES, REFERENCE, CHANGE, WINDOW = 2400, 800, 1800, 100
LATE = np.arange(FRAMES) >= CHANGE
CHARTS: dict[str, dict[str, Any]] = {
    "net": {"test": "net"},
    "ntk": {"test": "ntk"},
    "all": {"test": "ntk", "shortest": 10},
    "gmmd": {"test": "gmmd"},
    "hotelling": {"test": "hotelling"},
}


def _remembering(rng: np.random.Generator, d: int, rho: float) -> np.ndarray:
    noise = rng.normal(size=(FRAMES + 200, d))
    return np.asarray(lfilter([(1 - rho**2) ** 0.5], [1, -rho], noise, axis=0))[200:]


def _phase(rng: np.random.Generator, frequency: np.ndarray, jitter: float) -> np.ndarray:
    return 2 * np.pi * np.cumsum(frequency * (1 + jitter * rng.normal(size=FRAMES)))


def walk(rng: np.random.Generator) -> np.ndarray:
    """Steps of 1.8 Hz at 50 frames a second, then of 2.6 and nearly twice as strong; gravity."""
    at, size = _phase(rng, np.where(LATE, 0.052, 0.036), 0.05), np.where(LATE, 1.8, 1.0)
    steps = [np.sin(at) + 0.4 * np.sin(2 * at + 0.3), np.cos(at + 0.5), 0.5 * np.sin(3 * at + 1)]
    return np.stack(steps, 1) * size[:, None] + [0, 0, 9.81] + 0.2 * rng.normal(size=(FRAMES, 3))


def heartbeat(rng: np.random.Generator) -> np.ndarray:
    """A beat about every 80 frames, twice as high from the change on, and breath."""
    beats = np.cumsum(80 * (1 + 0.03 * rng.normal(size=FRAMES // 60)))[:, None]
    at = np.arange(FRAMES)
    peaks = np.exp(-(((at - beats) / 2) ** 2) / 2) + 0.25 * np.exp(
        -(((at - beats - 20) / 6) ** 2) / 2
    )
    lead = peaks.sum(0) * np.where(LATE, 2, 1) + 0.05 * rng.normal(size=FRAMES)
    breath = 0.5 * np.sin(2 * np.pi * at / 333 + rng.normal()) + 0.1 * rng.normal(size=FRAMES)
    return np.stack([lead, breath], 1)


def temperatures(rng: np.random.Generator) -> np.ndarray:
    """AR(.95), rounded to a tenth; a constant column, and one in other units."""
    z = _remembering(rng, 4, 0.95) + 3 * LATE[:, None] * [1, 0, 0, 0]
    return np.c_[np.round(20 + 2 * z, 1), np.full(FRAMES, 7.0), 1e5 * z[:, 1]]


def counts(rng: np.random.Generator) -> np.ndarray:
    """Events of six kinds, of rates that wander; one kind doubles."""
    rates = 5 * np.exp(0.5 * _remembering(rng, 6, 0.4))
    return rng.poisson(rates * np.where(LATE[:, None] & (np.arange(6) == 2), 2, 1)).astype(float)


def averages(rng: np.random.Generator) -> np.ndarray:
    """Means of ten frames of noise, in ten coordinates, then higher by .4."""
    noise = rng.normal(size=(FRAMES + 9, 10))
    return np.asarray(lfilter(np.ones(10) / 10, [1], noise, axis=0))[9:] + 0.4 * LATE[:, None]


def swing(rng: np.random.Generator) -> np.ndarray:
    """A period of 50 frames, then of 33 and half as far again; a rounded copy, and a constant."""
    at = _phase(rng, np.where(LATE, 0.03, 0.02), 0.03)
    z = np.stack([np.sin(at), np.cos(at), np.sin(2 * at)], 1) * np.where(LATE, 1.5, 1)[:, None]
    z += 0.1 * rng.normal(size=z.shape)
    return np.c_[1000 * z, np.ones(FRAMES), np.round(3 * z[:, 0])]


def harmonics(rng: np.random.Generator) -> np.ndarray:
    """Six multiples of a period of 50 frames, then half as large again."""
    at, multiples = _phase(rng, np.full(FRAMES, 0.02), 0.05), np.arange(6)
    z = np.sin((multiples + 1) * at[:, None] + multiples) * np.where(LATE, 1.5, 1)[:, None]
    return z + 0.2 * rng.normal(size=z.shape)


def returns(rng: np.random.Generator) -> np.ndarray:
    """Of six markets: variances are .05 + .1 x² + .85 times the last; then all are up by .7."""
    variance, frames = np.ones(6), np.empty((FRAMES, 6))
    for i in range(FRAMES):
        frames[i] = np.sqrt(variance) * rng.normal(size=6)
        variance = 0.05 + 0.1 * frames[i] ** 2 + 0.85 * variance
    return frames + 0.7 * LATE[:, None]


def machine(rng: np.random.Generator) -> np.ndarray:
    """Twenty sensors: vibrations that do not remember, two temperatures that do; then two shake."""
    slow = 60 + 5 * _remembering(rng, 2, 0.97)
    shaking = rng.normal(size=(FRAMES, 18)) * np.where(LATE[:, None] & (np.arange(18) < 2), 2, 1)
    return np.c_[slow, 1e-3 * shaking]


SENSORS: tuple[Callable[[np.random.Generator], np.ndarray], ...] = (
    walk, heartbeat, temperatures, counts, averages, swing, harmonics, returns, machine,
)  # fmt: skip


def main(recordings: str = "5", charts: str = "charts=" + ",".join(CHARTS)) -> None:
    print("| recording | chart | looks in false alarm, % | recordings with one | warned | delays |")
    print("|---|---|---|---|---|---|", flush=True)
    for sensor in SENSORS:
        for chart in charts.removeprefix("charts=").split(","):
            rates, delays, warned = [], [], 0
            for seed in range(int(recordings)):
                series = sensor(np.random.default_rng(seed))
                about: Any = {"reference": REFERENCE, "window": WINDOW, **CHARTS[chart]}
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    found = changepoint.scan(seed, series, **about)
                alarms, looks = found.false_alarms(CHANGE)
                rates.append(alarms / looks)
                delays.append(found.delay(CHANGE))
                warned += bool(said)
            shown = ", ".join("–" if delay is None else str(delay) for delay in delays)
            some = sum(rate > 0 for rate in rates)
            print(
                f"| {sensor.__name__} | `{chart}` | {100 * np.mean(rates):.1f} | {some} of "
                f"{len(rates)} | {warned} | {shown} |",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
