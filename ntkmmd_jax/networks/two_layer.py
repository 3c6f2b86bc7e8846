"""The two-layer network in its pre-activations: the same SGD and the same witness, all in GEMMs.

    f(x) = Σ_k a_k σ(u_k(x)),   u(x) = x W + b,   with only W and b trained.

A step on the samples z_j moves W by Σ_j z_jᵀ c_j, where c_j = α w_j a σ'(u(z_j)), so that within a
block of steps, from the W and b at its start,

    u(z_i) = z_i W + b + Σ_{earlier j} (z_i·z_j + 1) c_j:

solved block by block and row by row, like a triangular system. `training.trajectory`, which takes
any network, passes over W at every step, and so moves `_OUTER` times as much memory.

With momentum μ, c_j counts S_{i−j} = 1 + μ + … + μ^{i−j−1} times after i − j steps, and the last
move before the block, V, adds z_i V (μ + … + μ^i). A first block that is not full begins with
visits at weight 0, before anything moves.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.quotient import gauss_legendre, has_kinks, quotient
from ntkmmd_jax.measure import SignedMeasure, Visits
from ntkmmd_jax.networks.activations import activation_fn
from ntkmmd_jax.networks.network import Network, Params
from ntkmmd_jax.networks.shipped import mlp_behind

_OUTER, _INNER = 50, 10  # rows between two updates of W, and of u by a product


def applies(network: Network) -> bool:
    """Whether a network is f(x) = Σ_k a_k σ(w_k·x + b_k) with a frozen readout."""
    if network.frozen != ("readout",):
        return False
    module = mlp_behind(network)
    return module is not None and len(module.widths) == 1


class _Units:
    """The parts of the network at θ0: u(x) = x̃ W + b with scaled points x̃, and f = Σ a σ(u)."""

    def __init__(self, network: Network, params: Params) -> None:
        module, self.layer = network.module, params["params"]["layer_1"]
        self.sigma = activation_fn(module.activation)
        fan_in, width = self.layer["kernel"].shape
        ntk = module.initialization == "ntk"
        self.scale = fan_in**-0.5 if ntk else 1.0
        self.readout = params["params"]["readout"]["kernel"] * (width**-0.5 if ntk else 1.0)

    def points(self, x: jax.Array) -> jax.Array:
        return self.scale * x.reshape(len(x), -1)

    def slope(self, u: jax.Array) -> jax.Array:
        """σ'(u)."""
        return jax.jvp(self.sigma, (u,), (jnp.ones_like(u),))[1]


def scores(
    network: Network, params: Params, velocity: Params, time: Any, nodes: int, x: jax.Array
) -> jax.Array:
    """(f(x; θ0 + t v) − f(x; θ0)) / t = Σ_k a_k (σ(u_k + t du_k) − σ(u_k)) / t: two GEMMs."""
    units = _Units(network, params)
    moving = velocity["params"]["layer_1"]
    z = units.points(x)
    u = z @ units.layer["kernel"] + units.layer["bias"]
    du = z @ moving["kernel"] + moving["bias"]
    if nodes > 1 and has_kinks(units.sigma, u):
        return quotient(units.sigma, u, du, time) @ units.readout
    slope = sum(mass * units.slope(u + s * time * du) for s, mass in gauss_legendre(nodes))
    return (slope * du) @ units.readout


