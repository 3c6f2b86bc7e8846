"""The level of practical nulls: strata, pairs, groups, and permutations by need.

    python benchmarks/nulls.py [RUNS] [--only designs adaptive times]

Each beside the plain permutation test of the same data. Rates are at level 5 %, over RUNS replicas
(2,000): the band of four standard errors ends at 0.0305 and 0.0695. "designs" permutes labels
within strata, within pairs, of whole groups and of groups within strata, where nothing but the
nuisance differs. "adaptive" has level, power and the number of permutations of `Adaptive`, "times"
its CPU seconds. `benchmarks/tolerance.py` has the level of the tolerance test.
"""

import dataclasses
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
from sections import run

import ntkmmd_jax as ntk
from ntkmmd_jax.calibration import Exchangeable
from ntkmmd_jax.pooled import Pooled
from ntkmmd_jax.twosample.contract import run_program

KEY = jax.random.key(2026)
AT_ONCE = 20
TESTS = {
    "gmmd": ntk.GaussianMMD(n_permutations=39),
    "ntk-symmetric": ntk.NTKMMD(ntk.mlp(32), train_fraction=None, n_permutations=39),
    "ntk-fuse": ntk.FusedNTK((ntk.Scale(0.5), ntk.Tangent(ntk.mlp(32))), n_permutations=39),
    "mmd-fuse": ntk.MMDFuse(n_bandwidths=3, n_permutations=39),
}


def mapped(replica, runs, batch=AT_ONCE, seed=0):
    """A function of keys at many keys."""
    keys = jax.random.split(jax.random.fold_in(KEY, seed), runs)
    return jax.jit(lambda keys: jax.lax.map(replica, keys, batch_size=batch))(keys)


