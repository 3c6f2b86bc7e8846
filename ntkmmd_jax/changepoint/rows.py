"""Rows of a kernel: what a frame has to say to those before it, and windows of all lengths.

With the mean φ̄ of the whole reference and k̃(x, y) = ⟨φ(x) − φ̄, φ(y) − φ̄⟩, the squared MMD of the
reference and the last L frames is

    T_L(t) = S_L(t) / L²,   S_L(t) = S_{L−1}(t−1) + k̃(x_t, x_t) + 2 Σ_{0<j<L} k̃(x_t, x_{t−j}):

one row of the kernel, its running sum, and a shift. Every S_L is a sum of L terms, built anew, so
nothing drifts. φ is kept as a code: of the two-layer network the two factors of ∇f, which is a
matrix of rank one; of any other network ∇f itself; of a Gaussian kernel the frame.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tiles import tile_by_tile
from ntkmmd_jax.kernels import empirical_ntk, gaussian_kernel
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Network, Params, two_layer
from ntkmmd_jax.twosample import NTKMMD, GaussianMMD, Hotelling, TwoSampleTest
from ntkmmd_jax.twosample.learning import WitnessTest
from ntkmmd_jax.witness import velocity

_FLOATS = 2**26  # of codes that a window may hold
_TILE = 1024  # frames that are held against the reference at once


@record
class Rows:
    """A kernel by its codes."""

    def encode(self, frames: jax.Array) -> jax.Array:
        """Codes (n, r) of frames (n, ...)."""
        raise NotImplementedError

    def kernel(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """K (n, m) by codes."""
        raise NotImplementedError

    def mean(self, measure: SignedMeasure) -> Any:
        """What stands for φ̄ = Σ w_i φ(x_i) of the reference."""
        raise NotImplementedError

    def against(self, mean: Any, codes: jax.Array) -> jax.Array:
        """⟨φ̄, φ(x)⟩ by codes, (n,)."""
        raise NotImplementedError

    def gram(self, frames: jax.Array, n: Any = None) -> jax.Array:
        """The kernel matrix of n frames, centred at their mean; 0 in the padding of a bucket."""
        n = len(frames) if n is None else n
        kernel = self.matrix(frames)
        rows = padding.mean(kernel, n)
        centred = kernel - rows - rows[:, None] + padding.mean(rows, n)
        return padding.cleared(padding.cleared(centred, n), n, axis=1)

    def matrix(self, frames: jax.Array) -> jax.Array:
        """The kernel matrix of frames."""
        codes = self.encode(frames)
        return self.kernel(codes, codes)


@record
class TwoLayerRows(Rows):
    """The NTK of f(x) = Σ_k a_k σ(w_k·x + b_k): codes (x̃, 1, a σ'(u))."""

    params: Params
    network: Network = static()

    def _parts(self, codes: jax.Array) -> tuple[jax.Array, jax.Array]:
        at = codes.shape[1] - self.params["params"]["layer_1"]["kernel"].shape[1]
        return codes[:, :at], codes[:, at:]

    def encode(self, frames: jax.Array) -> jax.Array:
        """Both factors of ∇f."""
        return jnp.concatenate(two_layer.factors(self.network, self.params, frames), axis=1)

    def kernel(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """The Gram matrices of the factors, multiplied entry by entry."""
        (x1, c1), (x2, c2) = self._parts(left), self._parts(right)
        return (x1 @ x2.T) * (c1 @ c2.T)

    def mean(self, measure: SignedMeasure) -> jax.Array:
        """The mean of ∇f, (d + 1, m)."""
        x, c = self._parts(self.encode(measure.points))
        return x.T @ (measure.weights[:, None] * c)

    def against(self, mean: jax.Array, codes: jax.Array) -> jax.Array:
        """The derivative along the mean gradient."""
        x, c = self._parts(codes)
        return jnp.sum((x @ mean) * c, axis=1)


@record
class GradientRows(Rows):
    """The NTK of any network: codes are gradients."""

    params: Params
    network: Network = static()

    def encode(self, frames: jax.Array) -> jax.Array:
        """∇f of every frame, (n, p)."""
        f, theta = self.network.trainable(self.params)
        gradient = jax.grad(lambda theta, frame: f(theta, frame[None])[0])
        return jax.vmap(lambda frame: ravel_pytree(gradient(theta, frame))[0])(frames)

    def kernel(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """⟨∇f, ∇f⟩."""
        return left @ right.T

    def mean(self, measure: SignedMeasure) -> jax.Array:
        """The mean of ∇f, (p,), by one VJP."""
        return ravel_pytree(velocity(self.network, self.params, measure))[0]

    def against(self, mean: jax.Array, codes: jax.Array) -> jax.Array:
        """The derivative along the mean gradient."""
        return codes @ mean

    def matrix(self, frames: jax.Array) -> jax.Array:
        """As `empirical_ntk` has it, without gradients of all frames at once."""
        return empirical_ntk(self.network, self.params, frames)


@record
class GaussianRows(Rows):
    """The Gaussian kernel: codes are frames."""

    bandwidths: jax.Array

    def encode(self, frames: jax.Array) -> jax.Array:
        """Frames, flat."""
        return frames.reshape(len(frames), -1)

    def kernel(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """exp(−|x − y|² / 2σ²)."""
        return gaussian_kernel(left, right, self.bandwidths)

    def mean(self, measure: SignedMeasure) -> SignedMeasure:
        """The frames and their weights: the mean embedding has no shorter form."""
        return SignedMeasure(self.encode(measure.points), measure.weights)

    def against(self, mean: SignedMeasure, codes: jax.Array) -> jax.Array:
        """The mean of the kernel over the reference."""
        return self.kernel(codes, mean.points) @ mean.weights


@record
class LinearRows(Rows):
    """⟨x, y⟩: codes are frames."""

    def encode(self, frames: jax.Array) -> jax.Array:
        """Frames, flat."""
        return frames.reshape(len(frames), -1)

    def kernel(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """Inner products."""
        return left @ right.T


def rows_of(test: TwoSampleTest, prepared: Any, frames: int) -> Rows | None:
    """The rows of a test whose T is a squared MMD with a fixed kernel; None of any other.

    Args:
        test: As `chart_test` gives it.
        prepared: What it has fixed beforehand.
        frames: How many codes are to be held; beyond some size of them it is None, too.
    """
    fixed = isinstance(test, NTKMMD | GaussianMMD)
    return rows_near(test, prepared, frames) if fixed else None


def rows_near(test: TwoSampleTest, prepared: Any, frames: int) -> Rows | None:
    """The same, also of tests whose T comes to such a one as their training time goes to 0.

    And of T², which is a form in means of frames: how long these remember is what matters.
    """
    if isinstance(test, GaussianMMD):
        return GaussianRows(prepared)
    if isinstance(test, Hotelling):
        return LinearRows()
    if not isinstance(test, WitnessTest):
        return None
    if two_layer.applies(test.network):
        return TwoLayerRows(prepared, network=test.network)
    weights = jax.tree.leaves(test.network.trainable(prepared)[1])
    small = frames * sum(leaf.size for leaf in weights) <= _FLOATS
    return GradientRows(prepared, network=test.network) if small else None


@record
class Memory:
    """What a chart keeps of its reference and of the frames before."""

    mean: Any  # of the reference, as `Rows.mean` gives it
    offset: jax.Array  # () |φ̄|²
    codes: jax.Array  # (n, r) of the frames of the buffer
    gaps: jax.Array  # (n,) ⟨φ̄, φ⟩ of them
    sums: jax.Array  # (window,) S_1, …, S_window at the last frame

    @classmethod
    def of(
        cls, rows: Rows, reference: jax.Array, window: int, frames: int, n: Any = None
    ) -> "Memory":
        """Of a reference, before any frame.

        Args:
            rows: The kernel.
            reference: Its frames, or a bucket of them.
            window: The longest window.
            frames: Those of the buffer.
            n: How many of a bucket are real; all, by default.
        """
        places, n = len(reference), len(reference) if n is None else n
        weights = jnp.where(padding.is_real(places, n), 1 / padding.number(n), 0)
        mean = rows.mean(SignedMeasure(reference, weights.astype(reference.dtype)))
        gaps = tile_by_tile(lambda part: rows.against(mean, rows.encode(part)), reference, _TILE)
        offset = padding.mean(gaps, n)
        width = jax.eval_shape(rows.encode, reference[:1]).shape[1]
        blank = jnp.zeros((frames, width), reference.dtype)
        return cls(mean, offset, blank, blank[:, 0], jnp.zeros(window, reference.dtype))


def seen(rows: Rows, memory: Memory, block: jax.Array) -> tuple[Memory, jax.Array]:
    """Take the frames of a block, the last of the buffer: codes, and what to add to S.

    Returns:
        The memory with their codes, and for every frame k̃(x_t, x_t) + 2 Σ_{0<j<L} k̃(x_t, x_{t−j})
        for L = 1, …, window, shape (block, window).
    """
    size, window, n = len(block), len(memory.sums), len(memory.gaps)
    new = rows.encode(block)
    gap = rows.against(memory.mean, new)
    codes = memory.codes.at[n - size :].set(new)
    gaps = memory.gaps.at[n - size :].set(gap)
    kernel = rows.kernel(new, codes) - gap[:, None] - gaps + memory.offset
    row = jnp.arange(size)[:, None]
    lags = kernel[row, n - size + row - jnp.arange(window)]
    added = 2 * jnp.cumsum(lags, axis=1) - lags[:, :1]
    return Memory(memory.mean, memory.offset, codes, gaps, memory.sums), added


def grown(sums: jax.Array, added: jax.Array) -> jax.Array:
    """S of all lengths at the next frame."""
    return added + jnp.concatenate([jnp.zeros_like(sums[:1]), sums[:-1]])


@record
class Halves:
    """Two means of a reference: of the frames that a witness learns from, and of the others."""

    learned: Any  # as `Rows.mean` gives it
    scored: Any  # likewise
    offset: jax.Array  # () their product

    @classmethod
    def of(cls, rows: Rows, reference: jax.Array, some: np.ndarray) -> "Halves":
        """Of a reference; `some` says which frames are learned from."""

        def mean(frames: jax.Array) -> Any:
            weights = jnp.full(len(frames), 1 / len(frames), frames.dtype)
            return rows.mean(SignedMeasure(frames, weights))

        learned, others = mean(reference[some]), reference[~some]
        products = tile_by_tile(
            lambda part: rows.against(learned, rows.encode(part)), others, _TILE
        )
        return cls(learned, mean(others), products.mean())

    def gain(self, rows: Rows, old: jax.Array, new: jax.Array) -> jax.Array:
        """η = ⟨φ_learned − φ_old, φ_scored − φ_new⟩: what a witness of old frames gains on new."""
        old, new = rows.encode(old), rows.encode(new)
        of_old = rows.kernel(old, new).mean() - rows.against(self.scored, old).mean()
        return self.offset - rows.against(self.learned, new).mean() + of_old
