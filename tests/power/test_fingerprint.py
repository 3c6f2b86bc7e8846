"""A checkpoint knows its sweep by what sampler and tests compute, not by their names."""

import functools
import itertools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx

import ntkmmd_jax as ntk
from ntkmmd_jax.power.fingerprint import configuration, fingerprint
from ntkmmd_jax.power.grid import cells_of

KEY = jax.random.key(0)


def test_a_fingerprint_is_that_of_the_jaxpr_and_its_constants():
    x = jnp.ones(3)
    table = np.arange(3000.0, dtype=np.float32)
    other = table.copy()
    other[1500] += 1e-3  # beyond what is printed of a long array

    def looked_up(values):
        return lambda x: jnp.asarray(values)[:3] + jax.jit(lambda z: jnp.asarray(values)[0] * z)(x)

    def scaled(by):
        return lambda x: by * x

    functions = [scaled(0.1), scaled(0.1 + 1e-8), scaled(2.0), looked_up(table), looked_up(other)]
    prints = [fingerprint(function, x) for function in functions]
    assert len(set(prints)) == 5
    assert prints[0] == fingerprint(lambda z: 0.1 * z, x)  # whatever it is called
    assert prints[3] == fingerprint(looked_up(table.copy()), x)
    assert prints[2] != fingerprint(scaled(2.0), jnp.ones(4))


class Module(linen.Module):
    slope: float = 1.0

    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(jnp.tanh(self.slope * linen.Dense(3)(x)))[:, 0]