def line(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


# Strata, pairs, groups.


def of_strata(key):
    """Two hospitals of different means, of which x has more of one and y of the other."""
    hospital = np.repeat([0, 1, 0, 1], [16, 6, 5, 12])
    z = jax.random.normal(key, (39, 2)) + 3.0 * hospital[:, None]
    return Pooled(z, 22, 17, Exchangeable(jnp.asarray(hospital)))


def of_pairs(key):
    """20 people before and after, close to each other."""
    person = np.tile(np.arange(20), 2)
    people, noise = (jax.random.normal(k, (40, 2)) for k in jax.random.split(key))
    z = people[person] + 0.2 * noise
    return Pooled(z, 20, 20, Exchangeable(jnp.asarray(person)))


def of_groups(sizes, of_x, *, exchangeable=True, strata=None):
    """Patients with an effect each, as large as the noise; who has how many points is drawn."""
    groups, n = len(sizes), sum(sizes)
    strata = jnp.zeros(groups, int) if strata is None else jnp.asarray(strata)

    def draw(key):
        k_sizes, k_effects, k_noise = jax.random.split(key, 3)
        drawn = jnp.asarray(sizes)
        if exchangeable:
            drawn = jax.random.permutation(k_sizes, drawn)
        of_point = jnp.repeat(jnp.arange(groups), drawn, total_repeat_length=n)
        effects = jax.random.normal(k_effects, (groups, 2)) + 3.0 * strata[:, None].astype(float)
        z = effects[of_point] + jax.random.normal(k_noise, (n, 2))
        n_x = drawn[:of_x].sum()
        return Pooled(z, n_x, n - n_x, Exchangeable(strata, of_point, of_x=of_x))

    return draw


DESIGNS = {
    "strata: 2 hospitals, 16:6 and 5:12": of_strata,
    "pairs: 20 people, before and after": of_pairs,
    "groups: 10 + 10 patients of 4": of_groups([4] * 20, 10),
    "groups: 12 + 9 patients of 1 to 8": of_groups([1, 2, 3, 4, 5, 6, 8] * 3, 12),
    "groups in strata: 12 + 12 patients of 3, 2 sites, 8:4 and 3:9": of_groups(
        [3] * 24, 12, strata=np.repeat([0, 1, 0, 1], [8, 4, 3, 9])
    ),
    "not exchangeable: 10 patients of 1, 10 of 8": of_groups(
        [1] * 10 + [8] * 10, 10, exchangeable=False
    ),
}


def show_designs(runs):
    line("design", "test", "level", "plain permutations")
    line(*["---"] * 4)
    for i, (name, draw) in enumerate(DESIGNS.items()):
        for method, test in TESTS.items():

            def replica(key, test=test, draw=draw):
                k_data, k_test = jax.random.split(key)
                given = draw(k_data)
                plain = dataclasses.replace(given, within=None)
                if isinstance(given.n_x, int):  # which a program keeps of x and y apart only
                    plain = plain.both
                    given = (*plain, given.within)
                found = [run_program(test, k_test, one).pvalue for one in (given, plain)]
                return jnp.stack(found) <= 0.05

            rate, plain = np.mean(mapped(replica, runs, seed=i), axis=0)
            line(name, f"`{method}`", f"{rate:.4f}", f"{plain:.4f}")


# As many permutations as it takes.


def show_adaptive(runs):
    line("test", "shift", "rejected", "with 399 fixed", "permutations: mean", "median", "90 %")
    line(*["---"] * 7)
    for method in ("gmmd", "ntk", "ntk-symmetric", "ntk-fuse"):
        some = {"network": ntk.mlp(32)}
        if method in ("gmmd", "ntk-fuse"):
            some = {} if method == "gmmd" else {"members": TESTS["ntk-fuse"].members}
        adaptive = ntk.make_test(method, calibration=ntk.Adaptive(), **some)
        fixed = ntk.make_test(method, n_permutations=399, **some)

        def replica(key, shift, adaptive=adaptive, fixed=fixed):
            k_data, k_test = jax.random.split(key)
            z = jax.random.normal(k_data, (60, 3))
            x, y = z[:30], z[30:] + shift
            found = adaptive(k_test, x, y)
            return found.reject, fixed(k_test, x, y).reject, found.drawn

        many = jax.jit(lambda keys, shift, one=replica: jax.lax.map(lambda k: one(k, shift), keys))
        for shift in (0.0, 0.35, 1.0):
            keys = jax.random.split(KEY, runs if shift == 0 else runs // 10)
            verdict, other, drawn = map(np.asarray, many(keys, jnp.float32(shift)))
            numbers = (drawn.mean(), np.median(drawn), np.quantile(drawn, 0.9))
            rates = (f"{verdict.mean():.4f}", f"{other.mean():.4f}")
            line(f"`{method}`", f"{shift:g}", *rates, *(f"{v:.0f}" for v in numbers))


def show_times(runs):
    """CPU seconds of one warm call, the median of five keys."""
    del runs
    line("test", "n", "shift", "adaptive", "400 fixed", "9,999 fixed", "permutations")
    line(*["---"] * 7)
    rng = np.random.default_rng(0)
    for method, n in itertools.product(("gmmd", "ntk-fuse"), (200, 1000)):
        noise = rng.normal(size=(2, n, 10))
        found, numbers = {}, ("adaptive", 400, 9_999)
        for permutations, shift, key in itertools.product(numbers, (0, 1), range(6)):
            start = time.process_time()
            given = {"method": method, "n_permutations": permutations, "key": key}
            result = ntk.two_sample_test(noise[0], noise[1] + shift, **given)
            at = found.setdefault((permutations, shift), [])
            at += [(time.process_time() - start, len(result.null))] if key else []
        for shift in (0, 1):
            seconds = (np.median([s for s, _ in found[b, shift]]) for b in numbers)
            drawn = [count for _, count in found["adaptive", shift]]
            cells = (f"`{method}`", f"{n} + {n}", shift, *(f"{s:.3f} s" for s in seconds))
            line(*cells, f"{min(drawn)} to {max(drawn)}")


SECTIONS = {
    "designs": show_designs,
    "adaptive": show_adaptive,
    "times": show_times,
}


if __name__ == "__main__":
    run(SECTIONS, __doc__)
