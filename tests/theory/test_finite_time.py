"""Least squares at a finite time, linearised: against eigenvalues, training, and both limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import theory
from ntkmmd_jax.measure import SignedMeasure, signed_measure
from ntkmmd_jax.networks import Network

NETWORK = ntk.mlp(16)
X, Y = (
    jnp.float32(np.random.default_rng(k).normal(k / 2, 1, size=(n, 3)))
    for k, n in ((0, 14), (1, 9))
)
MEASURE, NEW = signed_measure(X, Y), X[::-1] + 0.1
PARAMS = jax.jit(NETWORK.init)(jax.random.key(0), X)


def by_eigenvalues(time):
    """h_t at new points in float64: modes of W^½ K W^½, each come to 1 − exp(−tλ)."""
    points = jnp.concatenate([MEASURE.points, NEW])
    whole = np.asarray(ntk.empirical_ntk(NETWORK, PARAMS, points), np.float64)
    weights, n = np.asarray(MEASURE.weights, np.float64), len(MEASURE.weights)
    root, kernel = np.sqrt(np.abs(weights)), whole[:n, :n]
    values, vectors = np.linalg.eigh(root[:, None] * kernel * root)
    reached = -np.expm1(-time * values) / values
    modes = vectors.T @ (root * np.sign(weights))
    return whole[n:, :n] @ (root * (vectors @ (reached * modes)))


@pytest.mark.parametrize("time", [1e-3, 0.3, 20.0, 1e3])
def test_modes_are_filtered(time):
    found = time * theory.finite_time_witness(NETWORK, PARAMS, MEASURE, time)(NEW)
    expected = by_eigenvalues(time)
    # Small eigenvalues come with the rounding of float32, 1e-7 λ_1, which t λ_1 multiplies.
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error < 1e-5 + 1e-6 * time


def test_short_times_are_the_exact_witness():
    exact = ntk.exact_witness(NETWORK, PARAMS, MEASURE)(NEW)
    short = theory.finite_time_witness(NETWORK, PARAMS, MEASURE, 1e-6)(NEW)
    np.testing.assert_allclose(short, exact, rtol=1e-5, atol=1e-6)
    linear = theory.finite_time_witness(NETWORK, PARAMS, MEASURE, 5.0, loss="linear")(NEW)
    np.testing.assert_array_equal(linear, exact)


def test_padding_has_no_say():
    padded = SignedMeasure(
        jnp.concatenate([MEASURE.points, NEW]), jnp.pad(MEASURE.weights, (0, len(NEW)))
    )
    found, same = (
        theory.finite_time_witness(NETWORK, PARAMS, one, 20.0)(NEW) for one in (MEASURE, padded)
    )
    np.testing.assert_allclose(same, found, rtol=2e-4, atol=1e-6)


def test_what_has_no_closed_form():
    with pytest.raises(ValueError, match="logistic loss has no closed form"):
        theory.finite_time_witness(NETWORK, PARAMS, MEASURE, 1.0, loss="logistic")
    with pytest.raises(ValueError, match="unknown loss"):
        theory.finite_time_witness(NETWORK, PARAMS, MEASURE, 1.0, loss="hinge")
    with pytest.raises(ValueError, match="time must be positive"):
        theory.finite_time_witness(NETWORK, PARAMS, MEASURE, 0.0)


def test_steps_follow_the_flow():
    """Of a linear network the kernel stands still: what is left is at most 1/(3k) of k steps."""
    linear = Network(lambda key, x: jnp.zeros(3), lambda theta, x: x @ theta)
    found = theory.compare_widths(
        0, X, Y, network=lambda m: linear, widths=(1,), times=(0.01, 0.3, 1.0, 3.0), steps=40
    )
    assert (np.asarray(found.relative_error) < 1 / (3 * 40)).all()
    assert found.relative_error[0, 2] > 1e-3  # a bound that is nearly reached


def test_errors_fall_with_the_width(tmp_path):
    """A fall of 64 in width by more than √64 / 2, at every time; in theory by √64 or more."""
    times = (1e-2, 1.0, 20.0)
    found = theory.compare_widths(0, X, Y, widths=(16, 1024), times=times, steps=100)
    few, many = np.asarray(found.relative_error)
    assert (few / many > 4).all() and (np.asarray(found.orders) < -0.3).all()
    assert "order" in repr(found) and repr(found).count("\n") == 3
    assert set(found.to_dict()) == {"times", "widths", "relative_error", "orders"}
    found.plot().figure.savefig(tmp_path / "w.png")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 3, "times": [100.0], "widths": (16,)}, "steps = 3 of gradient descent do not"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"widths": ()}, "one or more"),
        ({"widths": (0,)}, "each of widths must be"),
        ({"times": [0.0]}, "times must be positive"),
    ],
)
def test_what_cannot_be_compared(options, message):
    with pytest.raises(ValueError, match=message):
        theory.compare_widths(0, X, Y, **options)


def test_the_test_of_a_short_time_is_the_exact_one():
    """The same p-values as `NTKMMD`, calibrated by either bootstrap; another test when long."""
    for word in ("test", "full"):
        options = {"network": NETWORK, "calibration": word, "n_permutations": 39}
        exact = ntk.NTKMMD(**options)(1, X, Y)
        short, long = (ntk.FiniteTimeNTK(time=t, **options)(1, X, Y) for t in (1e-6, 50.0))
        assert short.statistic == pytest.approx(float(exact.statistic), rel=1e-4)
        assert float(short.pvalue) == float(exact.pvalue)
        assert abs(float(50 * long.statistic) - float(exact.statistic)) > 1e-2
    with pytest.raises(ValueError, match="time must be positive"):
        ntk.FiniteTimeNTK(NETWORK, -1.0)
