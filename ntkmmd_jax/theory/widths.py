"""Least squares, trained against exact, as the width m grows: the kernel moves less and less.

    error(m, t) = |h_t^trained − h_t^exact| / |h_t^exact|   over points that were not trained on.

Trained is full-batch gradient descent of k steps of length η = t/k. A mode of rate λ has then come
to 1 − (1 − ηλ)^k, which differs from 1 − exp(−tλ) by at most 1/(3k) of itself while ηλ ≤ 1,
whatever λ and t: so many steps resolve the flow at every time, and what is left is the kernel's
movement.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_samples, check_finite
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import working
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.kernels import empirical_ntk
from ntkmmd_jax.measure import SignedMeasure, signed_measure
from ntkmmd_jax.networks import Network, Params, as_network, mlp
from ntkmmd_jax.theory.convergence import fitted_slope, training_times
from ntkmmd_jax.theory.finite_time import fastest_rate, filtered_measure
from ntkmmd_jax.training import SGD, trained_witness
from ntkmmd_jax.witness import exact_witness


@record
class WidthComparison:
    """Relative errors of the linearised h_t, for every width and training time."""

    times: jax.Array  # (k,) t
    relative_error: jax.Array  # (widths, k)
    orders: jax.Array  # (k,) slope of log error against log m
    widths: tuple[int, ...] = static()  # m

    def __repr__(self) -> str:
        head = [f"{'m':>8}", *(f"t = {t:<6.0e}" for t in self.times.tolist())]
        rows = [
            [f"{m:8}", *(f"{error:<10.2e}" for error in errors)]
            for m, errors in zip(self.widths, self.relative_error.tolist(), strict=True)
        ]
        last = [f"{'order':>8}", *(f"{order:<10.2f}" for order in self.orders.tolist())]
        return "\n".join("  ".join(cells).rstrip() for cells in [head, *rows, last])

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain numbers, ready for JSON."""
        names = ("times", "widths", "relative_error", "orders")
        return {name: np.asarray(getattr(self, name)).tolist() for name in names}

    def plot(self, ax: Any = None) -> Any:
        """Draw the relative error over the width, a line for each time; returns the axes."""
        from ntkmmd_jax import plotting

        return plotting.widths(self, ax=ax)


def compare_widths(
    key: Any,
    x: Any,
    y: Any,
    *,
    network: Callable[[int], Any] = mlp,
    widths: Sequence[int] = (64, 256, 1024, 4096),
    times: Any = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2),
    steps: int = 1000,
) -> WidthComparison:
    """Train by least squares at several widths and times, and compare with the exact dynamics.

    Both begin at the same θ0 and learn from the first half of x and of y; h_t is compared on the
    other halves.

    Args:
        key: A JAX key or an int seed, for θ0, a draw for each width.
        x: Sample of p, array-like, shape (n_X, ...).
        y: Sample of q, array-like, shape (n_Y, ...).
        network: Gives the network of a width; by default the paper's.
        widths: m, one or more.
        times: Training times t, all positive.
        steps: Of gradient descent, for each time: t/steps must not exceed 1/λ_1.

    Example:
        >>> x, y = jax.random.normal(jax.random.key(0), (2, 12, 3))
        >>> found = compare_widths(0, x, y, widths=(16, 1024), times=(0.1, 1.0), steps=50)
        >>> bool((found.relative_error[1] < found.relative_error[0]).all())
        True
    """
    x, y = as_samples(x, y)
    check_finite(x, "x")
    check_finite(y, "y")
    if min(len(x), len(y)) < 2:
        raise ValueError(f"each sample needs 2 points, to halve it; got {len(x)} and {len(y)}")
    whole("steps", steps)
    for m in widths:
        whole("each of widths", m)
    if not len(widths):
        raise ValueError("widths must be one or more; got none")
    times, key = training_times(times), as_key(key)
    half_x, half_y = len(x) // 2, len(y) // 2
    measure = signed_measure(x[:half_x], y[:half_y])
    points = jnp.concatenate([x[half_x:], y[half_y:]])
    errors = []
    with working("compare_widths"):
        for m in widths:
            of_width = as_network(network(int(m)))
            params = of_width.init(jax.random.fold_in(key, m), points[:1])
            found, rate = _errors(params, measure, points, times, of_width, steps)
            _check_steps(steps, float(rate * times.max()))
            errors.append(found)
    errors = jnp.stack(errors)
    slope = jax.vmap(fitted_slope, (None, 1))
    orders = slope(jnp.asarray(widths, errors.dtype), errors)
    return WidthComparison(times, errors, orders, widths=tuple(int(m) for m in widths))


def _check_steps(steps: int, longest: float) -> None:
    """Refuse steps that do not resolve the flow for t λ_1."""
    if not longest <= steps:
        raise ValueError(
            f"steps = {steps} of gradient descent do not resolve the longest time, which is "
            f"{longest:.3g} in units of 1/λ_1: take at least {math.ceil(longest)}, or shorter times"
        )


@jit(static_argnums=(4, 5))
def _errors(
    params: Params,
    measure: SignedMeasure,
    points: jax.Array,
    times: jax.Array,
    network: Network,
    steps: int,
) -> tuple[jax.Array, jax.Array]:
    """The relative error at every time, and λ_1."""
    kernel = empirical_ntk(network, params, measure.points)
    unused = jax.random.key(0)  # nothing is shuffled

    def error(time: jax.Array) -> jax.Array:
        sgd = SGD(time / steps, batch_size=None, epochs=steps, shuffle=False, loss="l2")
        trained = trained_witness(unused, network, params, measure, sgd)(points)
        filtered = filtered_measure(kernel, measure, time)
        exact = exact_witness(network, params, filtered)(points)
        return jnp.linalg.norm(trained - exact) / jnp.linalg.norm(exact)

    return jax.lax.map(error, times), fastest_rate(kernel, measure.weights)
