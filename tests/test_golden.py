"""One pinned result per method and calibration: what a refactoring must not change.

Made by `python -m tests.test_golden`; on the machine that made them they are the same to the bit,
elsewhere to the rounding of float32 matrix products.
"""

import json
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk

GOLDEN = Path(__file__).with_name("golden.json")
NETWORK = ntk.mlp(16)
SMALL = {"network": NETWORK, "n_permutations": 39}
CLASSIFIER = {"network": ntk.mlp(8, activation="relu"), "epochs": 2, "batch_size": 8}
EMBEDDING = {"n_locations": 2, "steps": 3, "n_permutations": 39}


def pilot(test):
    return ntk.pilot_null(5, np.random.default_rng(1).normal(size=(120, 3)), (30, 22), test=test)


TESTS = {
    "net, test": lambda: ntk.NetMMD(**SMALL),
    "net, in order": lambda: ntk.NetMMD(shuffle=False, momentum=0.5, batch_size=4, **SMALL),
    "net, full": lambda: ntk.NetMMD(calibration="full", **SMALL),
    "net, normal": lambda: ntk.NetMMD(calibration="normal", **SMALL),
    "net, symmetric": lambda: ntk.NetMMD(train_fraction=None, **SMALL),
    "net, pilot": lambda: ntk.NetMMD(
        train_fraction=None, calibration=pilot(ntk.NetMMD(**SMALL)), **SMALL
    ),
    "ntk, test": lambda: ntk.NTKMMD(**SMALL),
    "ntk, full": lambda: ntk.NTKMMD(calibration="full", **SMALL),
    "ntk, normal": lambda: ntk.NTKMMD(calibration="normal", **SMALL),
    "ntk, theory": lambda: ntk.NTKMMD(calibration="theory", **SMALL),
    "ntk, symmetric": lambda: ntk.NTKMMD(train_fraction=None, **SMALL),
    "ntk, unbiased": lambda: ntk.NTKMMD(train_fraction=None, unbiased=True, **SMALL),
    "ntk, asymptotic": lambda: ntk.NTKMMD(train_fraction=None, calibration="asymptotic", **SMALL),
    "ntk, symmetric theory": lambda: ntk.NTKMMD(train_fraction=None, calibration="theory", **SMALL),
    "ntk, pilot": lambda: ntk.NTKMMD(
        train_fraction=None, calibration=pilot(ntk.NTKMMD(**SMALL)), **SMALL
    ),
    # Not the longest times, which see rounding: another machine's would be another number.
    "ntk-fuse, full": lambda: ntk.FusedNTK(
        (ntk.Scale(0.25, times=(0.0, 8.0)), ntk.Tangent(NETWORK)), n_permutations=39, landmarks=16
    ),
    "bet": lambda: ntk.BettingTest(network=NETWORK),
    "ntk, bins": lambda: ntk.NTKMMD(train_fraction=None, bins=10, **SMALL),
    "gmmd, full": lambda: ntk.GaussianMMD(n_permutations=39),
    "gmmd, unbiased": lambda: ntk.GaussianMMD(unbiased=True, bandwidth=(0.5, 2.0)),
    "gmmd, asymptotic": lambda: ntk.GaussianMMD(calibration="asymptotic"),
    "gmmd-lin, permutation": lambda: ntk.LinearTimeMMD(n_permutations=39),
    "gmmd-lin, normal": lambda: ntk.LinearTimeMMD(calibration="normal"),
    "mmd-fuse, full": lambda: ntk.MMDFuse(n_permutations=39),
    "mmd-fuse, soft": lambda: ntk.MMDFuse(sharpness=1.0, n_bandwidths=3, n_permutations=39),
    "mmd-agg, full": lambda: ntk.MMDAgg(n_permutations=39),
    "hotelling": lambda: ntk.Hotelling(),
    "hotelling, shrunk": lambda: ntk.Hotelling(shrinkage=0.1, n_permutations=39),
    "c2st-s, test": lambda: ntk.C2ST(score="accuracy", n_permutations=39, **CLASSIFIER),
    "c2st-l, test": lambda: ntk.C2ST(n_permutations=39, **CLASSIFIER),
    "c2st-l, normal": lambda: ntk.C2ST(calibration="normal", **CLASSIFIER),
    "me, permutation": lambda: ntk.MeanEmbedding(**EMBEDDING),
    "me, asymptotic": lambda: ntk.MeanEmbedding(calibration="asymptotic", **EMBEDDING),
    "scf, permutation": lambda: ntk.SmoothCF(**EMBEDDING),
    "scf, asymptotic": lambda: ntk.SmoothCF(calibration="asymptotic", **EMBEDDING),
}


def samples():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 3)), 0.5 + rng.normal(size=(22, 3))


def result_of(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # limit laws at small sizes
        found = TESTS[name]()(jax.random.key(7), *samples())
    numbers = [found.statistic, found.pvalue, found.threshold, *found.null[:3]]
    if found.witness is not None:
        numbers += list(found.witness(samples()[0][:2]))
    return [float(number) for number in numbers]


def chart_of(test):
    series = np.random.default_rng(2).normal(size=(120, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 60 frames are few
        found = ntk.changepoint.scan(3, series, reference=60, window=20, test=test, n_draws=99)
    return [float(found.threshold), *np.asarray(found.statistics, float).tolist()]


def sweep_of():
    tests = {"ntk": ntk.NTKMMD(**SMALL), "hotelling": ntk.Hotelling()}
    grid = {"delta": [0.0, 1.0], "dim": [3]}
    table = ntk.power_sweep(0, tests, ntk.datasets.mean_shift, grid, n=20, n_runs=40, devices=1)
    return [row.rejections for row in table.rows]


@pytest.mark.parametrize("name", TESTS)
def test_result(name):
    np.testing.assert_allclose(
        result_of(name), json.loads(GOLDEN.read_text())[name], rtol=2e-4, atol=1e-6
    )


@pytest.mark.parametrize("test", ["ntk", "gmmd", "hotelling"])
def test_chart(test):
    expected = json.loads(GOLDEN.read_text())[f"chart, {test}"]
    np.testing.assert_allclose(chart_of(test), expected, rtol=2e-4, atol=1e-6)


def test_sweep():
    assert sweep_of() == json.loads(GOLDEN.read_text())["sweep"]


if __name__ == "__main__":
    made = {name: result_of(name) for name in TESTS}
    made |= {f"chart, {test}": chart_of(test) for test in ("ntk", "gmmd", "hotelling")}
    GOLDEN.write_text(json.dumps(made | {"sweep": sweep_of()}, indent=1) + "\n")