def factors(network: Network, params: Params, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(x̃, 1) and a σ'(u), (n, d + 1) and (n, m): ∇f is their outer product, K that of two Grams."""
    units = _Units(network, params)
    z = units.points(x)
    u = z @ units.layer["kernel"] + units.layer["bias"]
    return _with_one(z), units.readout * units.slope(u)


def displacement(
    network: Network,
    params: Params,
    measure: SignedMeasure,
    batches: Visits,
    rate: Any,
    momentum: float = 0.0,
) -> Params:
    """θ − θ0 after SGD with step `rate` over batches of visits to the measure's points."""
    units = _Units(network, params)
    z = _with_one(units.points(measure.points))
    w = jnp.concatenate([units.layer["kernel"], units.layer["bias"][None]])
    count, size = batches.weights.shape
    inner = min(count, max(1, _INNER // size))
    outer = -(-count // max(1, _OUTER // size))
    steps = -(-count // (outer * inner)) * inner  # of a block: as few as that many blocks take
    blocks = batches.grouped(steps)
    step = np.repeat(np.arange(steps), size)
    moves = partial(_moves, momentum, w.dtype)

    def block_step(moved: tuple, visits: Visits) -> tuple[tuple, None]:
        d, last = moved  # θ − θ0, and with momentum the last move
        zb, pull = z[visits.indices], rate * visits.weights[:, None] * units.readout
        u, gram = zb @ (w + d), zb @ zb.T
        if momentum:
            u += momentum * moves(step)[:, None] * (zb @ last)
            gram *= moves(np.maximum(step[:, None] - step, 0))
        c = _solve(u, gram, pull, units.slope, inner * size, size)
        if momentum:
            kept = jnp.asarray(momentum ** (steps - 1 - step), w.dtype)
            d += momentum * moves(steps) * last
            last = momentum**steps * last + zb.T @ (kept[:, None] * c)
            c *= moves(steps - step)[:, None]
        return (d + zb.T @ c, last), None

    zero = jnp.zeros_like(w)
    (moved, _), _ = jax.lax.scan(block_step, (zero, zero if momentum else None), blocks)
    layers = {"layer_1": {"bias": moved[-1], "kernel": moved[:-1]}, "readout": {"kernel": None}}
    return {"params": layers}


def _with_one(z: jax.Array) -> jax.Array:
    """(z, 1): the bias is one more row of W."""
    return jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1)


def _moves(momentum: float, dtype: Any, steps: Any) -> jax.Array:
    """S_r = 1 + μ + … + μ^{r−1}: what a gradient has moved θ by after r steps."""
    return jnp.asarray((1 - momentum ** np.asarray(steps)) / (1 - momentum), dtype)


def _solve(
    u: jax.Array, gram: jax.Array, pull: jax.Array, slope: Callable, rows: int, size: int
) -> jax.Array:
    """The c_j of a block of steps, in blocks within it of so many rows.

    Args:
        u: Pre-activations with the weights as they were before the block, (n, m).
        gram: z_i·z_j + 1, (n, n).
        pull: α w_j a, (n, m).
        slope: σ'.
        rows: Of a block within.
        size: Rows of a step.
    """

    def solved(c: jax.Array, block: tuple) -> tuple[jax.Array, None]:
        first, u, gram, pull = block
        among = jax.lax.dynamic_slice_in_dim(gram, first, rows, axis=1)
        new = _in_turn(u + gram @ c, among, pull, slope, size)  # c is still 0 from these on
        return jax.lax.dynamic_update_slice_in_dim(c, new, first, axis=0), None

    blocks = (leaf.reshape(-1, rows, leaf.shape[1]) for leaf in (u, gram, pull))
    return jax.lax.scan(solved, jnp.zeros_like(u), (jnp.arange(0, len(u), rows), *blocks))[0]


def _in_turn(
    u: jax.Array, gram: jax.Array, pull: jax.Array, slope: Callable, size: int
) -> jax.Array:
    """The same of steps one after the other."""
    c = []
    for first in range(0, len(u), size):
        rows = slice(first, first + size)
        u_rows = u[rows]
        for k, earlier in enumerate(c):
            cross = gram[rows, k * size : (k + 1) * size]
            # A single row is a sum of vectors, which fuses; a GEMM would not.
            u_rows += cross * earlier if size == 1 else cross @ earlier
        c.append(pull[rows] * slope(u_rows))
    return jnp.concatenate(c)
