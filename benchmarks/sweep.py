"""Power sweeps against the paper's recipe as a plain PyTorch loop: ratios from one run.

    pip install torch
    python benchmarks/sweep.py [ratio] [methods] [stages] [scaling]

One cell of Figure 1: d = 100, n_X = n_Y = 200, m = 512, batch-1 SGD, 400 permutations; fresh data,
weights and permutations for every replica. Best of several; compilation apart.
"""

import functools
import math
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
from timing import best

import ntkmmd_jax as ntk
from ntkmmd_jax import calibration, datasets
from ntkmmd_jax._lib.normals import normal
from ntkmmd_jax.measure import split

if sys.argv[1:] == ["stages"]:  # on one core, and nowhere else
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
CORES = ntk.use_cores()
TESTS = {"net": ntk.NetMMD(), "ntk": ntk.NTKMMD()}


def torch_replica(d=100, n=200, m=512, rate=0.1, permutations=400, rho=0.12):
    """The recipe as one would write it in PyTorch: train, score, permute."""
    import torch

    x = torch.randn(n, d)
    y = torch.randn(n, d) + math.sqrt(rho) * torch.randn(n, 1)
    network = torch.nn.Sequential(
        torch.nn.Linear(d, m), torch.nn.Softplus(), torch.nn.Linear(m, 1, bias=False)
    )
    torch.nn.init.normal_(network[0].weight)
    torch.nn.init.zeros_(network[0].bias)
    torch.nn.init.normal_(network[2].weight, std=m**-0.5)
    half = n // 2
    weights = torch.cat([torch.full((half,), 1 / half), torch.full((half,), -1 / half)])
    train, test = torch.cat([x[:half], y[:half]]), torch.cat([x[half:], y[half:]])
    sgd = torch.optim.SGD(network[0].parameters(), lr=rate)
    with torch.no_grad():
        before = network(test)[:, 0]
    for i in torch.randperm(n):
        sgd.zero_grad()
        (-weights[i] * network(train[i : i + 1]).sum()).backward()
        sgd.step()
    with torch.no_grad():
        scores = (network(test)[:, 0] - before) / rate
    statistic = weights @ scores
    null = torch.stack([weights[torch.randperm(n)] @ scores for _ in range(permutations)])
    return (1 + int((null >= statistic).sum())) / (1 + permutations) <= 0.05


def sweep_ms(tests, n=200, n_runs=512, times=5, devices=None, batch_size=None, dim=100):
    """Milliseconds per replica of `power_sweep`, and the seconds of its first call."""

    def run(i):
        ntk.power_sweep(
            i, tests, datasets.covariance_shift, {"rho": [0.12], "dim": [dim]}, n=n,
            n_runs=n_runs, devices=devices, batch_size=batch_size, progress=False,
        )  # fmt: skip

    warm, first = best(run, times)
    return warm / n_runs * 1e3, first


def ratio():
    import torch

    torch.set_num_threads(1)  # its fastest here
    loop = best(lambda _: [torch_replica() for _ in range(20)], 5)[0] / 20 * 1e3
    print(f"PyTorch loop {torch.__version__}, one thread: {loop:.1f} ms a replica")
    for name, test in TESTS.items():
        for devices in sorted({1, CORES}):
            ms, first = sweep_ms({name: test}, devices=devices)
            print(
                f"power_sweep {name}, {devices} device(s): {ms:.3f} ms a replica, "
                f"{loop / ms:.0f}x (first call {first:.1f} s)",
                flush=True,
            )


def methods(n_runs=128):
    """The same cell by every method, as it ships; LAPACK keeps to one device."""
    for name in ntk.methods():
        test = ntk.make_test(name)
        devices = 1 if test.uses_lapack else CORES
        ms, first = sweep_ms({name: test}, n_runs=n_runs, times=3, devices=devices)
        print(f"power_sweep {name}, {devices} device(s): {ms:.2f} ms a replica "
              f"(first call {first:.1f} s)", flush=True)  # fmt: skip


def repeated(function, times):
    """One program that calls a function of the last result so many times."""
    return jax.jit(lambda start: jax.lax.fori_loop(0, times, lambda _, last: function(last), start))


def measured_rates():
    """This core's speed: flops and bytes a second, and seconds a normal number, 50,000 at once."""

    def seconds(function, start, times):
        run = repeated(function, times)
        return best(lambda _: run(start), 5)[0] / times

    def draw(state):
        key, total = state
        return jax.random.fold_in(key, 1), total + jnp.sum(normal(key, (50_000,)))

    a, big = jnp.eye(1024), jnp.ones(16_000_000)
    flops = 2 * 1024**3 / seconds(lambda b: a @ b, a, 4)
    bandwidth = 2 * big.nbytes / seconds(lambda b: 0.5 * b, big, 10)
    return flops, bandwidth, seconds(draw, (jax.random.key(0), 0.0), 50) / 50_000