class Module2(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.Linear(2, 1, rngs=rngs)

    def __call__(self, x):
        return self.layer(x)[:, 0]


def swish(beta):
    return lambda z: z * jax.nn.sigmoid(beta * z)


def straight(slope):
    """The same function for every slope, but another derivative."""

    @jax.custom_jvp
    def sign(z):
        return jnp.sign(z)

    sign.defjvp(lambda primals, tangents: (sign(primals[0]), slope * tangents[0]))
    return sign


def pair(scale):
    return (
        lambda key, x: jax.random.normal(key, x.shape[1:]),
        lambda w, x: jnp.tanh(scale * x @ w),
    )


def shift(by):
    return lambda key, n_x, n_y: tuple(
        jax.random.normal(key, (n, 2)) + by * i for i, n in enumerate((n_x, n_y))
    )


def exact(network):
    return {"ntk": ntk.NTKMMD(network=network, n_permutations=19)}


def adam(rate):
    optimizer = optax.adam(rate)
    return {"net": ntk.NetMMD(network=ntk.mlp(4), optimizer=optimizer, n_permutations=19)}


def schedule(steps):
    return adam(optax.cosine_decay_schedule(1e-3, steps))


def pilot(seed):
    """All of a pilot's numbers are leaves, and none is in a program."""
    test = ntk.NTKMMD(network=ntk.mlp(4), train_fraction=None)
    pool = np.random.default_rng(seed).normal(size=(40, 2))
    null = ntk.pilot_null(0, pool, (8, 8), test=test, n_draws=19)
    return {"pilot": ntk.NTKMMD(network=ntk.mlp(4), train_fraction=None, calibration=null)}


CASES = {
    "activation": lambda a: (exact(ntk.mlp(4, activation=swish(a))), shift(0.0)),
    "derivative": lambda a: (exact(ntk.mlp(4, activation=straight(a))), shift(0.0)),
    "linen": lambda a: (exact(Module(slope=float(a))), shift(0.0)),
    "nnx": lambda a: (exact(Module2(nnx.Rngs(int(a)))), shift(0.0)),
    "pair": lambda a: (exact(pair(a)), shift(0.0)),
    "optimizer": lambda a: (adam(1e-3 * a), shift(0.0)),
    "schedule": lambda a: (schedule(int(10 * a)), shift(0.0)),
    "closure": lambda a: (exact(ntk.mlp(4)), shift(a)),
    "pilot": lambda a: (pilot(int(a)), shift(0.0)),
}


def described(tests, sampler, grid=None, n=8):
    cells = cells_of(tests, sampler, grid or {}, n)
    shapes = (jax.ShapeDtypeStruct((n, 2), jnp.float32),) * 2
    return json.dumps(configuration(KEY, tests, sampler, cells, [shapes] * len(cells), 10))


@pytest.mark.parametrize("case", CASES)
def test_what_has_the_same_name_is_told_apart(case):
    one, same, other = (described(*CASES[case](a)) for a in (1.0, 1.0, 2.0))
    assert one == same != other


def test_functions_in_the_grid_are_told_apart():
    f, g = swish(1.0), swish(2.0)
    tests = exact(ntk.mlp(4))
    every = itertools.product([f, g], repeat=3)
    texts = [described(tests, shift(0.0), {"activation": list(three)}) for three in every]
    assert len(set(texts)) == 8
    grid = {"optimizer": [optax.sgd(0.1), optax.sgd(0.2)]}
    swapped = {"optimizer": grid["optimizer"][::-1]}
    tests = {"net": ntk.NetMMD(network=ntk.mlp(4), n_permutations=19)}
    assert described(tests, shift(0.0), grid) != described(tests, shift(0.0), swapped)


def test_what_calls_python_is_refused_only_with_a_checkpoint(tmp_path):
    def sampler(key, n_x, n_y):
        def host(words):
            rng = np.random.default_rng(np.asarray(words))
            return rng.normal(size=(n_x + n_y, 2)).astype(np.float32)

        shape = jax.ShapeDtypeStruct((n_x + n_y, 2), jnp.float32)
        words = jax.random.key_data(key)
        z = jax.pure_callback(host, shape, words, vmap_method="sequential")
        return z[:n_x], z[n_x:]

    options = {"n": 8, "n_runs": 2, "progress": False, "devices": 1}
    test = {"gmmd": ntk.GaussianMMD(n_permutations=19)}
    assert len(ntk.power_sweep(0, test, sampler, {}, **options).rows) == 1
    with pytest.raises(ValueError, match=r"the sampler calls back to Python \(pure_callback\)"):
        ntk.power_sweep(0, test, sampler, {}, checkpoint=tmp_path / "sweep.jsonl", **options)


def test_the_checkpoint_of_another_closure_is_refused(tmp_path):
    """Resumed in silence, the sweep of 5σ had the counts of the sweep of 0σ."""
    path = tmp_path / "sweep.jsonl"
    test = {"hotelling": ntk.Hotelling()}
    options = {"n": 20, "n_runs": 40, "progress": False, "devices": 1}
    near = ntk.power_sweep(0, test, shift(0.0), {}, checkpoint=path, **options)
    with pytest.raises(
        ValueError, match=r"another sweep: programs\.sampler was .*what it computes"
    ):
        ntk.power_sweep(0, test, shift(5.0), {}, checkpoint=path, **options)
    far = ntk.power_sweep(0, test, shift(5.0), {}, **options)
    assert near.rows[0].rejections < 10 and far.rows[0].rejections == 40
    again = ntk.power_sweep(0, test, shift(0.0), {}, checkpoint=path, **options)  # a new closure
    assert again.rows == near.rows


def everything():
    """All methods and all cases above, in one text."""
    tests = {name: ntk.make_test(name) for name in ntk.methods()}
    for name in set(CASES) - {"pilot"}:  # in any order; a pilot is for its own sizes
        tests |= {f"{name} {method}": test for method, test in CASES[name](1.0)[0].items()}
    tests = dict(sorted(tests.items()))
    sampler = functools.partial(lambda key, n_x, n_y, by: shift(by)(key, n_x, n_y), by=1.5)
    return described(tests, sampler, {"level": [0.05, 0.1]}, n=40)


def test_a_fresh_process_on_several_devices_describes_alike():
    code = (
        "import jax; jax.config.update('jax_num_cpu_devices', 3)\n"
        "from tests.power.test_fingerprint import everything\n"
        "text = everything(); assert jax.device_count() == 3; print(text)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "12345", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == everything()
