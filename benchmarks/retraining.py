"""The full bootstrap by retraining: 400 retrainings as one program, beside 400 × one training.

    python benchmarks/retraining.py

d = 100, n_X = n_Y = 200, m = 512, batch-1 SGD. Best of three; compilation apart.
"""

import jax
from timing import best

import ntkmmd_jax as ntk


def main():
    x, y = ntk.datasets.covariance_shift(jax.random.key(0), 200, 200, rho=0.12)
    test = ntk.NetMMD()
    params = test.network.init(jax.random.key(1), x)
    one, _ = best(
        lambda i: ntk.trained_witness(
            jax.random.key(i), test.network, params, ntk.signed_measure(x[:100], y[:100]), test.sgd
        )
    )
    for name, full in (
        ("retrained", ntk.NetMMD(calibration="full")),
        ("exact, by the kernel", ntk.NTKMMD(calibration="full")),
    ):
        warm, first = best(lambda i, full=full: full(i, x, y))
        print(f"full bootstrap, {name}: {warm:.3f} s (first call {first:.1f} s)")
    print(f"400 x one training of {1e3 * one:.2f} ms: {400 * one:.3f} s")


if __name__ == "__main__":
    main()
