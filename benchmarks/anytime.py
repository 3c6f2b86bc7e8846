"""The anytime-valid test: false alarms, stopping times, what looking costs, and speed.

    python benchmarks/anytime.py null [--runs 4000]     rejected at any time up to n = 2,000, H0
    python benchmarks/anytime.py stop [--runs 500]      stopping times, beside tests of a fixed n
    python benchmarks/anytime.py detector [--runs 64]   delays of the e-detector, A = 1,000
    python benchmarks/anytime.py speed                  pairs a second, and memory over 1e6 pairs

Problems of `stop`: a shift of one mean by .5 and a variance of 3 instead of 1, in the first of 10
coordinates, 600 pairs at most (Shekhar & Ramdas 2024: 268 pairs on average, and 489 with 57 %
rejected); blobs (Liu et al. 2020; published deep anytime-valid tests: 50, 80, 95 % of replicas
rejected after 990, 1,170, 1,350 samples, a permutation test of known n 1,260, 1,530, 1,620).
"""

import argparse
import math
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint, datasets, sequential
from ntkmmd_jax.power.table import wilson
from ntkmmd_jax.sequential.bettor import DEFAULT

SIZES = (50, 100, 150, 200, 300, 400, 600)


def gaussian(key, n_x, n_y, mean=0.0, variance=1.0):
    """N(0, I) in 10 dimensions; the first coordinate of y has another mean and variance."""
    k_x, k_y = jax.random.split(key)
    y = jax.random.normal(k_y, (n_y, 10))
    first = mean + jnp.sqrt(variance) * y[:, 0]
    return jax.random.normal(k_x, (n_x, 10)), y.at[:, 0].set(first)


def heavy(key, n_x, n_y):
    """t with 1.5 degrees of freedom, d = 3."""
    return tuple(
        jax.random.t(k, 1.5, (n, 3)) for k, n in zip(jax.random.split(key), (n_x, n_y), strict=True)
    )


def discrete(key, n_x, n_y):
    """0 or 1 with probability .1, d = 2: most pairs are tied."""
    return tuple(
        jax.random.bernoulli(k, 0.1, (n, 2)).astype(jnp.result_type(float))
        for k, n in zip(jax.random.split(key), (n_x, n_y), strict=True)
    )


LAWS = {
    "gaussian": (gaussian, {}),
    "heavy tails": (heavy, {}),
    "discrete": (discrete, {}),
    "blobs": (datasets.blobs, {"strength": 0.0}),
}
SMALL = ntk.mlp(64)
WITNESSES = {
    "mixture": DEFAULT,
    "ridge": sequential.Ridge(ntk.fourier(64)),
    "exact": sequential.Exact(SMALL),
    "trained": sequential.Trained(SMALL),
}
BETS = {"ons": sequential.ONS(), "agrapa": sequential.AGRAPA()}
PROBLEMS = {
    "mean": (gaussian, {"mean": 0.5}, 600),
    "variance": (gaussian, {"variance": 3.0}, 600),
    "blobs": (datasets.blobs, {"strength": 1.0}, 600),
}


def bet(network, bet="ons"):
    return ntk.BettingTest(network=network, bet=BETS[bet], standardize=True)


def swept(tests, sampler, point, n, runs):
    grid = {name: [value] for name, value in point.items()}
    # Not seed 0, with which the members of the mixture were chosen.
    return ntk.power_sweep(1, tests, sampler, grid, n=n, n_runs=runs, devices=1).rows


def null(runs, n, witnesses, laws):
    print(f"rejected at any time up to n = {n}, level .05, {runs} replicas of H0")
    most = 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    for law in laws:
        for name in witnesses:
            for staked in BETS:
                if name == "mixture" and staked != "ons":
                    continue  # the mixture as it ships
                sampler, point = LAWS[law]
                (row,) = swept({name: bet(WITNESSES[name], staked)}, sampler, point, n, runs)
                low, high = wilson(row.rejections, row.n_runs)
                said = "" if row.power <= most else "   TOO MANY"
                told = f"{law:12} {name:8} {staked:7} {row.power:.4f} [{low:.4f}, {high:.4f}]"
                print(f"{told} {row.seconds:.0f} s{said}", flush=True)


