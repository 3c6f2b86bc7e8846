"""False alarms of the streaming detector: every chart, on streams in which nothing changes.

python benchmarks/false_alarms.py alarms [references] [streams] [length] [cells]
python benchmarks/false_alarms.py arl [references] [streams] [wanted] [cells]

`alarms` (wanted 1 % of the looks) watches streams of `length` windows, `arl` (wanted 1,000 frames)
streams as long as that: so many references, with so many streams each, by `init` and `step` as they
ship. Cells are chosen by charts=ntk,all (or any method), pools=300,600,2000, windows=50,100,
dims=5,50 and laws=Gaussian,t(3),AR(.5),AR(.8); there is "returns", too, whose spread comes in
episodes, and "one slow", an AR(.9) beside coordinates that do not remember. Errors are those
between references; "warned" is the share of references that are told to be too short, and the last
column leaves those out. Charts that call LAPACK (hotelling) are many times faster with
OPENBLAS_NUM_THREADS=1.

With record=FILE cells are kept there, with the commit that they are of, and the tables of the docs
are drawn from it (docs/_hooks/charts.py); cells that it has of this commit are not run again.
"""

import dataclasses
import itertools
import json
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax._lib.files import replace_file
from ntkmmd_jax.changepoint.detector import jitted_step
from ntkmmd_jax.changepoint.state import BLOCK

NETWORK = ntk.mlp(128)
UNTIL = 2 * BLOCK  # frames after which a stream ends if it had its alarm
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


