"""Time and peak memory of the exact test over n, in one call and as a stream.

    python benchmarks/linear_time.py

Each row is a process of its own, so that its peak memory is its own. d = 100, m = 512, 400
permutations, n samples of each of x and y; "stream" trains on one half of them and tests on the
other, "no split" tests T_NTK of all, summed over bins on the way. "Seconds" is
the second run, "first" has compilation in.
"""

import json
import subprocess
import sys
import time

from timing import peak_mb

D, BATCH = 100, 4096


def one_call(n):
    import jax

    import ntkmmd_jax as ntk

    x, y = ntk.datasets.covariance_shift(jax.random.key(0), n, n, rho=0.02, dim=D)
    jax.block_until_ready((x, y))
    return lambda key: ntk.two_sample_test(x, y, method="ntk", key=key)


def batches_of():
    """A function of a key and a length: batches of the covariance shift, drawn on the way."""
    import jax

    import ntkmmd_jax as ntk

    draw = jax.jit(lambda key: ntk.datasets.covariance_shift(key, BATCH, BATCH, rho=0.02, dim=D))

    def batches(key, total):
        for i, start in enumerate(range(0, total, BATCH)):
            x, y = draw(jax.random.fold_in(key, i))
            size = min(BATCH, total - start)
            yield x[:size], y[:size]

    return batches


def streamed(n):
    import jax

    import ntkmmd_jax as ntk
    from ntkmmd_jax.training import streaming

    network, batches = ntk.mlp(), batches_of()

    def run(key):
        k_init, k_train, k_test, k_null = jax.random.split(jax.random.key(key), 4)
        params = network.init(k_init, jax.numpy.zeros((1, D)))
        stream = streaming.init(network, params, D)
        witness = streaming.accumulate(stream, batches(k_train, n // 2)).witness()
        return ntk.streamed_test(k_null, witness, batches(k_test, n - n // 2))

    return run


def unsplit(n):
    import jax

    import ntkmmd_jax as ntk

    network, batches = ntk.mlp(), batches_of()

    def run(key):
        k_data, k_test = jax.random.split(jax.random.key(key))
        return ntk.streamed_test(k_test, network, batches(k_data, n))

    return run


KINDS = {"one call": one_call, "stream": streamed, "no split": unsplit}


def measure(kind, n):
    run = KINDS[kind](n)
    baseline = peak_mb()
    times = []
    for key in range(2):
        start = time.perf_counter()
        result = run(key)
        times.append(time.perf_counter() - start)
    return {
        "first": times[0],
        "seconds": times[1],
        "before": baseline,
        "peak": peak_mb(),
        "pvalue": result.pvalue,
    }


def main():
    print(f"{'':10}{'n':>10}{'first s':>9}{'seconds':>9}{'MB before':>11}{'MB peak':>9}{'p':>8}")
    for kind in KINDS:
        for n in (10**3, 10**4, 10**5, 10**6):
            if kind == "one call" and n > 10**5:
                continue
            command = [sys.executable, __file__, kind, str(n)]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            r = json.loads(run.stdout)
            print(
                f"{kind:10}{n:>10,}{r['first']:>9.2f}{r['seconds']:>9.3f}"
                f"{r['before']:>11.0f}{r['peak']:>9.0f}{r['pvalue']:>8.4f}",
                flush=True,
            )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        main()
