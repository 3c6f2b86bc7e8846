"""One test over many devices: points are sharded, and every device has bins of its own.

    T = wᵀ G w,   G_kl = ⟨v_k, v_l⟩,   v_k = Σ_{i in bin k} ∇f(z_i; θ0).

A device sums gradients over its bins, in linear time, and no other sees its points. Then parts are
exchanged once, so that each has some weights of the network for all bins, and G is the sum of
their products: a device holds n/D points and s·p/D numbers. The labellings are those of bins, drawn
from the key alone: but for rounding, the p-value is the same on any number of devices and hosts,
and that of `two_sample_test(method="ntk-symmetric")`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import check_finite, paired
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import working
from ntkmmd_jax._lib.standard import Standard, standard_on_host
from ntkmmd_jax.bins import Bins
from ntkmmd_jax.calibration import Relabelling
from ntkmmd_jax.kernels import gram_of_sums
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Network, NetworkLike, Params, as_network, check_network, mlp
from ntkmmd_jax.twosample.binned import bins_of
from ntkmmd_jax.twosample.ntk import NTKMMD
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.twosample.standard import StandardWitness
from ntkmmd_jax.twosample.unsplit import of_gram
from ntkmmd_jax.witness import Witness, bin_gradients, velocity

_AXIS = "points"


def sharded_test(
    x: Any,
    y: Any,
    *,
    network: NetworkLike | None = None,
    key: Any = 0,
    level: float = 0.05,
    n_permutations: int = 400,
    bins: int | None = None,
    standardize: bool = True,
    devices: Sequence[Any] | None = None,
) -> TwoSampleResult:
    """The exact test of all data, T_NTK, with its points over many devices.

    With `jax.distributed`, every process calls it with the same x and y, and gets the same result.

    Args:
        x: Sample of p, anything array-like on the host, one row per sample.
        y: Sample of q, with the same features.
        network: The network; the paper's, by default.
        key: An int seed or a JAX key.
        level: The probability of a false rejection under H0, exact.
        n_permutations: Label permutations behind the p-value.
        bins: About how many bins are labelled; by default one a point up to 1,024, then 256.
        standardize: Whether the network sees coordinates of pooled mean 0 and spread 1.
        devices: Of one kind; all that there are, by default.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(900, 3)), rng.normal(size=(700, 3)) + 0.3
        >>> sharded_test(x, y, network=ntk.mlp(16)).reject
        True
    """
    about: dict[str, Any] = {"level": level, "n_permutations": n_permutations, "bins": bins}
    test = NTKMMD(as_network(network or mlp()), train_fraction=None, **about)
    x, y = (np.asarray(sample, jnp.result_type(float)) for sample in paired(x, y))
    check_finite(x, "x")
    check_finite(y, "y")
    test.check_sizes(len(x), len(y))
    check_network(test.network, x.shape[1:])
    keys = test.keys(as_key(key))
    cut = bins_of(len(x), len(y), bins) or Bins(len(x), len(y), 1, len(x), len(y))
    relabelling = _relabel(keys.null, cut, n_permutations)
    placed = np.concatenate([x, y])[np.asarray(relabelling.order)]
    standard = standard_on_host(placed) if standardize else None
    params = _init(test.network, keys.prepare, placed[:1])
    mesh = Mesh(np.asarray(jax.devices() if devices is None else devices), (_AXIS,))
    labels = np.asarray(relabelling.weights[relabelling.observed, :-1])
    with working("sharded test"):
        gram, moved = _sums(mesh, test.network, params, standard, placed, cut, labels)
    found = of_gram(test, relabelling, gram)
    witness: Any = _witness(test.network, params, moved, x.shape[1:])
    if standard is not None:
        witness = StandardWitness(witness, standard, features=x.shape[1:])
    found = dataclasses.replace(found, witness=witness, standardized=standardize)
    result = found.concrete()
    result.warn_if_powerless()
    return result


@jit(static_argnums=(1, 2))
def _relabel(key: jax.Array, bins: Bins, n_permutations: int) -> Relabelling:
    """As `NTKMMD` relabels bins in memory."""
    k_place = jax.random.split(key)[0]
    return calibration.relabel(k_place, bins.n_x, bins.n_y, n_permutations, bins=bins)


@jit(static_argnums=0)
def _init(network: Network, key: jax.Array, point: jax.Array) -> Params:
    return network.init(key, point)


def _sums(
    mesh: Mesh,
    network: Network,
    params: Params,
    standard: Standard | None,
    placed: np.ndarray,
    bins: Bins,
    labels: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The centred Gram matrix of bins and rest, (s + 1, s + 1), and v of the labels as they are."""
    inside = len(bins) * bins.size
    binned = placed[:inside].reshape(len(bins), bins.size, *placed.shape[1:])
    rest = placed[inside:] if inside < len(placed) else placed[:1]
    weights = bins.rest if inside < len(placed) else np.zeros(1)
    arrays = (binned, rest, weights.astype(placed.dtype))
    over = [_sharded(mesh, array) for array in arrays]
    found = _program(params, standard, *over, labels, network=network, bins=bins, mesh=mesh)
    return np.asarray(found[0]), np.asarray(found[1])


