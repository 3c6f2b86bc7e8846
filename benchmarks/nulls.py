"""The level of practical nulls: strata, pairs, groups, a tolerance, permutations by need.

    python benchmarks/nulls.py [RUNS] [--only designs tolerance tangent adaptive times]

Each beside the plain permutation test of the same data. Rates are at level 5 %, over RUNS replicas
(2,000): the band of four standard errors ends at 0.0305 and 0.0695. "designs" permutes labels within
strata, within pairs, of whole groups and of groups within strata, where nothing but the nuisance
differs. "tolerance" has samples whose MMD is the tolerance exactly, by the closed form of Gaussian
mixtures; "tangent" the same with the kernel of a network, whose MMD is that of 4 million points.
"adaptive" has level, power and the number of permutations of `Adaptive`, "times" its seconds.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import ntkmmd_jax as ntk
from ntkmmd_jax.calibration import Exchangeable, as_groups
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.twosample.contract import run_program
from ntkmmd_jax.witness import inner, velocity

KEY = jax.random.key(2026)
AT_ONCE = 20
TESTS = {
    "gmmd": ntk.GaussianMMD(n_permutations=99),
    "ntk-symmetric": ntk.NTKMMD(ntk.mlp(64), train_fraction=None, n_permutations=99),
    "ntk-fuse": ntk.FusedNTK(n_permutations=99),
    "mmd-fuse": ntk.MMDFuse(n_permutations=99),
}


def mapped(replica, runs, batch=AT_ONCE, seed=0):
    """A function of keys at many keys."""
    keys = jax.random.split(jax.random.fold_in(KEY, seed), runs)
    return jax.jit(lambda keys: jax.lax.map(replica, keys, batch_size=batch))(keys)


def line(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


# Strata, pairs, groups.


def designs():
    """Name to what is exchangeable, a sampler of all points and how many of them are x."""
    hospital = np.repeat([0, 1, 0, 1], [16, 6, 5, 12])
    person = np.tile(np.arange(20), 2)
    rng = np.random.default_rng(0)

    def grouped(sizes_x, sizes_y, strata=None):
        of_x, of_y = (np.repeat(np.arange(len(s)), s) for s in (sizes_x, sizes_y))
        inside = None if strata is None else (strata[0][of_x], strata[1][of_y])
        given = (of_x, 1000 + of_y, len(of_x), len(of_y), inside)
        return as_groups(*given)[0], np.concatenate([of_x, len(sizes_x) + of_y]), len(of_x)

    def of_strata(key):
        return jax.random.normal(key, (39, 2)) + 3.0 * hospital[:, None]

    def of_pairs(key):
        people, noise = (jax.random.normal(k, (40, 2)) for k in jax.random.split(key))
        return people[person] + 0.2 * noise

    def of_groups(groups, shift=0.0):
        def draw(key):
            effects, noise = (jax.random.normal(k, (len(groups), 2)) for k in jax.random.split(key))
            return effects[groups] + noise + shift

        return draw

    even, groups_even, n_even = grouped([4] * 10, [4] * 10)
    sizes = rng.integers(1, 9, 12), rng.integers(1, 9, 9)  # one law of sizes, whatever the label
    uneven, groups_uneven, n_uneven = grouped(*sizes)
    site = np.repeat([0, 1], [8, 4]), np.repeat([0, 1], [3, 9])
    both, groups_both, n_both = grouped([3] * 12, [3] * 12, site)
    of_site = np.concatenate(site)[groups_both]
    return {
        "strata: 2 hospitals, shares 16:6 and 5:12": (
            Exchangeable(jnp.asarray(hospital)),
            of_strata,
            22,
        ),
        "pairs: 20 people, before and after": (Exchangeable(jnp.asarray(person)), of_pairs, 20),
        "groups: 10 + 10 patients, 4 points each": (even, of_groups(groups_even), n_even),
        "groups: 12 + 9 patients, 1 to 8 points": (uneven, of_groups(groups_uneven), n_uneven),
        "groups in strata: 12 + 12 patients, 2 sites": (
            both,
            of_groups(groups_both, 3.0 * of_site[:, None]),
            n_both,
        ),
    }


def show_designs(runs):
    line("design", "test", "level", "plain permutations")
    line(*["---"] * 4)
    for i, (name, (within, draw, n_x)) in enumerate(designs().items()):
        for method, test in TESTS.items():

            def replica(key, test=test, draw=draw, within=within, n_x=n_x):
                k_data, k_test = jax.random.split(key)
                z = draw(k_data)
                given = run_program(test, k_test, (z[:n_x], z[n_x:], within)).pvalue
                return jnp.stack([given, test(k_test, z[:n_x], z[n_x:]).pvalue]) <= 0.05

            rate, plain = np.mean(mapped(replica, runs, seed=i), axis=0)
            line(name, f"`{method}`", f"{rate:.4f}", f"{plain:.4f}")


# A tolerance: mixtures Σ_k w_k N(m_k e, s_k² I), whose Gaussian MMD has a closed form.


def draw_mixture(key, n, d, parts):
    k_which, k_noise = jax.random.split(key)
    weights, means, scales = (jnp.asarray(v, float) for v in zip(*parts, strict=True))
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


NORMAL = [(1.0, 0.0, 1.0)]
TAILS = [(0.9, 0.0, 1.0), (0.1, 0.0, 10.0)]


def laws():
    """Name to p, q and d; σ is about the median distance."""
    shift = lambda of, by: [(w, m + by, s) for w, m, s in of]  # noqa: E731
    return {
        "shift 0.05, d = 2": (NORMAL, shift(NORMAL, 0.05), 2),
        "shift 0.2, d = 2": (NORMAL, shift(NORMAL, 0.2), 2),
        "shift 0.2, d = 20": (NORMAL, shift(NORMAL, 0.2), 20),
        "shift 1, d = 2": (NORMAL, shift(NORMAL, 1.0), 2),
        "scale 1.3, d = 2": (NORMAL, [(1.0, 0.0, 1.3)], 2),
        "scale 1.3, d = 20": (NORMAL, [(1.0, 0.0, 1.3)], 20),
        "two modes at ±0.9, d = 1": (NORMAL, [(0.5, -0.9, 0.44), (0.5, 0.9, 0.44)], 1),
        "outliers ×10, shift 0.3, d = 2": (TAILS, shift(TAILS, 0.3), 2),
        "5 % outliers at 6, d = 2": (NORMAL, [(0.95, 0.0, 1.0), (0.05, 6.0, 1.0)], 2),
    }


def show_tolerance(runs, sizes=((50, 50), (30, 100), (200, 200), (1000, 1000))):
    plain = ntk.GaussianMMD(n_permutations=99)
    line("law", "n", "MMD = ε", "“more”", "“less”", "outside the 95 % interval", "p = q rejected")
    line(*["---"] * 7)
    for i, (name, (p, q, d)) in enumerate(laws().items()):
        sigma = np.sqrt(2.0 * d)
        exact, kernel = mmd_of(p, q, d, sigma), ntk.GaussianKernel(sigma)
        for n_x, n_y in sizes:

            def replica(key, p=p, q=q, d=d, n_x=n_x, n_y=n_y, exact=exact, kernel=kernel):
                k_x, k_y, k_test = jax.random.split(key, 3)
                x, y = draw_mixture(k_x, n_x, d, p), draw_mixture(k_y, n_y, d, q)
                found = ntk.estimate_mmd(kernel, x, y)
                low, high = found.interval(0.05)
                out = (low > exact**2) | (high < exact**2)
                verdicts = [found.above(exact**2) <= 0.05, found.below(exact**2) <= 0.05, out]
                if n_x < 1000:
                    verdicts.append(plain(k_test, x, y).pvalue <= 0.05)
                return jnp.stack(verdicts)

            rates = np.mean(mapped(replica, runs, 4, seed=i), axis=0)
            cells = [f"{rate:.4f}" for rate in rates] + ["–"] * (4 - len(rates))
            line(name, f"{n_x} + {n_y}", f"{exact:.4f}", *cells)


def show_tangent(runs, sizes=((50, 50), (200, 200), (1000, 1000))):
    """ε from the gradients of 4 million points, in two halves whose product has no bias."""
    line("law", "n", "MMD = ε", "“more”", "“less”", "outside the 95 % interval")
    line(*["---"] * 6)
    network, d, chunk = ntk.mlp(64), 5, 50_000
    kernel = ntk.TangentKernel.of(1, np.zeros((1, d)), network)

    @jax.jit
    def gradient(keys, shift, scale):
        def one(total, key):
            z = jax.random.normal(key, (2 * chunk, d))
            points = jnp.concatenate([z[:chunk], scale * z[chunk:] + shift])
            weights = jnp.repeat(jnp.asarray([1.0, -1.0]), chunk) / (chunk * len(keys))
            v = velocity(network, kernel.params, SignedMeasure(points, weights))
            return jax.tree.map(jnp.add, total, v), None

        zero = jax.tree.map(jnp.zeros_like, network.trainable(kernel.params)[1])
        return jax.lax.scan(one, zero, keys)[0]

    for i, (shift, scale) in enumerate([(0.3, 1.0), (0.0, 1.5)]):
        halves = jax.random.split(jax.random.fold_in(KEY, 77 + i), (2, 20))
        exact2 = inner(*(gradient(half, shift, scale) for half in halves))
        for n_x, n_y in sizes:

            def replica(key, n_x=n_x, n_y=n_y, shift=shift, scale=scale, exact2=exact2):
                z = jax.random.normal(key, (n_x + n_y, d))
                found = ntk.estimate_mmd(kernel, z[:n_x], scale * z[n_x:] + shift)
                low, high = found.interval(0.05)
                out = (low > exact2) | (high < exact2)
                return jnp.stack([found.above(exact2) <= 0.05, found.below(exact2) <= 0.05, out])

            rates = np.mean(mapped(replica, runs, 4, seed=50 + i), axis=0)
            name = f"shift {shift:g}, scale {scale:g}, d = {d}"
            line(
                name, f"{n_x} + {n_y}", f"{float(exact2) ** 0.5:.4f}", *(f"{r:.4f}" for r in rates)
            )


# As many permutations as it takes.


def show_adaptive(runs):
    line("test", "shift", "rejected", "with 399 fixed", "permutations: mean", "median", "90 %")
    line(*["---"] * 7)
    for method in ("gmmd", "ntk", "ntk-symmetric", "ntk-fuse"):
        some = {} if method in ("gmmd", "ntk-fuse") else {"network": ntk.mlp(64)}
        adaptive = ntk.make_test(method, calibration=ntk.Adaptive(), **some)
        fixed = ntk.make_test(method, n_permutations=399, **some)
        for shift in (0.0, 0.35, 1.0):

            def replica(key, adaptive=adaptive, fixed=fixed, shift=shift):
                k_data, k_test = jax.random.split(key)
                z = jax.random.normal(k_data, (60, 3))
                x, y = z[:30], z[30:] + shift
                found = adaptive(k_test, x, y)
                return found.reject, fixed(k_test, x, y).reject, found.drawn

            often = runs if shift == 0 else runs // 10
            verdict, other, drawn = map(np.asarray, mapped(replica, often, None))
            numbers = (drawn.mean(), np.median(drawn), np.quantile(drawn, 0.9))
            rates = (f"{verdict.mean():.4f}", f"{other.mean():.4f}")
            line(f"`{method}`", f"{shift:g}", *rates, *(f"{v:.0f}" for v in numbers))


def show_times(runs):
    """Seconds of one warm call, the median of five keys."""
    del runs
    line("test", "n", "shift", "adaptive", "400 fixed", "9,999 fixed", "permutations")
    line(*["---"] * 7)
    rng = np.random.default_rng(0)
    for method in ("gmmd", "ntk-symmetric", "ntk-fuse"):
        for n in (200, 1000):
            for shift in (0.0, 1.0):
                x, y = rng.normal(size=(n, 10)), rng.normal(size=(n, 10)) + shift
                seconds, drawn = [], 0
                for permutations in ("adaptive", 400, 9_999):
                    found = []
                    for key in range(6):
                        start = time.perf_counter()
                        given = {"method": method, "n_permutations": permutations}
                        result = ntk.two_sample_test(x, y, key=key, **given)
                        found.append(time.perf_counter() - start)
                        drawn = result.drawn if permutations == "adaptive" else drawn
                    seconds.append(f"{np.median(found[1:]):.3f} s")
                line(f"`{method}`", f"{n} + {n}", f"{shift:g}", *seconds, drawn)


SECTIONS = {
    "designs": show_designs,
    "tolerance": show_tolerance,
    "tangent": show_tangent,
    "adaptive": show_adaptive,
    "times": show_times,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="?", type=int, default=2000)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    given = parser.parse_args()
    for name in given.only:
        start = time.perf_counter()
        print(f"\n{name}, {given.runs} replicas\n")
        SECTIONS[name](given.runs)
        print(f"\n{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
