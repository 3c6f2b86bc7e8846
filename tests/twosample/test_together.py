"""Tests that learn alike learn once, and say what each says by itself."""

import dataclasses

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import datasets
from ntkmmd_jax.twosample.together import together
from tests.processes import answer, launch

SMALL = ntk.C2ST(network=ntk.mlp((8, 8), train_readout=True), epochs=2, batch_size=16)
BY_ACCURACY = dataclasses.replace(SMALL, score="accuracy")
STEPS = (2 * 3, 3 * 3)  # of 35 points in batches of 16, for 2 epochs and 3


def trainings(tests, key, x, y):
    """How many loops over batches a program of all tests has."""
    traced = jax.make_jaxpr(lambda key, x, y: [r.pvalue for r in together(tests, key, x, y)])
    return _scans(traced(key, x, y).jaxpr)


def _scans(jaxpr):
    found = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan" and equation.params["length"] in STEPS:
            found += 1
        for inner in jax.tree.leaves(list(equation.params.values())):
            inner = getattr(inner, "jaxpr", inner)
            found += _scans(inner) if hasattr(inner, "eqns") else 0
    return found


@pytest.fixture(scope="module")
def samples():
    return datasets.mean_shift(jax.random.key(0), 40, 30, delta=1.0, dim=3)


def test_results_are_those_of_each_by_itself(samples):
    tests = [SMALL, ntk.NTKMMD(ntk.mlp(8)), dataclasses.replace(BY_ACCURACY, level=0.1)]
    key = jax.random.key(1)
    for test, found in zip(tests, together(tests, key, *samples), strict=True):
        alone = test(key, *samples)
        assert (found.method, found.n_x, found.n_y) == (alone.method, alone.n_x, alone.n_y)
        np.testing.assert_array_equal(found.pvalue, alone.pvalue)
        np.testing.assert_array_equal(found.threshold > found.statistic, ~alone.reject)
        np.testing.assert_allclose(found.statistic, alone.statistic, rtol=1e-5)


def test_one_network_is_trained_for_two_scores(samples):
    key = jax.random.key(2)
    assert trainings([SMALL], key, *samples) == 1
    assert trainings([SMALL, BY_ACCURACY], key, *samples) == 1
    longer = dataclasses.replace(BY_ACCURACY, epochs=3)
    assert trainings([SMALL, longer], key, *samples) == 2


@pytest.mark.parametrize("change", [{"learning_rate": 1e-3}, {"standardize": True}])
def test_what_may_differ_is_not_shared(samples, change):
    tests = [dataclasses.replace(one, **change) for one in (SMALL, BY_ACCURACY)]
    key = jax.random.key(3)
    assert trainings(tests, key, *samples) == 2
    for test, found in zip(tests, together(tests, key, *samples), strict=True):
        np.testing.assert_array_equal(found.pvalue, test(key, *samples).pvalue)


def test_sizes_are_refused_as_by_each(samples):
    x, y = samples
    with pytest.raises(ValueError, match="held-out"):
        together([SMALL, BY_ACCURACY], jax.random.key(0), x[:2], y[:2])


TWO_THREADS = """
import os
os.environ |= {"NPROC": "2", "OPENBLAS_NUM_THREADS": "1"}  # of XLA's pool, and LAPACK's own
from ntkmmd_jax import changepoint
tests = {name: ntk.make_test(name) for name in ("hotelling", "scf")}
about = {"n": 60, "n_runs": 256, "progress": False}
table = ntk.power_sweep(0, tests, ntk.datasets.mean_shift, {"delta": [2.0], "dim": [50]}, **about)
frames = jax.random.normal(jax.random.key(0), (600, 50))
state = changepoint.init(0, frames, window=50, test="hotelling", arl=1000)
print(json.dumps([row.power for row in table.rows] + [float(state.threshold)]))
"""


def test_lapack_calls_do_not_wait_for_each_other():
    """Two batches of them side by side did, for ever, on two threads: of two tests, of a map."""
    hotelling, _, threshold = answer(launch(TWO_THREADS))
    assert hotelling > 0.9 and threshold > 50
