"""Bias, error and coverage of `distance`: `python benchmarks/distances.py [runs] [largest n]`.

x ~ N(0, I), y ~ N(δ, I) in 10 dimensions, where MMD² of the Gaussian and of the polynomial kernel
have closed forms; that of the tangent kernel, at one θ0, is ⟨v_1, v_2⟩ of two large samples.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import ntkmmd_jax as ntk
from ntkmmd_jax.kernels import GaussianKernel, PolynomialKernel, TangentKernel
from ntkmmd_jax.twosample.distances import _estimate
from ntkmmd_jax.witness import inner, velocity

DIM, WIDTH, LEVEL = 10, 4.0, 0.05
SHIFTS = (0.0, 0.3, 1.0)  # |δ|
SIZES = ((200, 200, 1), (1000, 1000, 1), (1000, 1000, 10), (400, 100, 1))  # n_X, n_Y, blocks
NETWORK = ntk.mlp(64)


def draw(key, n, shift):
    return jax.random.normal(key, (n, DIM)).at[:, 0].add(shift)


def gaussian_truth(shift):
    wide = WIDTH**2 + 2
    return 2 * (WIDTH**2 / wide) ** (DIM / 2) * (1 - np.exp(-(shift**2) / (2 * wide)))


def polynomial_truth(shift):
    m, d = shift**2, DIM
    yy = 3 * m / d + 3 * (2 * m + m**2) / d**2 + (m**3 + 3 * m**2 + 3 * m * (d + 2 + m)) / d**3
    return yy - 6 * m / d**2


def tangent_truth(kernel, shift, batches=40, n=20_000):
    """⟨v_1, v_2⟩ with v the gradient of the mean gap, each over half of the batches."""

    def gap(key):
        k_x, k_y = jax.random.split(key)
        measure = ntk.signed_measure(draw(k_x, n, 0.0), draw(k_y, n, shift))
        return velocity(NETWORK, kernel.params, measure)

    keys = jax.random.split(jax.random.key(9), (2, batches))
    halves = [jax.tree.map(lambda leaf: leaf.mean(0), jax.lax.map(gap, each)) for each in keys]
    return float(inner(*halves))


def measure(kernel, truth, shift, n_x, n_y, blocks, runs):
    def replica(key):
        k_x, k_y, k_blocks = jax.random.split(key, 3)
        x, y = draw(k_x, n_x, 0.0), draw(k_y, n_y, shift)
        found = _estimate(k_blocks, kernel, x, y, blocks)
        return jnp.stack([found.mmd2, found.error, *found.interval(LEVEL)])

    keys = jax.random.split(jax.random.key(1), runs)
    found = jax.jit(lambda keys: jax.lax.map(replica, keys))(keys)
    value, error, low, high = np.asarray(found, np.float64).T
    z = (value.mean() - truth) / (value.std() / np.sqrt(runs))
    ratio = np.sqrt(np.mean(error**2)) / value.std()
    plain = np.mean(np.abs(value - truth) <= 1.96 * error)
    return z, value.std(), ratio, plain, np.mean((low <= truth) & (truth <= high)), high.mean()


def main():
    given = [int(word) for word in sys.argv[1:]]
    runs, most = (*given, *(500, 1000)[len(given) :])
    params = NETWORK.init(jax.random.key(0), jnp.zeros((1, DIM)))
    tangent = TangentKernel(params, network=NETWORK)
    kernels = {
        "gaussian": (GaussianKernel(WIDTH), gaussian_truth),
        "polynomial": (PolynomialKernel(), polynomial_truth),
        "tangent": (tangent, lambda shift: tangent_truth(tangent, shift)),
    }
    print(f"{runs} replicas, d = {DIM}; a binomial error of .95 is {np.sqrt(0.0475 / runs):.3f}")
    head = ("kernel", "n_x", "n_y", "blocks", "shift", "MMD²", "bias/error", "sd")
    print(*head, "rms error/sd", "in ±1.96 error", "in interval", "mean upper end", sep=" | ")
    for name, (kernel, truth) in kernels.items():
        for shift in SHIFTS:
            true = truth(shift)
            for n_x, n_y, blocks in (size for size in SIZES if max(size[:2]) <= most):
                z, sd, ratio, plain, covered, upper = measure(
                    kernel, true, shift, n_x, n_y, blocks, runs
                )
                row = (f"{true:.4g}", f"{z:.2f}", f"{sd:.3g}", f"{ratio:.2f}", f"{plain:.3f}")
                last = (f"{covered:.3f}", f"{upper:.3g}")
                print(name, n_x, n_y, blocks, shift, *row, *last, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
