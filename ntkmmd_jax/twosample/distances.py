"""How far two laws are apart: the squared MMD of two samples, with its error.

    MMD² = E k(x, x') + E k(y, y') − 2 E k(x, y),

estimated without bias by a U-statistic (see `kernels.estimated`). It says how much, where a test
says whether: with enough samples every difference is significant, and few are large.

x is the reference: what the kernel takes from data (spreads of coordinates, the median distance,
the shape of samples) it takes from x. So the distances of several y from one x, with one key, are
in the same units, those of the kernel, and can be compared: generative models with real images, as
the kernel inception distance does (Bińkowski et al. 2018), which is the polynomial kernel of
features. The price is that x and y do not change places.

The whole statistic takes quadratic time. Over disjoint blocks of both samples, drawn at random, it
is a mean of independent ones, in linear time and with a larger error:

    MMD² = Σ_b MMD²_b / B,   error² = Σ_b error²_b / B².
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_samples, check_finite
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.standard import standard_of
from ntkmmd_jax.kernels import (
    EstimatedMMD,
    GaussianKernel,
    PolynomialKernel,
    TangentKernel,
    estimate_mmd,
)
from ntkmmd_jax.kernels.estimated import LEAST, Kernel
from ntkmmd_jax.kernels.functions import as_pytree
from ntkmmd_jax.measure import random_orders
from ntkmmd_jax.networks import NetworkLike, as_network, check_network, mlp

_KERNELS = ("gaussian", "polynomial")


@record
class Distance:
    """An unbiased estimate of the squared MMD, and how far it may be off."""

    estimate: EstimatedMMD  # MMD² and its error
    level: float = static()  # the interval misses the truth with this probability
    kernel: str = static()  # what it is in units of
    n_x: int = static()  # points of x
    n_y: int = static()  # points of y
    blocks: int = static(default=1)  # whose estimates are averaged

    @property
    def value(self) -> float:
        """MMD², in units of the kernel. Without bias, so below 0 at times if the laws are alike."""
        return float(self.estimate.mmd2)

    @property
    def error(self) -> float:
        """The standard error of the value."""
        return float(self.estimate.error)

    @property
    def mmd(self) -> float:
        """√MMD², and 0 where the estimate is below."""
        return float(self.estimate.mmd)

    @property
    def interval(self) -> tuple[float, float]:
        """Where MMD² lies with probability 1 − level, at least as samples grow."""
        low, high = self.estimate.interval(self.level)
        return float(low), float(high)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, ready for JSON."""
        about = {"kernel": self.kernel, "n_x": self.n_x, "n_y": self.n_y, "blocks": self.blocks}
        found = {"value": self.value, "error": self.error, "mmd": self.mmd}
        return {**found, "interval": list(self.interval), "level": self.level, **about}

    def __repr__(self) -> str:
        low, high = self.interval
        blocks = f", {self.blocks} blocks" * (self.blocks > 1)
        return (
            f"MMD² = {self.value:.4g} ± {self.error:.2g}, {100 * (1 - self.level):g} % interval "
            f"[{low:.4g}, {high:.4g}] ({self.kernel}; n = {self.n_x:,} + {self.n_y:,}{blocks})"
        )


