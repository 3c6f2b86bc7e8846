"""How long a test takes at least, on an A100, a TPU v4 and a core of this machine: rooflines.

    python benchmarks/roofline.py [METHOD ...] [--sizes 200 2000] [--batches]

    seconds ≥ max(flops / peak, bytes / bandwidth),

with flops and bytes that XLA counts in its own compiled program. It counts the body of a loop once:
here it counts as often as it is run, by compiling the body alone (of a loop without a fixed end,
such as a bisection, once). The program is this CPU's: another backend fuses otherwise, and
reads and writes other bytes. What a step of a loop waits for is not in the bound; `steps` are those
that come one after the other, and the replicas that a sweep should run at once are those at which
a device computes for as long as it waits. On this core the bound is checked: CPU seconds, the best
of several, peaks measured in the same run.
"""

import argparse
import dataclasses
import functools
import math
import os
import time
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun, jaxprs_in_params

import ntkmmd_jax as ntk
from ntkmmd_jax.power.grid import cells_of
from ntkmmd_jax.power.sweep import _batch_size

METHODS = ("net", "ntk", "ntk-full", "ntk-symmetric", "ntk-fuse", "gmmd", "c2st-l")
DIM = 100
SAMPLER = ntk.datasets.covariance_shift


@dataclasses.dataclass(frozen=True)
class Device:
    """What a device does in a second, and how long it waits for a step."""

    name: str
    peak: float  # flops of products in float32 proper
    bandwidth: float  # bytes
    wait: float = 0.0  # seconds a step of a loop: launches, assumed; nobody publishes it

    def seconds(self, cost: "Cost") -> float:
        """The bound."""
        return max(cost.flops / self.peak, cost.bytes / self.bandwidth)

    def bound(self, cost: "Cost") -> str:
        """Which of the two it is."""
        return "flops" if cost.flops / self.peak > cost.bytes / self.bandwidth else "bytes"

    def at_once(self, cost: "Cost") -> int:
        """Replicas at which computing takes as long as waiting."""
        return max(1, math.ceil(cost.steps * self.wait / self.seconds(cost)))


# NVIDIA's data sheet of the A100 40 GB: 19.5 Tflop/s in FP32 (156 in TF32), 1,555 GB/s. Google's
# page on TPU v4: 275 Tflop/s in bfloat16, 1,200 GB/s; float32 proper is six passes of bfloat16.
ACCELERATORS = (
    Device("A100", 19.5e12, 1555e9, wait=20e-6),
    Device("TPU v4", 275e12 / 6, 1200e9, wait=5e-6),
)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of one program."""

    flops: float
    bytes: float
    steps: float  # of loops, one after the other, and the program itself
    held: float  # bytes, at once

    def plus(self, times: int, body: "Cost") -> "Cost":
        """With a body that runs so many times more."""
        own, added = (dataclasses.astuple(one)[:3] for one in (self, body))
        return Cost(*(a + times * b for a, b in zip(own, added, strict=True)), held=self.held)


def cost_of(closed) -> Cost:
    """Of a closed jaxpr: as XLA counts it, and the body of a loop again for every further step."""
    avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals]
    compiled = jax.jit(jaxpr_as_fun(closed)).lower(*avals).compile()
    counted, memory = compiled.cost_analysis() or {}, compiled.memory_analysis()
    held = memory.temp_size_in_bytes + memory.argument_size_in_bytes
    total = Cost(counted.get("flops", 0), counted.get("bytes accessed", 0), 1, held)
    for loop in loops(closed.jaxpr):
        total = total.plus(loop.params["length"] - 1, cost_of(loop.params["jaxpr"]))
    return total


def loops(jaxpr):
    """The outermost loops with a fixed number of steps."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "scan":
            yield eqn
        elif eqn.primitive.name != "while":
            for inner in jaxprs_in_params(eqn.params):
                yield from loops(inner)


def cpu_seconds(run, times=5):
    """CPU seconds of the shortest of several runs, after one that compiles."""
    jax.block_until_ready(run())
    spent = []
    for _ in range(times):
        start = time.process_time()
        jax.block_until_ready(run())
        spent.append(time.process_time() - start)
    return min(spent)


