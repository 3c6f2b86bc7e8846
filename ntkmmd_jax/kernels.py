"""The neural tangent kernel K_0(x, x') = ⟨∇f(x; θ0), ∇f(x'; θ0)⟩, three ways.

Empirical, of any network, by neural-tangents; in closed form for the two-layer network; and at
infinite width. Only the trained leaves of θ count. At a trained time t it is the same function at
θ(t): `empirical_ntk(network, witness.params_at(t), x)`. Beside it, the Gaussian kernel.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax import _neural_tangents
from ntkmmd_jax.layers import MLP, activation_fn
from ntkmmd_jax.measure import as_points
from ntkmmd_jax.networks import Network, Params, as_network

JACOBIAN, VECTOR_PRODUCTS, STRUCTURED = 1, 2, 3
_IMPLEMENTATIONS = {
    "jacobian": JACOBIAN,
    "vector-products": VECTOR_PRODUCTS,
    "structured": STRUCTURED,
}


_ANALYTIC = {"relu": "Relu", "erf": "Erf", "sin": "Sin"}  # their names in nt.stax


def empirical_ntk(
    network: Any,
    params: Params,
    x1: Any,
    x2: Any = None,
    *,
    implementation: str | int | None = None,
    batch_size: int | None = None,
) -> jax.Array:
    """K(x1, x2) of a network at the parameters given, shape (n1, n2), by neural-tangents.

    Args:
        network: A network of ours or a bare `(init, apply)` pair.
        params: Where to take the kernel: θ0, or θ(t) for the kernel at a trained time.
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...); `x1` unless given.
        implementation: "jacobian" (1: contraction of Jacobians), "vector-products" (2) or
            "structured" (3: structured derivatives). By default 3, the fastest by far; where the
            network has an operation it does not know, 1, with a warning that says so.
        batch_size: Rows and columns to compute at once; memory beyond the result grows with its
            square and never with n. By default 1024 for 3, and 128 for 1, which holds Jacobians.
    """
    network = as_network(network)
    x1 = as_points(x1, "x1")
    x2 = x1 if x2 is None else as_points(x2, "x2")
    if x1.shape[1:] != x2.shape[1:]:
        raise ValueError(f"x1 and x2 have different features: {x1.shape[1:]} and {x2.shape[1:]}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}")
    number = _IMPLEMENTATIONS.get(implementation, implementation)
    if number is None:
        number = STRUCTURED if _is_structured(network, params, x1) else JACOBIAN
    if number not in _IMPLEMENTATIONS.values():
        known = ", ".join(f"{name!r} ({value})" for name, value in _IMPLEMENTATIONS.items())
        raise ValueError(f"unknown implementation {implementation!r}; use one of {known}")
    return _empirical_ntk(params, x1, x2, network, number, batch_size)


@jax.jit(static_argnums=(3, 4, 5))
def _empirical_ntk(
    params: Params,
    x1: jax.Array,
    x2: jax.Array,
    network: Network,
    implementation: int,
    batch_size: int | None,
) -> jax.Array:
    kernel, theta = _kernel_fn(network, params, implementation)
    size = batch_size or (128 if implementation == JACOBIAN else 1024)
    with _neural_tangents.quiet():
        return _blocked(lambda a, b: kernel(a, b, theta), x1, x2, size)


def _kernel_fn(network: Network, params: Params, implementation: int) -> tuple[Callable, Params]:
    f, theta = network.trainable(params)
    kernel = _neural_tangents.load().empirical_ntk_fn(
        lambda theta, x: f(theta, x)[:, None],
        trace_axes=(-1,),
        vmap_axes=0,  # no sample sees another
        implementation=implementation,
    )
    return kernel, theta


def _is_structured(network: Network, params: Params, x: jax.Array) -> bool:
    """Whether structured derivatives know all of the network's operations."""
    kernel, theta = _kernel_fn(network, params, STRUCTURED)
    try:
        with _neural_tangents.quiet():
            jax.eval_shape(lambda theta, x: kernel(x, x, theta), theta, x[:1])
    except NotImplementedError as error:
        warnings.warn(
            f"structured derivatives cannot handle this network ({error}); contracting Jacobians "
            "instead, which is slower",
            stacklevel=3,
        )
        return False
    return True