def returns(key: jax.Array, n: int, d: int) -> jax.Array:
    """Without memory, but for a variance that is .05 + .1 x² + .85 times the last, from 1 on."""

    def take(variance: jax.Array, e: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = jnp.sqrt(variance) * e
        return 0.05 + 0.1 * x**2 + 0.85 * variance, x

    return jax.lax.scan(take, jnp.ones(d), jax.random.normal(key, (n, d)))[1]


def one_slow(key: jax.Array, n: int, d: int) -> jax.Array:
    """Without memory but for the first coordinate, an autoregression of .9."""
    k_others, k_first = jax.random.split(key)
    x = jax.random.normal(k_others, (n, d))
    return x.at[:, :1].set(autoregression(0.9)(k_first, n, 1))


SOURCES: dict[str, Callable[[jax.Array, int, int], jax.Array]] = {
    "Gaussian": lambda key, n, d: jax.random.normal(key, (n, d)),
    "t(3)": lambda key, n, d: jax.random.t(key, 3.0, (n, d)),
    "AR(.5)": autoregression(0.5),
    "AR(.8)": autoregression(0.8),
    "returns": returns,
    "one slow": one_slow,
}
LAWS = "Gaussian,t(3),AR(.5),AR(.8)"


Cell = tuple[str, str, int, int, int]  # chart, law, d, frames of the reference, window
FIELDS = ("chart", "frames", "d", "reference", "window")


def cells(chosen: dict[str, str]) -> list[Cell]:
    """All of what is chosen, in words such as {"charts": "ntk,all"}."""
    words = {"charts": "ntk,all,gmmd,hotelling", "pools": "300,600,2000", "windows": "50,100"}
    words |= {"dims": "5,50", "laws": LAWS}
    if unknown := chosen.keys() - words.keys():
        sys.exit(f"no such words: {', '.join(sorted(unknown))}; there are {', '.join(words)}")
    listed = {name: text.split(",") for name, text in (words | chosen).items()}
    dims, pools, windows = (map(int, listed[name]) for name in ("dims", "pools", "windows"))
    return list(itertools.product(listed["charts"], listed["laws"], dims, pools, windows))


@partial(jax.jit, static_argnames=("source", "frames", "d", "streams"))
def watched(state: Any, key: jax.Array, source: Any, frames: int, d: int, streams: int) -> Any:
    """The share of the looks at streams without a change that are in alarm."""

    def one(key: jax.Array) -> jax.Array:
        k_frames, k_looks = jax.random.split(key)
        begun = dataclasses.replace(state, key=k_looks)
        _, report = jitted_step(begun, source(k_frames, frames, d), frames)
        begin = 0 if state.cusum is None else SETTLED * state.window
        return report.alarms[begin:].sum() / report.looked[begin:].sum()

    return jax.lax.map(one, jax.random.split(key, streams))


@partial(jax.jit, static_argnames=("source", "frames", "d", "streams"))
def endured(state: Any, key: jax.Array, source: Any, frames: int, d: int, streams: int) -> Any:
    """Of the same streams, frames to the first alarm alone: none is watched beyond it."""
    room = -(-frames // UNTIL) * UNTIL

    def one(key: jax.Array) -> jax.Array:
        k_frames, k_looks = jax.random.split(key)
        stream = jnp.zeros((room, d)).at[:frames].set(source(k_frames, frames, d))

        def watch(carry: tuple) -> tuple:
            state, at, _ = carry
            some = jax.lax.dynamic_slice_in_dim(stream, at, UNTIL)
            state, report = jitted_step(state, some, jnp.minimum(UNTIL, frames - at))
            alarms = report.alarms & (jnp.arange(UNTIL) < frames - at)
            first = jnp.where(alarms.any(), at + 1 + alarms.argmax(), frames + 1)
            return state, at + UNTIL, first

        begin = (dataclasses.replace(state, key=k_looks), 0, jnp.asarray(frames + 1))
        on = lambda carry: (carry[1] < frames) & (carry[2] > frames)  # noqa: E731
        return jax.lax.while_loop(on, watch, begin)[2]

    return jax.lax.map(one, jax.random.split(key, streams))


def promised(
    see: Callable, cell: Cell, references: int, streams: int, frames: int, **wanted: Any
) -> tuple:
    """What is to be seen of every reference (r, streams), which were warned of, and a state."""
    name, law, d, pool, window = cell
    jax.clear_caches()  # else many cells take more mappings of memory than a process may
    source, seen, warned, state = SOURCES[law], [], [], None
    sample = jax.jit(source, static_argnums=(1, 2))
    for seed in range(references):
        k_pool, k_watch = jax.random.split(jax.random.key(seed))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            options = {"window": window, **wanted, **CHARTS.get(name, {"test": name})}
            state = changepoint.init(seed, sample(k_pool, pool, d), **options)
        warned.append(bool(said))
        seen.append(jax.device_get(see(state, k_watch, source, frames, d, streams)))
    return np.stack(seen), np.array(warned), state


def known(path: Path) -> list[dict[str, Any]]:
    """The cells of a record."""
    return json.loads(path.read_text()) if path.exists() else []


def keep(path: Path, row: dict[str, Any]) -> None:
    """Put a cell into a record, in place of what that had of it."""
    same = ("wanted", *FIELDS)
    others = [old for old in known(path) if any(old[name] != row[name] for name in same)]
    rows = sorted([*others, row], key=lambda row: [str(row[name]) for name in same])
    lines = ",\n".join(json.dumps(row) for row in rows)
    replace_file(path, lambda file: file.write(f"[\n{lines}\n]\n".encode()))


def run(wanted: str, chosen: tuple[str, ...], measure: Callable, **sizes: int) -> None:
    """Measure what is chosen, cell by cell: print, and keep what was found."""
    words = dict(one.split("=") for one in chosen)
    record = Path(words.pop("record")) if "record" in words else None
    git = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(git, capture_output=True, text=True, cwd=Path(__file__).parent).stdout
    about = {"wanted": wanted, **sizes, "commit": commit.strip()}
    print(f"| chart | frames | d | reference | window | {wanted} | warned | where not |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for cell in cells(words):
        asked = dict(zip(FIELDS, cell, strict=True)) | about
        if record and any(asked.items() <= old.items() for old in known(record)):
            continue
        values, warned, mean = measure(cell)
        row = asked | {"warned": round(float(np.mean(warned)), 3)}
        row["found"], row["error"] = with_error(values, mean)
        if (~warned).sum() > 9:
            row["unwarned"], row["unwarned_error"] = with_error(values[~warned], mean)
        if record:
            keep(record, row)
        quiet = f"{row['unwarned']} ± {row['unwarned_error']}" if "unwarned" in row else ""
        found = f"{row['found']} ± {row['error']} | {row['warned']} | {quiet}"
        print(f"| {' | '.join(map(str, cell))} | {found} |", flush=True)


def with_error(values: np.ndarray, mean: Callable[[np.ndarray], float]) -> tuple[float, float]:
    """A mean over references, and its error by the jackknife."""
    without = [mean(np.delete(values, i, axis=0)) for i in range(len(values))]
    error = np.std(without) * math.sqrt(len(values) - 1)
    return round(float(mean(values)), 3), round(float(error), 3)


def alarms(references: str = "50", streams: str = "20", length: str = "20", *chosen: str) -> None:
    """Looks in alarm in %, for a wanted 1 %, over `length` windows of every stream."""
    sizes = {"references": int(references), "streams": int(streams), "length": int(length)}

    def measure(cell: Cell) -> tuple:
        frames = sizes["length"] * cell[-1]
        given = sizes["references"], sizes["streams"], frames
        rates, warned, _ = promised(watched, cell, *given, level=0.01)
        return 100 * rates, warned, np.mean

    run("1 % of the looks", chosen, measure, **sizes)


def arl(references: str = "20", streams: str = "50", wanted: str = "1000", *chosen: str) -> None:
    """Frames to a false alarm, for a wanted number; streams end after as many."""
    sizes, horizon = {"references": int(references), "streams": int(streams)}, int(wanted)

    def measure(cell: Cell) -> tuple:
        given = *sizes.values(), horizon
        first, warned, state = promised(endured, cell, *given, arl=horizon)
        begin = -(-state.first // state.stride) * state.stride

        def mean(first: np.ndarray) -> float:
            lengths, ended = np.minimum(first, horizon).ravel(), (first <= horizon).ravel()
            return changepoint.RunLengths(lengths, ended, horizon=horizon, first=begin).mean

        return first, warned, mean

    run(f"{horizon:,} frames", chosen, measure, **sizes)


if __name__ == "__main__":
    commands = {one.__name__: one for one in (alarms, arl)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
