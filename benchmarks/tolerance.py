"""The level of the tolerance test, where the MMD is the tolerance exactly.

    python benchmarks/tolerance.py [RUNS] [--only gaussian tangent]

Rates at level 5 % over RUNS replicas (2,000): of "they differ by more than ε", of "by less", of an
MMD outside of its 95 % interval; and of the permutation test of p = q, which is true of none.
"gaussian" has mixtures Σ_k w_k N(m_k e, s_k² I), e all ones, whose MMD with a Gaussian kernel has a
closed form; "tangent" the kernel of a network, whose MMD is that of the gradients of 4 million
points. A shift or a scale is that of every coordinate.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from sections import run

import ntkmmd_jax as ntk
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.witness import inner, velocity

KEY = jax.random.key(2026)


def mapped(replica, runs, batch=4, seed=0):
    """A function of keys at many keys."""
    keys = jax.random.split(jax.random.fold_in(KEY, seed), runs)
    return jax.jit(lambda keys: jax.lax.map(replica, keys, batch_size=batch))(keys)


def line(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def draw_mixture(key, n, d, parts):
    """n points of a mixture, given as an array (k, 3) of weights, means and scales."""
    k_which, k_noise = jax.random.split(key)
    weights, means, scales = parts.T
    which = jax.random.choice(k_which, len(parts), (n,), p=weights)
    return means[which, None] + scales[which, None] * jax.random.normal(k_noise, (n, d))


def mean_kernel(p, q, d, sigma):
    """E k(z, z') of two mixtures."""
    total = 0.0
    for a, m, s in p:
        for b, o, r in q:
            v = sigma**2 + s**2 + r**2
            total += a * b * (sigma**2 / v) ** (d / 2) * np.exp(-d * (m - o) ** 2 / (2 * v))
    return total


def mmd_of(p, q, d, sigma):
    same = mean_kernel(p, p, d, sigma) + mean_kernel(q, q, d, sigma)
    return np.sqrt(max(same - 2 * mean_kernel(p, q, d, sigma), 0.0))


def normal(mean=0.0, scale=1.0):
    return np.asarray([(0.5, mean, scale), (0.5, mean, scale)])


def tails(mean=0.0):
    return np.asarray([(0.9, mean, 1.0), (0.1, mean, 10.0)])


LAWS = {
    "shift 0.05": (normal(), normal(0.05)),
    "shift 0.2": (normal(), normal(0.2)),
    "shift 1": (normal(), normal(1.0)),
    "scale 1.3": (normal(), normal(0.0, 1.3)),
    "two modes at ±0.9": (normal(), np.asarray([(0.5, -0.9, 0.44), (0.5, 0.9, 0.44)])),
    "10 % of ten times the scale, shift 0.3": (tails(), tails(0.3)),
    "5 % of outliers at 6": (normal(), np.asarray([(0.95, 0.0, 1.0), (0.05, 6.0, 1.0)])),
}
SIZES = ((50, 50), (30, 100), (200, 200), (1000, 1000))


def show_gaussian(runs):
    """σ = √(2d) is about the median distance. The test of p = q at 200 + 200 only."""
    plain = ntk.GaussianMMD(n_permutations=99)
    line("law", "d", "n", "MMD = ε", "“more”", "“less”", "outside the interval", "p = q rejected")
    line(*["---"] * 8)
    for d, (n_x, n_y) in itertools.product((2, 20), SIZES):
        sigma = np.sqrt(2.0 * d)
        kernel = ntk.GaussianKernel(sigma)

        def replica(key, p, q, exact2, d=d, n_x=n_x, n_y=n_y, kernel=kernel):
            k_x, k_y, k_test = jax.random.split(key, 3)
            x, y = draw_mixture(k_x, n_x, d, p), draw_mixture(k_y, n_y, d, q)
            verdicts = verdicts_of(ntk.estimate_mmd(kernel, x, y), exact2)
            if n_x == 200:
                verdicts += [plain(k_test, x, y).pvalue <= 0.05]
            return jnp.stack(verdicts)

        many = jax.jit(
            lambda keys, *about: jax.lax.map(lambda k: replica(k, *about), keys, batch_size=4)
        )
        for i, (name, (p, q)) in enumerate(LAWS.items()):
            if (d == 20 and i not in (1, 3)) or (n_x == 1000 and i in (0, 3, 4)):
                continue  # enough is said by the others
            exact = mmd_of(p, q, d, sigma)
            keys = jax.random.split(jax.random.fold_in(KEY, 100 * d + i), runs)
            rates = np.mean(many(keys, *map(jnp.float32, (p, q, exact**2))), axis=0)
            cells = [f"{rate:.4f}" for rate in rates] + ["–"] * (4 - len(rates))
            line(name, d, f"{n_x} + {n_y}", f"{exact:.4f}", *cells)


def verdicts_of(found, exact2):
    """Whether an estimate says more, or less, than what is so; or has it outside its 95 %."""
    low, high = found.interval(0.05)
    out = (low > exact2) | (high < exact2)
    return [found.above(exact2) <= 0.05, found.below(exact2) <= 0.05, out]


def show_tangent(runs, sizes=((50, 50), (200, 200))):
    """ε from the gradients of 4 million points, in two halves whose product has no bias."""
    line("law", "n", "MMD = ε", "“more”", "“less”", "outside the 95 % interval")
    line(*["---"] * 6)
    network, d, chunk = ntk.mlp(32), 5, 50_000
    kernel = ntk.TangentKernel.of(1, np.zeros((1, d)), network)

    def draw(key, n_x, n_y, shift, scale, far):
        k_noise, k_far = jax.random.split(key)
        z = jax.random.normal(k_noise, (n_x + n_y, d))
        z *= jnp.where(jax.random.bernoulli(k_far, far, (n_x + n_y, 1)), 10.0, 1.0)
        return z[:n_x], scale * z[n_x:] + shift

    @jax.jit
    def gradient(keys, *law):
        weights = jnp.repeat(jnp.asarray([1.0, -1.0]), chunk) / (chunk * len(keys))

        def one(total, key):
            points = jnp.concatenate(draw(key, chunk, chunk, *law))
            v = velocity(network, kernel.params, SignedMeasure(points, weights))
            return jax.tree.map(jnp.add, total, v), None

        zero = jax.tree.map(jnp.zeros_like, network.trainable(kernel.params)[1])
        return jax.lax.scan(one, zero, keys)[0]

    for i, law in enumerate([(0.3, 1.0, 0.0), (0.0, 1.5, 0.0), (1.0, 1.0, 0.1)]):
        halves = jax.random.split(jax.random.fold_in(KEY, 77 + i), (2, 20))
        exact2 = inner(*(gradient(half, *law) for half in halves))
        for n_x, n_y in sizes:

            def replica(key, n_x=n_x, n_y=n_y, law=law, exact2=exact2):
                found = ntk.estimate_mmd(kernel, *draw(key, n_x, n_y, *law))
                return jnp.stack(verdicts_of(found, exact2))

            rates = np.mean(mapped(replica, runs, 4, seed=50 + i), axis=0)
            name = "shift {:g}, scale {:g}, {:.0%} ten times as far out".format(*law)
            about = (name, f"{n_x} + {n_y}", f"{float(exact2) ** 0.5:.4f}")
            line(*about, *(f"{rate:.4f}" for rate in rates))


SECTIONS = {"gaussian": show_gaussian, "tangent": show_tangent}


if __name__ == "__main__":
    run(SECTIONS, __doc__)