def _blocked(kernel: Callable, x1: jax.Array, x2: jax.Array, size: int) -> jax.Array:
    """K(x1, x2), block by block; the last blocks are padded with repeated points."""
    n1, n2 = len(x1), len(x2)
    if max(n1, n2) <= size:
        return kernel(x1, x2)
    rows, columns = (_blocks(x, min(size, len(x))) for x in (x1, x2))
    blocks = jax.lax.map(
        lambda a: jax.lax.map(lambda b: kernel(a, b), columns), rows
    )  # (k1, k2, s1, s2)
    return blocks.swapaxes(1, 2).reshape(rows.shape[0] * rows.shape[1], -1)[:n1, :n2]


def _blocks(x: jax.Array, size: int) -> jax.Array:
    padded = jnp.concatenate([x, jnp.repeat(x[:1], -len(x) % size, axis=0)])
    return padded.reshape(-1, size, *x.shape[1:])


def two_layer_ntk(network: Network, params: Params, x1: Any, x2: Any = None) -> jax.Array:
    """The closed form for f(x) = Σ_k a_k σ(w_k·x + b_k), any activation, shape (n1, n2).

    K(x, x') = (1 + x·x') Σ_k a_k² σ'(z_k) σ'(z'_k)  [ + Σ_k σ(z_k) σ(z'_k) if a is trained ],
    with z_k = w_k·x + b_k. With NTK scaling the factors 1/d and 1/m of the layers appear.

    Args:
        network: An `mlp` with one hidden layer.
        params: Its parameters.
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...); `x1` unless given.
    """
    module = network.module
    if not isinstance(module, MLP) or len(module.widths) != 1 or set(network.frozen) - {"readout"}:
        raise ValueError(f"the closed form is for mlp with one hidden layer; got {network}")
    x1 = as_points(x1, "x1")
    x2 = x1 if x2 is None else as_points(x2, "x2")
    x1, x2 = (x.reshape(len(x), -1) for x in (x1, x2))
    w, b = params["params"]["layer_1"]["kernel"], params["params"]["layer_1"]["bias"]
    a = params["params"]["readout"]["kernel"]
    d, m = w.shape
    c, r = (d**-0.5, m**-0.5) if module.initialization == "ntk" else (1.0, 1.0)
    sigma = activation_fn(module.activation)
    slope = jax.vmap(jax.vmap(jax.grad(sigma)))
    z1, z2 = c * x1 @ w + b, c * x2 @ w + b
    kernel = (1 + c**2 * x1 @ x2.T) * ((r * a) ** 2 * slope(z1) @ slope(z2).T)
    if "readout" not in network.frozen:
        kernel += r**2 * sigma(z1) @ sigma(z2).T
    return kernel


def infinite_ntk(network: Network, x1: Any, x2: Any = None, *, degree: int = 100) -> jax.Array:
    """The kernel of an `mlp` whose widths go to infinity, by nt.stax, shape (n1, n2).

    relu, erf and sin are analytic; other activations go through Gauss–Hermite quadrature and
    should be smooth. The limit exists with initialization="ntk", and for the paper's
    initialisation with one hidden layer and a frozen readout; elsewhere K grows with the width.

    Args:
        network: The network; its widths do not matter.
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...); `x1` unless given.
        degree: Nodes of the quadrature in each variable; work and memory grow with its square.
    """
    module = network.module
    if not isinstance(module, MLP) or set(network.frozen) - {"readout"}:
        raise ValueError(f"the infinite-width kernel is for mlp; got {network}")
    frozen = "readout" in network.frozen
    if module.initialization != "ntk" and not (
        module.initialization == "paper" and len(module.widths) == 1 and frozen
    ):
        raise ValueError(
            f"the kernel grows with the width for {network}: use initialization='ntk', or the "
            "paper's with one hidden layer and a frozen readout"
        )
    x1 = as_points(x1, "x1")
    x2 = x1 if x2 is None else as_points(x2, "x2")
    x1, x2 = (x.reshape(len(x), -1) for x in (x1, x2))
    size = 1024 if module.activation in _ANALYTIC else 16  # the quadrature is a grid per pair
    with _neural_tangents.quiet():
        return _blocked(lambda a, b: _infinite(module, a, b, degree, frozen), x1, x2, size)