def stages(replicas=256, batch=4):
    """Where one core's time goes in a replica, beside the floor."""
    n, d, m, b = 200, 100, 512, 400
    flops, bandwidth, a_normal = measured_rates()
    print(f"one core: {flops / 1e9:.0f} Gflop/s, {bandwidth / 1e9:.0f} GB/s, "
          f"{a_normal * 1e9:.1f} ns a normal number")  # fmt: skip
    gemm = 2 * n * d * m / flops  # n training points, as many test points
    floors = {
        "data": 2 * n * d * a_normal,
        "split": 2 * 2 * n * d * 4 / bandwidth,
        "weights": m * d * a_normal,
        "training": 2 * gemm + 2 * n * m * 4 / bandwidth,  # u read and written once
        "evaluation": 2 * gemm + 2 * n * m * 4 / bandwidth,
        "permutations": 2 * n * (b + 1) / flops,
    }

    def replica(test, last, key):
        k_data, k_split, k_init, k_train, k_null = jax.random.split(key, 5)
        if last == "permutations":
            return test_only_threshold(k_null, normal(k_data, (n,)))
        samples = datasets.covariance_shift(k_data, n, n, rho=0.12)
        if last == "data":
            return samples
        train, held_out = split(k_split, *samples, 0.5)
        if last == "split":
            return train, held_out
        params = test.network.init(k_init, samples[0][:1])
        if last == "weights":
            return train, held_out, params
        witness = test.find_witness(k_train, params, train)
        if last == "training":
            return held_out, witness.velocity
        return witness(jnp.concatenate(held_out))

    def test_only_threshold(key, scores):
        relabelling = calibration.relabel(key, n // 2, n // 2, b, shared=True)
        return calibration.threshold(calibration.score_null(relabelling, scores).values, 0.05)

    def measured(test, last):
        def batch_step(sums, keys):
            out = jax.vmap(functools.partial(replica, test, last))(keys)
            return sums + sum(jnp.sum(leaf) for leaf in jax.tree.leaves(out)), None

        run = jax.jit(lambda keys: jax.lax.scan(batch_step, 0.0, keys)[0])
        return best(lambda _: run(keys), 10)[0] / replicas

    keys = jax.random.split(jax.random.key(0), (replicas // batch, batch))
    for name, test in TESTS.items():
        print(f"{name}: microseconds a replica, on one core")
        before = total = 0.0
        for last, floor in floors.items():
            until = measured(test, last)  # cumulative, but for the permutations, measured alone
            spent = until if last == "permutations" else until - before
            print(f"  {last:14}{1e6 * spent:8.0f}   floor {1e6 * floor:6.0f}")
            before, total = until, total + spent
        floor = sum(floors.values())
        print(f"  {'all':14}{1e6 * total:8.0f}   floor {1e6 * floor:6.0f}   {total / floor:.1f}x",
              flush=True)  # fmt: skip


def scaling():
    """Replicas per second over one parameter at a time, the others as in the cell above."""
    print("replicas per second, all cores")
    plain = {"times": 3, "n_runs": 256}
    grids = {
        "batch size": [(size, {"batch_size": size}) for size in (1, 2, 4, 8, 16, 64)],
        "m": [(m, {"widths": m}) for m in (128, 512, 2048)],
        "d": [(d, {"dim": d}) for d in (10, 100, 400)],
        "n": [(n, {"n": n}) for n in (100, 200, 800)],
        "B": [(b, {"n_permutations": b}) for b in (100, 400, 1600)],
        "devices": [(k, {"devices": k}) for k in sorted({1, CORES})],
    }
    for axis, points in grids.items():
        for name, test in TESTS.items():
            speeds = []
            for value, options in points:
                options = dict(options)
                network = ntk.mlp(options.pop("widths", 512))
                b = options.pop("n_permutations", 400)
                varied = type(test)(network=network, n_permutations=b)
                speeds.append(
                    f"{value}: {1e3 / sweep_ms({name: varied}, **plain, **options)[0]:.0f}"
                )
            print(f"  {axis:11}{name:5}{'   '.join(speeds)}", flush=True)


if __name__ == "__main__":
    parts = {"ratio": ratio, "methods": methods, "stages": stages, "scaling": scaling}
    if len(sys.argv) == 2:
        parts[sys.argv[1]]()
    else:
        for part in sys.argv[1:] or parts:
            subprocess.run([sys.executable, __file__, part], check=True)