def distance(
    x: Any,
    y: Any,
    *,
    network: NetworkLike | None = None,
    kernel: str | Kernel | None = None,
    key: Any = 0,
    level: float = 0.05,
    standardize: bool | None = None,
    block: int | None = None,
) -> Distance:
    """How far the law of y is from that of x: an unbiased MMD², its error and an interval.

    Args:
        x: The reference, anything array-like, one row per sample; at least 4.
        y: What is compared with it, with the same features; the sizes may differ.
        network: Its tangent kernel at θ0 is the kernel; the paper's network by default. For a
            pretrained one see `from_flax`.
        kernel: Another kernel: "gaussian", its width the median distance of x; "polynomial", the
            (1 + x·x'/d)³ of the kernel inception distance; or a function of x1 (n1, ...) and
            x2 (n2, ...) that gives (n1, n2), such as `GaussianKernel(width)`.
        key: For θ0 and the blocks; an int seed or a JAX key. Compare distances of one key only.
        level: The interval misses MMD² with this probability, in the limit of many samples.
        standardize: Whether coordinates are shifted and scaled to mean 0 and spread 1 of x. By
            default for the tangent kernel, unless its network is pretrained.
        block: Average over random blocks of about so many samples of the larger one, in linear
            time; what fills no block is left out. None: all pairs, in quadratic time. Memory is
            that of the samples and a tile of the kernel matrix in either case.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(300, 2)), rng.normal(size=(200, 2)) + 1
        >>> found = distance(x, y, kernel="gaussian")
        >>> low, high = found.interval
        >>> 0 < low < found.value < high
        True
    """
    x, y = as_samples(x, y)
    check_finite(x, "x")
    check_finite(y, "y")
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1); got {level!r}")
    k_kernel, k_standard, k_blocks = jax.random.split(as_key(key), 3)
    if kernel is None:
        network = mlp() if network is None else as_network(network)
        check_network(network, x.shape[1:])
        if standardize is None:
            standardize = not network.pretrained
    elif network is not None:
        raise ValueError("give a kernel or a network, whose tangent kernel it then is; got both")
    blocks = _count(len(x), len(y), block)
    if standardize:
        standard = standard_of(k_standard, x)
        x, y = standard(x), standard(y)
    if kernel is None:
        kernel = TangentKernel.of(k_kernel, x, network)
    fixed = _fixed(k_kernel, kernel, x)
    estimate = _estimate(k_blocks, fixed, x, y, blocks)
    sizes = {"n_x": len(x), "n_y": len(y), "blocks": blocks}
    return Distance(estimate, level=level, kernel=_named(fixed), **sizes)


def _count(n_x: int, n_y: int, block: int | None) -> int:
    """How many blocks, each with 4 points of either sample at least."""
    if min(n_x, n_y) < LEAST:
        raise ValueError(f"a distance needs {LEAST} samples of each; got {n_x} and {n_y}")
    if block is None:
        return 1
    whole("block", block, LEAST)
    blocks = max(1, max(n_x, n_y) // block)
    if min(n_x, n_y) // blocks < LEAST:
        raise ValueError(
            f"{blocks} blocks of {block} leave fewer than {LEAST} of the smaller sample to each "
            f"(n = {n_x} + {n_y}): take a larger block"
        )
    return blocks


def _named(kernel: Any) -> str:
    """What a kernel is called in words."""
    if isinstance(kernel, GaussianKernel):
        return f"gaussian, width {np.mean(kernel.bandwidth):.4g}"
    if isinstance(kernel, PolynomialKernel):
        return f"polynomial, degree {kernel.degree}"
    if isinstance(kernel, TangentKernel):
        recipe = kernel.network.recipe
        return f"tangent kernel of {recipe[0] if recipe else 'a network'}"
    function = getattr(kernel, "func", kernel)
    return getattr(function, "__name__", type(function).__name__)


def _fixed(key: jax.Array, kernel: Any, x: jax.Array) -> Kernel:
    """The kernel as a pytree, from a word or as it is given."""
    if kernel == "gaussian":  # its width is from the first points: of any, in random order
        return GaussianKernel.of(x[random_orders(key, len(x))[0]])
    if kernel == "polynomial":
        return PolynomialKernel()
    if not callable(kernel):
        raise ValueError(f"kernel is one of {_KERNELS} or a function of (x1, x2); got {kernel!r}")
    return as_pytree(kernel)


@jit(static_argnames="blocks")
def _estimate(
    key: jax.Array, kernel: Kernel, x: jax.Array, y: jax.Array, blocks: int
) -> EstimatedMMD:
    if blocks == 1:
        return estimate_mmd(kernel, x, y)

    def cut(sample: jax.Array, order: jax.Array) -> jax.Array:
        size = len(sample) // blocks
        return sample[order[: blocks * size]].reshape(blocks, size, *sample.shape[1:])

    # In random order: samples may be sorted, and a block must be a sample of its law.
    parts = [cut(*of) for of in zip((x, y), random_orders(key, len(x), len(y)), strict=True)]
    each = jax.lax.map(lambda pair: estimate_mmd(kernel, *pair), parts)

    def of_mean(errors: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(errors**2)) / blocks

    return EstimatedMMD(jnp.mean(each.mmd2), of_mean(each.error), of_mean(each.spread))