def repeated(function, times=10):
    return jax.jit(lambda a: jax.lax.fori_loop(0, times, lambda _, last: function(last), a))


@functools.cache
def core_peak() -> float:
    """Flops a second of a large product."""
    a = jnp.eye(1024)
    run = repeated(lambda b: a @ b)
    return 10 * 2 * 1024**3 / cpu_seconds(lambda: run(a))


@functools.cache
def core_bandwidth(held: int) -> float:
    """Bytes a second of scaling an array, in place, as large as what a program holds."""
    times, array = max(10, 2**26 // held), jnp.ones(held // 4)
    run = repeated(lambda b: 0.5 * b, times)
    return times * 2 * array.nbytes / cpu_seconds(lambda: run(array))


def this_core(cost: Cost) -> Device:
    """Measured; what fits a cache is as fast as that is."""
    held = 2 ** min(26, max(12, round(math.log2(cost.held))))
    return Device("this core", core_peak(), core_bandwidth(held))


def chosen_at_once(test, n, platform):
    """Replicas that `power_sweep` runs at once on a device of a platform."""
    (cell,) = cells_of({"test": test}, SAMPLER, {"rho": [0.1], "dim": [DIM]}, (n, n))
    device = SimpleNamespace(platform=platform)
    samples = (jax.ShapeDtypeStruct((n, DIM), jnp.float32),) * 2
    return _batch_size(cell, samples, SimpleNamespace(devices=np.array([device])))


def row(method, n):
    test, key = ntk.make_test(method), jax.random.key(0)
    x, y = SAMPLER(key, n, n, rho=0.1, dim=DIM)
    run = jax.jit(lambda *given: test(*given).pvalue)
    cost = cost_of(run.trace(key, x, y).jaxpr)
    times = [f"{1e6 * device.seconds(cost):.1f} ({device.bound(cost)})" for device in ACCELERATORS]
    batches = [f"{device.at_once(cost)}" for device in ACCELERATORS]
    core = this_core(cost)
    model, measured = core.seconds(cost), cpu_seconds(lambda: run(key, x, y))
    cells = [method, n, f"{cost.flops / 1e6:.0f}", f"{cost.bytes / 1e6:.0f}", f"{cost.steps:.0f}"]
    cells += [*times, *batches, chosen_at_once(test, n, "gpu")]
    cells += [f"{1e3 * model:.1f}", f"{1e3 * measured:.1f}", f"{measured / model:.1f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def batches(method, sizes=(1, 2, 4, 8, 16, 64), n=200, runs=128):
    """CPU milliseconds a replica of a sweep on this core, by how many are run at once."""
    test, found = ntk.make_test(method), []
    grid, given = {"rho": [0.1], "dim": [DIM]}, {"n": n, "n_runs": runs, "devices": 1}
    for size in sizes:
        sweep = functools.partial(ntk.power_sweep, 0, {method: test}, SAMPLER, grid, **given)
        spent = cpu_seconds(functools.partial(sweep, batch_size=size, progress=False), 3)
        found.append(f"{size}: {1e3 * spent / runs:.2f}")
    chosen = chosen_at_once(test, n, "cpu")
    print(f"{method}: {', '.join(found)}; `power_sweep` takes {chosen}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--sizes", nargs="+", type=int, default=(200, 2000))
    parser.add_argument("--batches", action="store_true", help="sweeps of this core, by batch")
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    ntk.use_cores(1)
    if given.batches:
        for method in given.methods:
            batches(method)
        return
    fast, slow = (core_bandwidth(2**k) / 1e9 for k in (18, 26))
    print(f"this core: {core_peak() / 1e9:.0f} Gflop/s; {fast:.0f} GB/s in 256 kB, "
          f"{slow:.0f} in 64 MB\n")  # fmt: skip
    names = [device.name for device in ACCELERATORS]
    columns = ["method", "n + n", "Mflop", "MB", "steps"]
    columns += [f"{name}, µs at least" for name in names]
    columns += [f"replicas at once, {name}" for name in names] + ["`power_sweep`"]
    columns += ["this core, ms at least", "ms measured", "ratio"]
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|", flush=True)
    for method in given.methods:
        for n in given.sizes:
            print(row(method, n), flush=True)


if __name__ == "__main__":
    main()