def stop(runs, problems, witnesses, fixed, sizes):
    for problem in problems:
        sampler, point, n = PROBLEMS[problem]
        print(f"\n{problem}, at most {n} pairs, {runs} replicas")
        for name in witnesses:
            for staked in BETS if name == "mixture" else ("ons",):
                (row,) = swept({name: bet(WITNESSES[name], staked)}, sampler, point, n, runs)
                stops = np.array(row.stops)
                mean = (stops.sum() + n * (runs - len(stops))) / runs
                quantiles = " / ".join(f"{row.stopping(q):g}" for q in (0.5, 0.8, 0.95))
                told = f"{name:8} {staked:7} stopped at {quantiles}, {mean:.0f} on average"
                by = [f"{np.mean(stops <= m) * len(stops) / runs:.3f}" for m in sizes]
                print(
                    f"{told}, power {row.power:.3f}\n{'':17}power by n   {' '.join(by)}", flush=True
                )
        for method in fixed:
            powers = []
            for m in sizes:
                (row,) = swept(
                    {method: ntk.twosample.shipped_test(method)}, sampler, point, m, runs
                )
                powers.append(f"{row.power:.3f}")
            print(f"{method:16} power at n   {' '.join(powers)}", flush=True)
        print(f"{'':16} n            {' '.join(f'{m:5d}' for m in sizes)}")


def detector(runs):
    """The mean of the first of 20 coordinates moves, early and late; reference of 600 frames."""

    def one(key, shift, at):
        k_reference, k_frames, k_state = jax.random.split(key, 3)
        frames = jax.random.normal(k_frames, (at + 400, 20)).at[at:, 0].add(shift)
        reference = jax.random.normal(k_reference, (600, 20))
        state = changepoint.edetector.init(k_state, reference, arl=1000.0)
        alarms = changepoint.edetector.step(state, frames)[1].alarms
        late = alarms[at:]
        return jnp.where(late.any(), jnp.argmax(late) + 1, 1000), alarms[:at].any()

    for shift in (0.5, 1.0, 2.0):
        for at in (50, 500):
            keys = jax.random.split(jax.random.key(0), runs)
            run = jax.jit(lambda ks, s=shift, t=at: jax.lax.map(lambda k: one(k, s, t), ks))
            delays, false = map(np.asarray, run(keys))
            found = f"found {np.mean(delays < 1000):.2f}, median delay {np.median(delays):.0f}"
            told = f"mean by {shift} from frame {at}: {found}, alarms before {false.mean():.3f}"
            print(told, flush=True)


def speed():
    rng = np.random.default_rng(0)
    for name, network in WITNESSES.items():
        state = sequential.init(0, network, features=10)
        x, y = (rng.normal(size=(2048, 10)).astype(np.float32) for _ in "xy")
        state, _ = sequential.step(state, x, y)
        start = time.perf_counter()
        state, report = sequential.step(state, x, y)
        report.log_wealth.block_until_ready()
        one = 2048 / (time.perf_counter() - start)
        test, runs = bet(network), 64
        keys = jax.random.split(jax.random.key(0), runs)
        many = jax.jit(jax.vmap(lambda k, test=test: test(k, *gaussian(k, 500, 500)).pvalue))
        many(keys).block_until_ready()
        start = time.perf_counter()
        many(keys).block_until_ready()
        vmapped = runs * 500 / (time.perf_counter() - start)
        print(
            f"{name:8} {one:9,.0f} pairs/s alone, {vmapped:9,.0f} over {runs} replicas", flush=True
        )
    state = sequential.init(0, WITNESSES["ridge"], features=10)
    for block in range(101):
        x, y = (rng.normal(size=(10_000, 10)).astype(np.float32) for _ in "xy")
        state, report = sequential.step(state, x, y)
        if block in (1, 10, 100):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            told = f"log W = {float(report.log_wealth):.2f}, peak memory {peak:.0f} MB"
            print(f"{int(report.n):,} pairs: {told}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("null", "stop", "detector", "speed"))
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--witnesses", nargs="*", default=list(WITNESSES))
    parser.add_argument("--laws", nargs="+", default=list(LAWS))
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--fixed", nargs="*", default=["ntk-fuse", "ntk-symmetric", "gmmd"])
    given = parser.parse_args()
    if given.what == "null":
        null(given.runs or 4000, given.n, given.witnesses, given.laws)
    elif given.what == "stop":
        stop(given.runs or 500, given.problems, given.witnesses, given.fixed, given.sizes)
    elif given.what == "detector":
        detector(given.runs or 64)
    else:
        speed()


if __name__ == "__main__":
    main()
