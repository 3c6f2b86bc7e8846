"""The neural tangent kernel K_0(x, x') = ⟨∇f(x; θ0), ∇f(x'; θ0)⟩, three ways.

Empirical, of any network, by neural-tangents; in closed form for the two-layer network; and at
infinite width. Only the trained leaves of θ count. At a trained time t it is the same function at
θ(t): `empirical_ntk(network, witness.params_at(t), x)`.
"""

import warnings
from collections.abc import Callable
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


def infinite_ntk(network: Network, x1: Any, x2: Any = None, *, degree: int = 25) -> jax.Array:
    """The kernel of an `mlp` whose widths go to infinity, by nt.stax, shape (n1, n2).

    relu, erf and sin are analytic; other activations go through Gauss–Hermite quadrature and
    should be smooth. The limit exists with initialization="ntk", and for the paper's
    initialisation with one hidden layer and a frozen readout; elsewhere K grows with the width.

    Args:
        network: The network; its widths do not matter.
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...); `x1` unless given.
        degree: Nodes of the quadrature in each variable.
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
    stax = _neural_tangents.load().stax
    first = x1.shape[1] ** 0.5 if module.initialization == "paper" else 1.0
    kernel = stax.Dense(1, W_std=first, b_std=None)[2](x1, x2)
    nonlinear = _stax_activation(stax, module.activation, degree)[2]
    hidden = stax.Dense(1, W_std=1.0, b_std=None)[2]
    for i in range(len(module.widths)):
        kernel = hidden(kernel) if i else kernel
        kernel = kernel.replace(ntk=kernel.ntk + 1)  # the bias: 0 at first, but trained
        kernel = nonlinear(kernel)
    return kernel.ntk if frozen else kernel.ntk + kernel.nngp


def _stax_activation(stax: Any, activation: Any, degree: int) -> tuple:
    analytic = {"relu": stax.Relu, "erf": stax.Erf, "sin": stax.Sin}
    if activation in analytic:
        return analytic[activation]()
    return stax.ElementwiseNumerical(activation_fn(activation), deg=degree)
