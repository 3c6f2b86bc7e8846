"""The two-layer network in its pre-activations: the same SGD and the same witness, all in GEMMs.

    f(x) = Σ_k a_k σ(u_k(x)),   u(x) = x W + b,   with only W and b trained.

A step on the samples z_j moves W by Σ_j z_jᵀ c_j, where c_j = α w_j a σ'(u(z_j)), so that within a
block of steps, from the W and b at its start,

    u(z_i) = z_i W + b + Σ_{earlier j} (z_i·z_j + 1) c_j:

solved row by row, like a triangular system. `training.trajectory`, which takes any network, passes
over W at every step, and so moves `_GROUP` times as much memory.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.quotient import gauss_legendre, has_kinks, quotient
from ntkmmd_jax.measure import SignedMeasure, Visits
from ntkmmd_jax.networks.activations import activation_fn
from ntkmmd_jax.networks.network import Network, Params
from ntkmmd_jax.networks.shipped import mlp_behind

_GROUP = 16  # steps between two updates of W


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
    return jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1), units.readout * units.slope(u)


def displacement(
    network: Network, params: Params, measure: SignedMeasure, batches: Visits, rate: Any
) -> Params:
    """θ − θ0 after plain SGD with step `rate` over batches of visits to the measure's points."""
    units = _Units(network, params)
    z, layer = units.points(measure.points), units.layer
    steps, size = batches.weights.shape
    blocks = batches.grouped(min(steps, max(1, _GROUP // size)))

    def block_step(moved: tuple, visits: Visits) -> tuple[tuple, None]:
        dw, db = moved
        zb, pull = z[visits.indices], rate * visits.weights[:, None] * units.readout
        u = zb @ (layer["kernel"] + dw) + (layer["bias"] + db)
        c = _solve(u, zb @ zb.T + 1, lambda u, at: pull[at] * units.slope(u), size)
        return (dw + zb.T @ c, db + c.sum(0)), None

    start = (jnp.zeros_like(layer["kernel"]), jnp.zeros_like(layer["bias"]))
    (dw, db), _ = jax.lax.scan(block_step, start, blocks)
    layers = {"layer_1": {"bias": db, "kernel": dw}, "readout": {"kernel": None}}
    return {"params": layers}


def _solve(u: jax.Array, gram: jax.Array, coefficients: Callable, size: int) -> jax.Array:
    """The c_j of a block of steps, `size` rows each, one after the other.

    Args:
        u: Pre-activations with the weights as they were before the block, (rows, m).
        gram: z_i·z_j + 1, (rows, rows).
        coefficients: Takes pre-activations and their rows, gives c.
        size: Rows per step.
    """
    c = []
    for first in range(0, len(u), size):
        rows = slice(first, first + size)
        u_rows = u[rows]
        for k, earlier in enumerate(c):
            cross = gram[rows, k * size : (k + 1) * size]
            # A single row is a sum of vectors, which fuses; a GEMM would not.
            u_rows += cross * earlier if size == 1 else cross @ earlier
        c.append(coefficients(u_rows, rows))
    return jnp.concatenate(c)