def _infinite(module: MLP, x1: jax.Array, x2: jax.Array, degree: int, frozen: bool) -> jax.Array:
    stax = _neural_tangents.load().stax
    first = x1.shape[1] ** 0.5 if module.initialization == "paper" else 1.0
    kernel = stax.Dense(1, W_std=first, b_std=None)[2](x1, x2)
    if module.activation in _ANALYTIC:
        nonlinear = getattr(stax, _ANALYTIC[module.activation])()[2]
    else:
        nonlinear = stax.ElementwiseNumerical(activation_fn(module.activation), deg=degree)[2]
    hidden = stax.Dense(1, W_std=1.0, b_std=None)[2]
    for i in range(len(module.widths)):
        kernel = hidden(kernel) if i else kernel
        kernel = kernel.replace(ntk=kernel.ntk + 1)  # the bias: 0 at first, but trained
        kernel = nonlinear(kernel)
    return kernel.ntk if frozen else kernel.ntk + kernel.nngp


def gaussian_kernel(x1: Any, x2: Any, bandwidth: Any) -> jax.Array:
    """k(x, x') = exp(−|x − x'|² / 2σ²), shape (n1, n2).

    Args:
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...).
        bandwidth: σ, or several of shape (k,): the mean of their kernels.
    """
    x1, x2 = as_points(x1, "x1"), as_points(x2, "x2")
    return gaussian_profile(squared_distances(x1, x2), bandwidth)


def gaussian_profile(squared: jax.Array, bandwidth: Any) -> jax.Array:
    """exp(−r² / 2σ²) of squared distances r²; the mean over several σ of shape (k,)."""
    sigmas = jnp.atleast_1d(jnp.asarray(bandwidth, squared.dtype))
    return sum(jnp.exp(-0.5 * squared / sigma**2) for sigma in sigmas) / len(sigmas)


def squared_distances(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """|x − x'|² = |x|² + |x'|² − 2 x·x', shape (n1, n2): one matrix product."""
    x1, x2 = (x.reshape(len(x), -1) for x in (x1, x2))
    centre = x2.mean(0)  # distances do not change, and less cancels
    x1, x2 = x1 - centre, x2 - centre
    norms1, norms2 = jnp.sum(x1**2, axis=1), jnp.sum(x2**2, axis=1)
    product = jnp.matmul(x1, x2.T, precision="highest")
    return jnp.maximum(norms1[:, None] + norms2 - 2 * product, 0)


def median_distance(points: jax.Array) -> jax.Array:
    """The median Euclidean distance of the n(n−1)/2 pairs of points (n, ...), a scalar.

    The float of rank k is found by bisection over the bits of a float, which order as the floats
    do: a count per bit, where a sort takes fifty times as long.
    """
    squared = squared_distances(points, points)
    n = len(points)
    i, j = jnp.arange(n)[:, None], jnp.arange(n)
    # Every pair once: the upper rows, each filled up with the row that mirrors it.
    once = (j > i) | ((j < i) & (2 * i != n - 1))
    pairs = jnp.where(once, jnp.where(j > i, squared, squared[::-1, ::-1]), jnp.inf)
    pairs = pairs[: (n + 1) // 2]
    pick = (n * (n - 1) // 2 - 1) // 2, n * (n - 1) // 4  # the middle one, or the middle two
    low = _ranked(pairs, pick[0])
    above = jnp.min(jnp.where(pairs > low, pairs, jnp.inf))
    high = jnp.where(_count_up_to(pairs, low) > pick[1], low, above)
    return (jnp.sqrt(low) + jnp.sqrt(high)) / 2


def median_bandwidth(points: jax.Array) -> jax.Array:
    """The median distance of the points, and never 0.

    Where more than half of the pairs coincide it is their root mean square distance; where all
    do, 1, since then any scale is as good.
    """
    median = median_distance(points)
    spread = jnp.sum((points - points.mean(0)) ** 2)
    median = jnp.where(median == 0, jnp.sqrt(2 * spread / (len(points) - 1)), median)
    return jnp.where(median == 0, 1, median)


def _ranked(values: jax.Array, rank: int) -> jax.Array:
    """The value ≥ 0 that has `rank` others before it in order."""
    bits = jnp.finfo(values.dtype).bits
    integer = jnp.dtype(f"int{bits}")
    as_float = partial(jax.lax.bitcast_convert_type, new_dtype=values.dtype)

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        middle = low + (high - low) // 2
        enough = _count_up_to(values, as_float(middle)) > rank
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    infinity = jax.lax.bitcast_convert_type(jnp.asarray(jnp.inf, values.dtype), integer)
    start = (jnp.zeros((), integer), infinity)
    return as_float(jax.lax.fori_loop(0, bits - 1, halve, start)[1])


def _count_up_to(values: jax.Array, limit: jax.Array) -> jax.Array:
    rows = jnp.sum((values <= limit).astype(values.dtype), axis=1)  # floats sum faster
    return jnp.sum(rows.astype(int))
