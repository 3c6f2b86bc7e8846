"""`repr` of every public object: short, without arrays or addresses."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import calibration, changepoint, kernels, sequential, theory
from ntkmmd_jax._lib import records
from ntkmmd_jax._lib.records import brief
from ntkmmd_jax.changepoint import edetector
from ntkmmd_jax.twosample.explained import Extremes, WitnessMap
from tests.test_help import SURFACE

NETWORK = ntk.mlp(4)
X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
NONE = {ntk.TwoSampleTest, ntk.PermutationTest}  # bases, of which there are no objects


def numbers(k=3):
    return jnp.arange(float(k))


def objects():
    """Of public classes, most of them made by hand: nothing is compiled for a repr."""
    params = NETWORK.init(jax.random.key(0), X)
    measure = ntk.signed_measure(jnp.asarray(X[:20]), jnp.asarray(X[20:]))
    exact, zero = ntk.NTKMMD(NETWORK), jnp.zeros(())
    witness = ntk.Witness(params, params, zero, network=NETWORK, features=(3,))
    compared = ntk.Comparison(numbers(), numbers(), zero, numbers(), zero)
    drift = theory.KernelDrift(numbers(), numbers(), zero + 1, zero)
    result = ntk.TwoSampleResult(0.1, 0.5, 0.2, X[:, 0], 0.05, witness, method="ntk")
    matrix = np.ones((2, 2))
    one = theory.Estimate(zero, zero)
    tests = [ntk.make_test(name) for name in ntk.methods()] + [exact, ntk.Scale(), ntk.Tangent()]
    tests += [ntk.FiniteTimeNTK(NETWORK)]
    row = ntk.power.table.PowerRow("ntk", {"n": 4}, 10, 5, 1.0)
    table = ntk.PowerTable([row])
    detector = changepoint.Detector(0, X, window=8, stride=4, threshold=1.0, test=exact)
    change = changepoint.Change(5, (4, 6), 0.01, 3.0, X[0], X[0], X[0])
    cut = changepoint.cutting.Binning(2, 30, 0.0)
    about = {"window": 8, "method": "ntk"}
    ends, plane = Extremes(np.arange(1), X[0, :1], X[:1]), WitnessMap(("a", "b"), *[X[:, :2]] * 4)
    per = (X[0, :1], X[0, :1], X[:1, [0] * 4], np.array([-1]), X[0, :1])
    watch = sequential.Watch(0, NETWORK, 3)
    return [
        *tests, witness, compared, drift, result, measure, NETWORK, table, detector, change, one,
        ntk.Asymptotic(), ntk.Bound(), ntk.Full(), ntk.Normal(), ntk.Permutation(99), ntk.SGD(),
        ntk.KSampleResult(1.0, 0.5, matrix, matrix, matrix, 0.05, names=("a", "b"), sizes=(3, 4)),
        ntk.PilotNull(exact, params, jnp.asarray(X), numbers(), sizes=(5, 5)),
        ntk.Plan(table, ntk.power.curve.Curve(0.05, 0.2, 0.02), 0.8, (20, 20), 200),
        ntk.SideBySide({"a": compared}, {"a": drift}, (numbers(), numbers()), {"n": result}, 2),
        ntk.Trajectory(params, params, numbers(1), counts=(5,), network=NETWORK, features=(3,)),
        calibration.NullStatistics(numbers(), zero),
        calibration.Relabelling(numbers() > 1, numbers(), zero, 1, 2),
        changepoint.AlarmScore((3, None), 1), changepoint.Event(8, 30, 2.0, 1.0, 25, (2, 0)),
        changepoint.Contrast(numbers(), numbers(), **about), detector.state,
        changepoint.Explanation(zero, numbers(), numbers()),
        changepoint.Report(*[numbers()] * 5), changepoint.RunLengths(X[:, 0], X[:, 0], horizon=9),
        changepoint.Scan(
            numbers(), numbers(), zero, numbers(2), stride=4, reference=(0, 9), **about
        ),
        changepoint.score([5], [6]), edetector.init(0, X, NETWORK),
        changepoint.Segmentation((change,), 60, cut, 0.05, 0.95, X),
        sequential.AGRAPA(), sequential.ONS(), sequential.Exact(), sequential.Trained(),
        sequential.Ridge(), watch, watch.state, watch.state.report(),
        sequential.Wealth(X, 0.05, names=("a", "b", "c")),
        theory.SYMMETRIC, theory.SYMMETRIC.guarantee(900, balance=0.4, nu=0.1),
        theory.KernelMoments(zero, one, one, one, one),
        theory.LemmaConstants(zero, zero, zero, zero),
        theory.SGDDisplacement(X[:, 0], numbers(), numbers()),
        theory.WidthComparison(numbers(), jnp.ones((2, 3)), numbers(), widths=(4, 8)),
        kernels.Filtered(None, numbers(), numbers(), numbers(), times=(1.0,)),
        ntk.Explanation("ntk", 0.05, 99, (9, 9), ("a",), (1,), *per, ends, ends, plane),
        ntk.ToleranceResult(kernels.EstimatedMMD(zero + 1, zero + 1, zero + 1), 0.5, 0.05),
        ntk.Distance(
            kernels.EstimatedMMD(zero, zero + 1, zero + 1), level=0.05, kernel="k", n_x=9, n_y=9
        ),
        ntk.streaming.init(NETWORK, params, 3), ntk.binned.init(NETWORK, params, 3),
        ntk.binned.init(NETWORK, params, 3).x,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def shown():
    return [(one, repr(one)) for one in objects()]


def test_there_is_one_of_every_class(shown):
    """But for those that are shown as all records are."""
    made = {cls for one, _ in shown for cls in type(one).__mro__}
    classes = {one for one in SURFACE.values() if inspect.isclass(one)} - NONE
    own = {cls for cls in classes if cls.__repr__ is not records.shown}
    assert not own - made, "add an object of it above"


def test_no_arrays_and_no_addresses(shown):
    for one, text in shown:
        said = f"{type(one).__name__}: {text}"
        assert " at 0x" not in text and "array(" not in text.lower(), said
        assert "[[" not in text and "<bound method" not in text, said
        assert len(text) < 1500 and text.count("\n") < 15, said


def test_what_is_as_by_default_is_not_told():
    assert repr(ntk.Hotelling()) == "Hotelling()"
    assert repr(ntk.Hotelling(shrinkage=0.1, level=0.01)) == "Hotelling(level=0.01, shrinkage=0.1)"
    assert repr(ntk.SGD(batch_size=None)) == "SGD(batch_size=None)"


def test_values_in_few_words():
    assert brief(X) == "float32[60,3]" and brief(np.float32(0.5)) == "0.5"
    assert brief(jnp.zeros((), bool)) == "False" and brief(jax.random.key(0)) == "key"
    assert brief({"a": (X, X)}) == "<2 leaves>" and brief((1, 2.5)) == "(1, 2.5)"
    assert brief(len) == "len" and brief("x") == "'x'"
    assert jax.jit(lambda x: brief(x) == "float32[60,3]" and x)(X).shape == X.shape
