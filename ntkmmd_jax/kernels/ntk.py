"""The neural tangent kernel K_0(x, x') = ⟨∇f(x; θ0), ∇f(x'; θ0)⟩, three ways.

The kernel is that of Jacot, Gabriel & Hongler (2018). Empirical, of any network, by neural-tangents
(Novak et al. 2020); in closed form for the two-layer network; and at infinite width. Only the
trained leaves of θ count. At a trained time t it is the same function at θ(t):
`empirical_ntk(network, witness.params_at(t), x)`.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib import neural_tangents as _neural_tangents
from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.points import as_points
from ntkmmd_jax._lib.precision import jit, pinned
from ntkmmd_jax._lib.telling import warn
from ntkmmd_jax._lib.tiles import tiled
from ntkmmd_jax.networks import Network, Params, as_network
from ntkmmd_jax.networks.activations import activation_fn
from ntkmmd_jax.networks.shipped import mlp_behind

JACOBIAN, VECTOR_PRODUCTS, STRUCTURED, CLOSED_FORM = 1, 2, 3, 4
_IMPLEMENTATIONS = {
    "jacobian": JACOBIAN,
    "vector-products": VECTOR_PRODUCTS,
    "structured": STRUCTURED,
    "closed-form": CLOSED_FORM,
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
    """K(x1, x2) of a network at the parameters given, shape (n1, n2).

    Args:
        network: A network of ours or a bare `(init, apply)` pair.
        params: Where to take the kernel: θ0, or θ(t) for the kernel at a trained time.
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...); `x1` unless given.
        implementation: By neural-tangents, "jacobian" (1: contraction of Jacobians),
            "vector-products" (2) or "structured" (3: structured derivatives); or "closed-form" (4:
            `two_layer_ntk`). By default 4 for an `mlp` with one hidden layer; elsewhere 3, the
            fastest of the rest by far; where the network has an operation that 3 does not know,
            1, with a warning that says so.
        batch_size: Rows and columns to compute at once; memory beyond the result grows with its
            square and never with n. By default 128 for 1, which holds Jacobians, and else 1024.

    Example:
        >>> from ntkmmd_jax.networks import mlp
        >>> network, x = mlp(8), jnp.ones((4, 2))
        >>> empirical_ntk(network, network.init(jax.random.key(0), x), x).shape
        (4, 4)
    """
    network = as_network(network)
    x1 = as_points(x1, "x1")
    x2 = x1 if x2 is None else as_points(x2, "x2")
    if x1.shape[1:] != x2.shape[1:]:
        raise ValueError(f"x1 and x2 have different features: {x1.shape[1:]} and {x2.shape[1:]}")
    if batch_size is not None:
        whole("batch_size", batch_size)
    if implementation is None:
        number = _fastest(network, params, x1)
    elif isinstance(implementation, str):
        number = _IMPLEMENTATIONS.get(implementation, 0)
    else:
        number = implementation
    if number not in _IMPLEMENTATIONS.values():
        known = ", ".join(f"{name!r} ({value})" for name, value in _IMPLEMENTATIONS.items())
        raise ValueError(f"unknown implementation {implementation!r}; use one of {known}")
    return _empirical_ntk(params, x1, x2, network, number, batch_size)


@jit(static_argnums=(3, 4, 5))
def _empirical_ntk(
    params: Params,
    x1: jax.Array,
    x2: jax.Array,
    network: Network,
    implementation: int,
    batch_size: int | None,
) -> jax.Array:
    size = batch_size or (128 if implementation == JACOBIAN else 1024)
    if implementation == CLOSED_FORM:
        return _tile_by_tile(partial(two_layer_ntk, network, params), x1, x2, size)
    kernel, theta = _kernel_fn(network, params, implementation)
    with _neural_tangents.quiet():
        return _tile_by_tile(lambda a, b: kernel(a, b, theta), x1, x2, size)


def _kernel_fn(network: Network, params: Params, implementation: int) -> tuple[Callable, Params]:
    f, theta = network.trainable(params)
    kernel = _neural_tangents.load().empirical_ntk_fn(
        lambda theta, x: f(theta, x)[:, None],
        trace_axes=(-1,),
        vmap_axes=0,  # no sample sees another
        implementation=implementation,
    )
    return kernel, theta


def _fastest(network: Network, params: Params, x: jax.Array) -> int:
    """The implementation to take; warn if it is the slow one."""
    if _is_two_layer(network):
        return CLOSED_FORM
    point = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
    leaves, tree = jax.tree.flatten((params, point))
    if unknown := _unstructured(network, tree, tuple(map(_abstract, leaves))):
        warn(
            f"structured derivatives cannot handle this network ({unknown}); contracting Jacobians "
            "instead, which is slower",
        )
        return JACOBIAN
    return STRUCTURED


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    dtype = leaf.dtype if hasattr(leaf, "dtype") else jnp.result_type(leaf)
    return jax.ShapeDtypeStruct(jnp.shape(leaf), dtype)


@lru_cache(maxsize=64)  # it traces the network; bounded, since it keeps networks alive
def _unstructured(network: Network, tree: Any, leaves: tuple) -> str:
    """What structured derivatives do not know of the network, or "" if they know all of it."""

    def kernel_at(params: Params, x: jax.Array) -> jax.Array:
        kernel, theta = _kernel_fn(network, params, STRUCTURED)
        return kernel(x, x, theta)

    try:
        with _neural_tangents.quiet():
            jax.eval_shape(kernel_at, *jax.tree.unflatten(tree, leaves))
    except NotImplementedError as error:
        return str(error) or "an operation without a rule"
    return ""


def _tile_by_tile(kernel: Callable, x1: jax.Array, x2: jax.Array, size: int) -> jax.Array:
    """K(x1, x2), tile by tile, of at most `size` rows and columns."""
    n1, n2 = len(x1), len(x2)
    if max(n1, n2) <= size:
        return kernel(x1, x2)
    rows, columns = (tiled(x, min(size, len(x))) for x in (x1, x2))
    tiles = jax.lax.map(
        lambda a: jax.lax.map(lambda b: kernel(a, b), columns), rows
    )  # (k1, k2, s1, s2)
    return tiles.swapaxes(1, 2).reshape(rows.shape[0] * rows.shape[1], -1)[:n1, :n2]


def two_layer_ntk(network: Network, params: Params, x1: Any, x2: Any = None) -> jax.Array:
    """The closed form for f(x) = Σ_k a_k σ(w_k·x + b_k), any activation, shape (n1, n2).

    K(x, x') = (1 + x·x') Σ_k a_k² σ'(z_k) σ'(z'_k)  [ + Σ_k σ(z_k) σ(z'_k) if a is trained ],
    with z_k = w_k·x + b_k. With NTK scaling the factors 1/d and 1/m of the layers appear.

    Args:
        network: An `mlp` with one hidden layer.
        params: Its parameters.
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...); `x1` unless given.

    Example:
        >>> from ntkmmd_jax.networks import mlp
        >>> network, x = mlp(8), jnp.ones((4, 2))
        >>> two_layer_ntk(network, network.init(jax.random.key(0), x), x).shape
        (4, 4)
    """
    if not _is_two_layer(network):
        raise ValueError(f"the closed form is for mlp with one hidden layer; got {network}")
    x1 = as_points(x1, "x1")
    return _two_layer_ntk(network, params, x1, x1 if x2 is None else as_points(x2, "x2"))


@pinned
def _two_layer_ntk(network: Network, params: Params, x1: jax.Array, x2: jax.Array) -> jax.Array:
    layer, a = params["params"]["layer_1"], params["params"]["readout"]["kernel"]
    d, m = layer["kernel"].shape
    c, r = (d**-0.5, m**-0.5) if network.module.initialization == "ntk" else (1.0, 1.0)
    sigma = activation_fn(network.module.activation)

    def parts(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """x, a_k σ'(z_k) and σ(z_k), with the factors of the layers."""
        x = c * x.reshape(len(x), -1)
        z = x @ layer["kernel"] + layer["bias"]
        value, slope = jax.jvp(sigma, (z,), (jnp.ones_like(z),))
        return x, r * a * slope, r * value

    (x1, slope1, value1), (x2, slope2, value2) = parts(x1), parts(x2)
    kernel = (1 + x1 @ x2.T) * (slope1 @ slope2.T)
    return kernel if "readout" in network.frozen else kernel + value1 @ value2.T


