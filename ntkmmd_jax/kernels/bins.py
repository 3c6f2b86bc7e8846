"""The Gram matrix of bins, G_kl = ⟨v_k, v_l⟩ with v_k = Σ_{i in bin k} ∇f(z_i; θ0).

Every squared MMD whose labels are constant on bins is wᵀ G w, with one weight a bin. G comes from
the gradients of bins, in time linear in n, or from the kernel matrix of the points summed over
bins, whichever takes less work. Gradients are centred before the product: what they have in common
drops out of every MMD, and would cost its digits.
"""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.precision import pinned
from ntkmmd_jax._lib.tiles import tiled
from ntkmmd_jax.bins import Cut
from ntkmmd_jax.kernels.ntk import empirical_ntk
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Network, Params, two_layer
from ntkmmd_jax.witness import bin_gradients, velocity

_FLOATS = 2**27  # numbers in gradients of bins that are held at once
_KERNEL_POINTS = 4096  # beyond which no kernel matrix of all points is made


def bin_gram(network: Network, params: Params, placed: jax.Array, bins: Cut) -> jax.Array:
    """The centred Gram matrix of the bins of placed points and of their rest, (s + 1, s + 1).

    Args:
        network: The network f.
        params: θ0.
        placed: Points in the order of their places, shape (n, ...).
        bins: How they are cut into s bins.
    """
    p = sum(leaf.size for leaf in jax.tree.leaves(network.trainable(params)[1]))
    if _kernel_is_cheaper(network, placed, bins, p):
        return gram_of_kernel(empirical_ntk(network, params, placed), bins)
    binned, rest = bins.cut(placed)
    at_rest = jnp.zeros(p, placed.dtype)
    if len(rest.weights):
        at_rest = ravel_pytree(velocity(network, params, rest))[0]
    if len(bins) * p <= _FLOATS:
        v = bin_gradients(network, params, binned.points, binned.weights)
        return gram_of_sums(jnp.concatenate([v, at_rest[None]]), bins)
    return _tiled_gram(network, params, binned, at_rest, bins, max(1, _FLOATS // (2 * p)))


@pinned
def gram_of_sums(sums: jax.Array, bins: Cut) -> jax.Array:
    """The centred Gram matrix of gradients summed over placed bins, and those of the rest.

    Args:
        sums: Gradients summed over each bin, and the weighted sum of the rest, (s + 1, p).
        bins: How points are cut into s bins.
    """
    v = bins.centred(sums)
    return v @ v.T


def gram_of_kernel(kernel: jax.Array, bins: Cut) -> jax.Array:
    """The centred Gram matrix of bins from the kernel matrix (n, n) of the placed points."""
    columns = bins.centred(bins.sums(kernel))  # (s + 1, n)
    return bins.centred(bins.sums(columns.T))


def _kernel_is_cheaper(network: Network, placed: jax.Array, bins: Cut, p: int) -> bool:
    """Whether the closed form of K takes fewer products than gradients of bins and theirs."""
    n, s, d = len(placed), len(bins), placed[0].size
    width = p // (d + 1)
    by_gradients = 3 * n * p + s * s * p
    return two_layer.applies(network) and n <= _KERNEL_POINTS and n * n * (d + width) < by_gradients


def _tiled_gram(
    network: Network,
    params: Params,
    binned: SignedMeasure,
    at_rest: jax.Array,
    bins: Cut,
    size: int,
) -> jax.Array:
    """The same with gradients of `size` bins at a time, taken anew for every pair of tiles."""
    s, tiles = len(bins), jax.tree.map(lambda leaf: tiled(leaf, size), binned)
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), binned)
    inside = padding.number((bins.x + bins.y) * bins.size)
    total = ravel_pytree(velocity(network, params, flat))[0]
    mean, masses = total / inside, jnp.asarray(bins.masses, total.dtype)
    rest = at_rest - masses[-1] * mean

    def vectors(tile: SignedMeasure) -> jax.Array:
        v = bin_gradients(network, params, tile.points, tile.weights)
        return v - tile.weights.sum(1)[:, None] * mean

    def row(tile: SignedMeasure) -> tuple[jax.Array, jax.Array]:
        left = vectors(tile)
        products = jax.lax.map(lambda other: left @ vectors(other).T, tiles)
        return products.swapaxes(0, 1).reshape(len(left), -1)[:, :s], left @ rest[:, None]

    rows, with_rest = jax.lax.map(row, tiles)
    between = rows.reshape(-1, s)[:s]
    column = with_rest.reshape(-1, 1)[:s]
    corner = rest[None] @ rest[:, None]
    return jnp.block([[between, column], [column.T, corner]])