def _sharded(mesh: Mesh, values: np.ndarray) -> jax.Array:
    """Rows over the devices; filled up with copies of the last, weights (n,) with 0."""
    missing = -len(values) % mesh.size
    filler = np.repeat(values[-1:] if values.ndim > 1 else 0 * values[-1:], missing, axis=0)
    whole = np.concatenate([values, filler]) if missing else values
    sharding = NamedSharding(mesh, PartitionSpec(_AXIS))
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


@jit(static_argnames=("network", "bins", "mesh"))
def _program(
    params: Params,
    standard: Standard | None,
    binned: jax.Array,
    rest: jax.Array,
    weights: jax.Array,
    labels: jax.Array,
    *,
    network: Network,
    bins: Bins,
    mesh: Mesh,
) -> tuple[jax.Array, jax.Array]:
    def on_device(
        params: Params,
        standard: Standard | None,
        binned: jax.Array,
        rest: jax.Array,
        weights: jax.Array,
        labels: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        if standard is not None:
            binned, rest = standard(binned), standard(rest)
        own = bin_gradients(network, params, binned)  # (bins here, p)
        of_rest = ravel_pytree(velocity(network, params, SignedMeasure(rest, weights)))[0]
        of_rest = jax.lax.psum(of_rest, _AXIS)
        p = own.shape[1]
        part = -(-p // mesh.size)
        own = jnp.pad(own, ((0, 0), (0, part * mesh.size - p)))
        of_rest = jnp.pad(of_rest, (0, part * mesh.size - p)).reshape(mesh.size, part)
        # From some bins and all weights of the network to all bins and some weights.
        sums = jax.lax.all_to_all(own, _AXIS, split_axis=1, concat_axis=0, tiled=True)
        sums = jnp.concatenate([sums[: len(bins)], of_rest[jax.lax.axis_index(_AXIS)][None]])
        moved = labels @ sums[:-1] + sums[-1]
        gram = jax.lax.psum(gram_of_sums(sums, bins), _AXIS)
        return gram, jax.lax.all_gather(moved, _AXIS, tiled=True)[:p]

    whole, split = PartitionSpec(), PartitionSpec(_AXIS)
    specs = (whole, whole, split, split, split, whole)
    sharded = jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=whole, check_vma=False)
    return sharded(params, standard, binned, rest, weights, labels)


def _witness(
    network: Network, params: Params, moved: np.ndarray, features: tuple[int, ...]
) -> Witness:
    """g of v as one vector (p,)."""
    _, unravel = ravel_pytree(network.trainable(params)[1])
    zero = jnp.zeros((), moved.dtype)
    about = {"network": network, "features": features, "nodes": 1}
    return Witness(params, unravel(jnp.asarray(moved)), zero, **about)