def _is_two_layer(network: Network) -> bool:
    module = mlp_behind(network)
    known = module is not None and len(module.widths) == 1
    return known and set(network.frozen) <= {"readout"}


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

    Example:
        >>> from ntkmmd_jax.networks import mlp
        >>> network, x = mlp(8, activation="relu"), jnp.ones((4, 2))
        >>> infinite_ntk(network, x).shape
        (4, 4)
    """
    module = mlp_behind(network)
    if module is None or set(network.frozen) - {"readout"}:
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
        return _tile_by_tile(lambda a, b: _infinite(module, a, b, degree, frozen), x1, x2, size)


@pinned
def _infinite(module: Any, x1: jax.Array, x2: jax.Array, degree: int, frozen: bool) -> jax.Array:
    stax = _neural_tangents.load().stax
    first = x1.shape[1] ** 0.5 if module.initialization == "paper" else 1.0
    kernel = stax.Dense(1, W_std=first, b_std=None)[2](x1, x2)
    sigma = module.activation
    if isinstance(sigma, str) and sigma in _ANALYTIC:
        nonlinear = getattr(stax, _ANALYTIC[sigma])()[2]
    else:
        nonlinear = stax.ElementwiseNumerical(activation_fn(sigma), deg=degree)[2]
    hidden = stax.Dense(1, W_std=1.0, b_std=None)[2]
    for i in range(len(module.widths)):
        kernel = hidden(kernel) if i else kernel
        kernel = kernel.replace(ntk=kernel.ntk + 1)  # the bias: 0 at first, but trained
        kernel = nonlinear(kernel)
    return kernel.ntk if frozen else kernel.ntk + kernel.nngp
