"""The law of T_L while nothing changes: mean and spread in closed form, shape by resampling.

With V_L of `dependence`, Σ_L the covariance of √L times a window's mean, and N frames of reference,

    E T_L = V_L / L + V_N / N,
    Var T_L = 2 tr Σ_L² (1/L + V_N / (V_L N))² + κ_L / L³,
    κ_B = B³ (Var |block mean|² − 2 tr Σ_B²),

where tr Σ² comes from pairs of blocks far from each other, less what the common mean adds to it,
and blocks have B frames, as many as they remember: 1 if they are independent. L κ_L is a fourth
cumulant of the sum of L frames. What it lacks at the ends of a window goes with the gaps between
four frames that remember each other, three times the one gap of a covariance: for L > B, κ_L grows
as V_L³. For L < B, it lies between those of blocks of 1 and of B frames.
What resampling adds is the shape: streams of blocks of the reference against a reference that is
resampled, too, each standardised by the moments of that world and by the scale f that its own
reference would have estimated. So a quantile of them is that of a chart whose reference is random.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.records import record
from ntkmmd_jax._lib.tiles import in_batches
from ntkmmd_jax.changepoint.dependence import Dependence, dependence
from ntkmmd_jax.changepoint.rows import grown

# Standardised by itself, a reference of N independent frames has 1 − 1/N of the variance, and the
# frames after it 1 + 2/N on average: 3/N for a feature of first degree, 6/N and 2/N by centring
# for one of second degree, as a network's; memory divides N by as much. That is a first order.
_OWN, _MOST = 8.0, 0.2
_CANCELS = 0.9  # of V that a swing leaves of blocks, or less: then they say so themselves
_AT_ONCE = 128  # streams that run side by side


@record
class Moments:
    """Mean and spread of T_1, …, T_window."""

    mean: jax.Array  # (window,)
    spread: jax.Array  # (window,)

    def standard(self, statistics: jax.Array, scale: jax.Array | float = 1.0) -> jax.Array:
        """z of T_1, …, T_window, if the reference says that all is `scale` times as large."""
        return (statistics - scale * self.mean) / (scale * self.spread)


@record
class World:
    """A reference to be resampled in blocks, and what it says of T."""

    gram: jax.Array  # (places, places) centred, of n frames; 0 in the padding
    remembers: Dependence
    block: jax.Array  # () frames
    norms: jax.Array  # (places,) squared, of the mean of the block that begins at a frame
    moments: Moments
    n: Any  # () frames in the Gram matrix
    frames: Any  # () N of the reference, of which these are n
    used: Any  # () frames that have a mean as uncertain as that of those in use

    @classmethod
    def of(
        cls,
        gram: jax.Array,
        frames: Any,
        window: int,
        block: Any = None,
        n: Any = None,
        used: Any = None,
    ) -> "World":
        """The world of a centred Gram matrix, in blocks of a length that is given, or found.

        Args:
            gram: Of n frames, (n, n), or of a bucket of them, with 0 in the padding.
            frames: N of the reference.
            window: The longest window.
            block: Frames of a block.
            n: How many of a bucket are real; all, by default.
            used: How many of the reference, evenly apart, are in use; all, by default.
        """
        n, used = len(gram) if n is None else n, frames if used is None else used
        found = dependence(gram, 4 * window, n)
        most = padding.at_most(n // 4, window)
        block = found.block(most) if block is None else jnp.asarray(block, jnp.int32)
        # The slowest features have the more to say in T_L the longer L is: squares of long blocks.
        long = jnp.where(block == 1, 1, jnp.clip(n // 40, block, 4 * block))
        size, (means, squares, _) = block.astype(gram.dtype), _squares(gram, block, found, n)
        _, of_pairs, of_long = _squares(gram, long, found, n)
        lengths = jnp.arange(1, window + 1, dtype=gram.dtype)
        # Coordinates are those of the reference, in which it spreads less than what follows.
        around = found.mean_of_some(used, frames)
        mean, seen = (
            (of_lengths + around) * (1 + _own(found, frames))
            for of_lengths in (found.mean(lengths), found.seen(lengths))
        )
        norms = jnp.diagonal(means)
        kappa = size**3 * jnp.maximum(padding.variance(norms, n) - 2 * squares, 0)
        excess = _excess(gram, kappa, block, found, lengths, n) / lengths**3
        moments = Moments(mean, jnp.sqrt(2 * of_pairs * (seen / of_long) ** 2 + excess))
        used = padding.number(frames) * found.mean(frames) / around
        return cls(gram, found, block, norms, moments, n, frames, used)

    @property
    def own(self) -> jax.Array:
        """By what share frames in the coordinates of a reference spread more than it does."""
        return _own(self.remembers, self.frames)

    def drawn(self, numbers: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Frames of a stream of blocks on a circle, and where blocks begin.

        Args:
            numbers: Uniform in [0, 1), one for each frame; those of whole blocks are used.
        """
        n, at = self.n, jnp.arange(len(numbers))
        starts = jnp.minimum((padding.number(n) * numbers).astype(jnp.int32), n - 1)
        return (starts[at // self.block] + at % self.block) % n, starts

    def kernel(self, i: jax.Array, j: jax.Array, lag: jax.Array) -> jax.Array:
        """k̃ of frames of a stream so many frames apart; 0 of blocks that overlap by chance.

        In the reference these are neighbours, which share what frames of a stream would not.
        """
        n = self.n
        ahead = (i - j) % n
        chance = (jnp.minimum(ahead, n - ahead) < self.block) & (ahead != lag % n)
        return jnp.where(chance, 0, self.gram[i, j])

    def reference(self, numbers: jax.Array) -> tuple[jax.Array, jax.Array]:
        """A resampled reference: its weights, and the scale f that it estimates.

        Args:
            numbers: Uniform in [0, 1), one for each place of the Gram matrix; n are used.
        """
        n, at = self.n, jnp.arange(len(self.gram))
        picked, starts = self.drawn(numbers)
        # The spread of the mean of those in use, not of n frames.
        weight = (padding.number(n) * padding.number(self.used)) ** -0.5
        scale = jnp.mean(self.norms[starts], where=at < n // self.block)
        weights = jnp.zeros(len(at)).at[picked].add(jnp.where(at < n, weight, 0))
        return weights, scale / padding.mean(self.norms, n)


def _own(found: Dependence, frames: Any) -> jax.Array:
    return jnp.minimum(_OWN * found.time / padding.number(frames), _MOST)


def _excess(
    gram: jax.Array,
    kappa: jax.Array,
    block: jax.Array,
    found: Dependence,
    lengths: jax.Array,
    n: Any,
) -> jax.Array:
    """κ_L of windows of so many frames, by κ of a block."""
    diagonal, count, size = jnp.diagonal(gram), padding.number(n), block.astype(gram.dtype)
    single = (jnp.sum(gram**2) - jnp.sum(diagonal**2)) / (count * (count - 1))
    first = jnp.maximum(padding.variance(diagonal, n) - 2 * single, 0)
    known = jnp.clip((lengths - 1) / jnp.maximum(size - 1, 1), 0, 1)
    most = jnp.maximum(lengths / size, 1)  # times V_B: of frames that forget nothing
    more = jnp.clip(most * found.mean(lengths) / found.mean(block), 1, most)
    return jnp.where(block == 1, kappa, first + (kappa * more**3 - first) * known)


def _squares(
    gram: jax.Array, block: jax.Array, found: Dependence, n: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """⟨mean of the block from i on, that from j on⟩; tr Σ² / block² by those apart; V / block."""
    at, size, count = jnp.arange(len(gram)), block.astype(gram.dtype), padding.number(n)
    means = _block_sums(_block_sums(gram, block, n).T, block, n) / size**2
    apart = jnp.abs(at[:, None] - at)
    apart = jnp.minimum(apart, n - apart) >= jnp.where(block == 1, 1, 2 * block)
    apart &= (at[:, None] < n) & (at < n)
    squares, share, mean = jnp.mean(means**2, where=apart), size / count, found.seen(block)
    of_these = jnp.minimum(padding.mean(jnp.diagonal(means), n), mean)
    mean = jnp.where(mean < _CANCELS * found.mean(block), of_these, mean)
    squares = (squares - (share * mean) ** 2) / (1 - 2 * share)  # the common mean
    return means, jnp.maximum(squares, mean**2 / count), mean


def _block_sums(values: jax.Array, block: jax.Array, n: Any) -> jax.Array:
    """Sums over so many rows from every row on, on a circle of n; 0 in the padding, as there."""
    total = jnp.concatenate([jnp.zeros_like(values[:1]), jnp.cumsum(values, axis=0)])
    end = jnp.arange(len(values)) + block
    around = end > n
    rest = jnp.where(around[:, None], total[-1], 0)
    sums = total[jnp.where(around, end - n, end)] - total[:-1] + rest
    return padding.cleared(sums, n)


def resampled(key: jax.Array, block: jax.Array, n: jax.Array, length: int) -> jax.Array:
    """So many of n places, in blocks on a circle, of which the first may begin before them."""
    k_phase, k_starts = jax.random.split(key)
    at = jnp.arange(length) + jax.random.randint(k_phase, (), 0, block)
    starts = jax.random.randint(k_starts, (length + 1,), 0, n)
    return (starts[at // block] + at % block) % n


@jit(static_argnames=("window", "draws"))
def window_draws(key: jax.Array, world: World, *, window: int, draws: int) -> tuple:
    """z of resampled windows, one for each resampled reference, and the scales f of these."""
    keys, length = jax.random.split(key, draws), window + len(world.gram)
    numbers = jax.vmap(lambda key: jax.random.uniform(key, (length,)))(keys)
    weights, scales = jax.vmap(world.reference)(numbers[:, window:])
    gaps, lags = weights @ world.gram, jnp.arange(window)

    def value(given: tuple) -> jax.Array:
        numbers, gaps, weights = given
        i, _ = world.drawn(numbers)
        of_window = world.kernel(i[:, None], i, lags[:, None] - lags).mean()
        return of_window - 2 * gaps[i].mean() + weights @ gaps

    values = in_batches(value, (numbers[:, :window], gaps, weights), _AT_ONCE)
    own = Moments(values.mean(), values.std())
    return own.standard(values, scales), scales


@jit(static_argnames=("window", "shortest", "horizon", "draws"))
def stream_draws(
    key: jax.Array, world: World, *, window: int, shortest: int, horizon: int, draws: int
) -> tuple:
    """max_L z_L after every frame of resampled streams, (draws, horizon), and their scales f.

    Lengths go from `shortest` to `window`; a length that exceeds the frames seen does not count.
    """
    lengths = jnp.arange(1, window + 1)

    def run(key: jax.Array, own: Moments, horizon: int) -> tuple:
        numbers = jax.random.uniform(key, (horizon + len(world.gram),))
        weights, scale = world.reference(numbers[horizon:])
        gaps = world.gram @ weights
        offset = weights @ gaps
        picked, _ = world.drawn(numbers[:horizon])

        def take(carry: tuple, given: tuple) -> tuple:
            sums, past, first, second = carry
            i, count = given
            past = jnp.concatenate([i[None], past[:-1]])
            lags = world.kernel(i, past, lengths - 1) - gaps[i] - gaps[past] + offset
            sums = grown(sums, 2 * jnp.cumsum(lags) - lags[0])
            values = sums / lengths.astype(sums.dtype) ** 2
            kept = jnp.where(count >= window, values, 0)
            first, second = first + kept, second + kept**2
            counts = (lengths >= shortest) & (lengths <= count)
            z = jnp.max(jnp.where(counts, own.standard(values, scale), -jnp.inf))
            return (sums, past, first, second), z

        zero = jnp.zeros(window)
        start = (zero, jnp.zeros(window, picked.dtype), zero, zero)
        counts = jnp.arange(1, horizon + 1)
        (_, _, first, second), z = jax.lax.scan(take, start, (picked, counts))
        return first, second, z, scale

    plain = Moments(jnp.zeros(window), jnp.ones(window))
    k_pilot, k_run = jax.random.split(key)
    pilots = 4 * window

    def moments_of(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        first, second, *_ = run(key, plain, pilots)
        return first, second

    keys = jax.random.split(k_pilot, draws)
    first, second = in_batches(moments_of, keys, _AT_ONCE)
    looks = draws * (pilots - window + 1)
    mean = first.sum(0) / looks
    own = Moments(mean, jnp.sqrt(second.sum(0) / looks - mean**2))
    keys = jax.random.split(k_run, draws)
    _, _, z, scales = in_batches(lambda key: run(key, own, horizon), keys, _AT_ONCE)
    return z, scales
