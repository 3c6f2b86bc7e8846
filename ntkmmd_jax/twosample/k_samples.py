"""Any number of samples: do all come from one law, and which of them differ?

    D_ij = MMD² of samples i and j,   T = Σ_{i<j} (n_i n_j / n) D_ij,

with the tangent kernel at θ0, all from one Gram matrix: of the points or, when they are many, of
sums over bins (see `kernels.bins`). T is tested by permuting all labels. Under the hypothesis that
samples i and j have one law the others may differ, so D_ij is tested by permuting the labels of
these two only; their p-values are adjusted for their number (Holm 1979). Everything is computed
from points in random order, so that rounding knows no labels (see `calibration`).
"""

import itertools
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
from ntkmmd_jax._lib.standard import standard_of
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.calibration import centred, check_level, check_reach, labellings, pvalue
from ntkmmd_jax.calibration.nulls import tie_tolerance
from ntkmmd_jax.kernels import empirical_ntk
from ntkmmd_jax.networks import Network, NetworkLike, as_network, check_network, mlp
from ntkmmd_jax.witness import bin_gradients

_POINTS = 1024  # up to which each is a bin of its own; beyond, about so many bins


@record
class KSampleResult:
    """The verdict on k samples: of all together, and of every pair."""

    statistic: Any  # () T
    pvalue: Any  # () of "all come from one law"
    distances: np.ndarray  # (k, k) D_ij
    pvalues: np.ndarray  # (k, k) of every pair by itself; 1 on the diagonal
    adjusted: np.ndarray  # (k, k) the same, adjusted for their number
    level: Any  # α
    names: tuple[str, ...] = static()  # of the samples
    sizes: tuple[int, ...] = static()  # points of each

    @property
    def reject(self) -> bool:
        """Whether not all come from one law, at the level of the test."""
        return bool(self.pvalue <= self.level)

    @property
    def differing(self) -> list[tuple[str, str]]:
        """The pairs that differ: the probability that any of them does not is at most the level."""
        pairs = itertools.combinations(range(len(self.names)), 2)
        found = [(i, j) for i, j in pairs if self.adjusted[i, j] <= self.level]
        return [(self.names[i], self.names[j]) for i, j in found]

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, ready for JSON."""
        matrices = {name: getattr(self, name).tolist() for name in ("distances", "pvalues")}
        about = {"statistic": float(self.statistic), "pvalue": float(self.pvalue)}
        about |= {"reject": self.reject, "level": float(self.level), "differing": self.differing}
        about |= {"names": list(self.names), "sizes": list(self.sizes)}
        return {**about, **matrices, "adjusted": self.adjusted.tolist()}

    def plot(self, ax: Any = None) -> Any:
        """Draw the distances of all pairs and their adjusted p-values; returns the axes."""
        from ntkmmd_jax import plotting

        return plotting.pairs(self, ax)

    def __repr__(self) -> str:
        said = "not all come from one law" if self.reject else "no evidence against one law"
        lines = [f"{len(self.names)} samples: p = {float(self.pvalue):.4g}, {said}"]
        lines.append(f"{'pair':24}{'MMD²':>12}{'p-value':>10}{'adjusted':>10}")
        for i, j in itertools.combinations(range(len(self.names)), 2):
            pair = f"{self.names[i]}, {self.names[j]}"
            numbers = f"{self.distances[i, j]:12.4g}{self.pvalues[i, j]:10.4g}"
            lines.append(f"{pair:24}{numbers}{self.adjusted[i, j]:10.4g}")
        return "\n".join(lines)


def k_sample_test(
    *samples: Any,
    names: tuple[str, ...] | None = None,
    network: NetworkLike | None = None,
    key: Any = 0,
    level: float = 0.05,
    n_permutations: int = 400,
    standardize: bool | None = None,
) -> KSampleResult:
    """Test whether several samples come from one distribution, and which of them differ.

    Args:
        *samples: Two or more, array-like, one row per point, with the same features.
        names: What to call them; by default 1, 2, ….
        network: The network, whose tangent kernel measures distances; the paper's, by default.
        key: An int seed or a JAX key.
        level: The probability of a false rejection of "one law", exact; and at most that of naming
            any pair that does not differ.
        n_permutations: Label permutations behind every p-value.
        standardize: Whether the network sees coordinates of pooled mean 0 and spread 1; by default,
            unless it is pretrained.

    Beyond 1,024 points, sums over about as many bins are labelled instead, and what fills no bin of
    its sample is left out.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a, b, c = rng.normal(size=(40, 2)), rng.normal(size=(30, 2)), rng.normal(size=(35, 2))
        >>> k_sample_test(a, b, c + 2, names=("a", "b", "c")).differing
        [('a', 'c'), ('b', 'c')]
    """
    arrays, sizes = _checked(samples), tuple(map(len, samples))
    names = tuple(map(str, names or range(1, 1 + len(arrays))))
    if len(names) != len(arrays):
        raise ValueError(f"{len(arrays)} samples have {len(names)} names: {names}")
    whole("n_permutations", n_permutations)
    pairs = len(arrays) * (len(arrays) - 1) // 2
    check_level(level / pairs, n_permutations)  # of the smallest adjusted p-value
    network = mlp() if network is None else as_network(network)
    check_network(network, arrays[0].shape[1:])
    standardize = not network.pretrained if standardize is None else standardize
    size = -(-sum(sizes) // _POINTS)  # points of a bin
    bins = tuple(n // size for n in sizes)
    few = sorted(bins)[:2]
    check_reach(labellings(*few, even=True), level / pairs, f"{few[0]} + {few[1]} bins of {size}")
    given = {"network": network, "sizes": sizes, "size": size, "n_permutations": n_permutations}
    with working(f"test of {len(arrays)} samples"):
        found = _run(as_key(key), jnp.concatenate(arrays), **given, standardize=standardize)
        statistic, overall, distances, pvalues = map(np.asarray, found)
    adjusted = _holm(pvalues)
    about = {"names": names, "sizes": sizes}
    return KSampleResult(statistic, overall, distances, pvalues, adjusted, level, **about)


def _checked(samples: tuple[Any, ...]) -> list[jax.Array]:
    if len(samples) < 2:
        raise ValueError(f"k_sample_test takes two samples or more; got {len(samples)}")
    arrays = [as_samples(samples[0], other) for other in samples[1:]]
    found = [arrays[0][0], *(pair[1] for pair in arrays)]
    for i, sample in enumerate(found):
        check_finite(sample, f"sample {i + 1}")
    return found


def _holm(pvalues: np.ndarray) -> np.ndarray:
    """The i-th smallest of m p-values times m + 1 − i, made increasing, at most 1."""
    rows, columns = np.triu_indices(len(pvalues), 1)
    values = pvalues[rows, columns]
    order = np.argsort(values, kind="stable")
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.ones_like(pvalues)
    adjusted[rows[order], columns[order]] = np.minimum(raised, 1)
    return np.minimum(adjusted, adjusted.T)


@jit(static_argnames=("network", "sizes", "size", "n_permutations", "standardize"))
def _run(
    key: jax.Array,
    points: jax.Array,
    *,
    network: Network,
    sizes: tuple[int, ...],
    size: int,
    n_permutations: int,
    standardize: bool,
) -> tuple[jax.Array, ...]:
    k_standard, k_init, k_order, k_place, k_all, k_pairs = jax.random.split(key, 6)
    if standardize:
        points = standard_of(k_standard, points)(points)
    counts = np.asarray(sizes) // size
    n, k = int(counts.sum()), len(sizes)
    place = jnp.argsort(jax.random.bits(k_place, (n,)))
    of_place = jnp.repeat(jnp.arange(k), counts, total_repeat_length=n)[place]
    binned = _bins(k_order, points, sizes, size)[place]
    params = network.init(k_init, points[:1])
    if size == 1:
        gram = centred(empirical_ntk(network, params, binned[:, 0]))
    else:
        sums = bin_gradients(network, params, binned) / size
        sums = sums - sums.mean(0)
        gram = sums @ sums.T
    own = jnp.arange(k)[:, None] == of_place  # (k, n)
    masses = jnp.asarray(1 / counts, gram.dtype)
    shares = jnp.asarray(np.outer(counts, counts) / (2 * n), gram.dtype)

    def distances(labels: jax.Array) -> jax.Array:
        """D of labels (k, n), shape (k, k)."""
        means = masses[:, None] * labels.astype(gram.dtype)
        inner = means @ gram @ means.T
        return jnp.diagonal(inner)[:, None] + jnp.diagonal(inner) - inner - inner.T

    observed = distances(own)
    total = jnp.sum(shares * observed)

    def permuted(key: jax.Array) -> jax.Array:
        return jnp.sum(shares * distances(own[:, jnp.argsort(jax.random.bits(key, (n,)))]))

    null = in_batches(permuted, jax.random.split(k_all, n_permutations), 8)
    rows, columns = np.triu_indices(k, 1)

    def of_pair(pair: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        key, i, j = pair
        in_pair = own[i] | own[j]
        most = jnp.iinfo(jnp.uint32).max

        def distance(first: jax.Array) -> jax.Array:
            w = jnp.where(first, masses[i], -masses[j]) * in_pair.astype(gram.dtype)
            return w @ gram @ w

        def permuted(key: jax.Array) -> jax.Array:
            bits = jnp.where(in_pair, jax.random.bits(key, (n,)), jnp.uint32(most))
            rank = jnp.zeros(n, int).at[jnp.argsort(bits)].set(jnp.arange(n))
            return distance(in_pair & (rank < jnp.asarray(counts)[i]))

        null = in_batches(permuted, jax.random.split(key, n_permutations), 8)
        return pvalue(distance(own[i]), null, tie_tolerance(null))

    keys = jax.random.split(k_pairs, len(rows))
    found = jax.lax.map(of_pair, (keys, jnp.asarray(rows), jnp.asarray(columns)))
    pvalues = jnp.ones((k, k), gram.dtype).at[rows, columns].set(found)
    return (
        total,
        pvalue(total, null, tie_tolerance(null)),
        observed,
        jnp.minimum(pvalues, pvalues.T),
    )


def _bins(key: jax.Array, points: jax.Array, sizes: tuple[int, ...], size: int) -> jax.Array:
    """Every sample in random order, cut into bins of one size: (bins, size, ...)."""
    parts, ends = [], np.cumsum(sizes)
    bits = jax.random.bits(key, (len(points),))
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        inside = (end - begin) // size * size
        order = begin + jnp.argsort(bits[begin:end])[:inside]
        parts.append(points[order].reshape(-1, size, *points.shape[1:]))
    return jnp.concatenate(parts)
