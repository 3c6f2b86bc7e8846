"""MMD² with a standard error and confidence bounds, from any kernel.

    MMD² = |δ|²,   δ = E_p φ − E_q φ,   k(z, z') = ⟨φ(z), φ(z')⟩,

estimated without bias by the U-statistic θ̂ (all pairs but those of a point with itself). With
Σ = Σ_p/n_X + Σ_q/n_Y, the covariances of φ, s = |Σ|_F and to leading order in n,

    Var θ̂ = 4 ⟨δ, Σ δ⟩ + 2 s²:

away from p = q the first term, and a normal law; at p = q the second, and a centred sum of χ². What
stands for δ in the first is δ̂ = δ + noise, so that the jackknife (Arvesen 1969),

    error² = 4 ⟨δ̂, Σ δ̂⟩,   on average 4 ⟨δ, Σ δ⟩ + 4 s²,

is too large near p = q and right away from it (Efron & Stein 1981). It is large when θ̂ is, hence

- `lower`, θ̂ − z · error, errs on the safe side, the more the nearer p = q;
- `upper` must not take it, for it is small when θ̂ is: it is the largest m with θ̂ ≥ m − z · σ(m),
  σ(m)² = 4 m ρ + 2 s² the variance if MMD² is m, with ρ = ⟨δ̂, Σ δ̂⟩ / θ̂, at most s.

Both are limits in n: `benchmarks/tolerance.py` has what they come to at 50, 200 and 1,000 points.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from ntkmmd_jax._lib.laws import normal_law
from ntkmmd_jax._lib.precision import pinned
from ntkmmd_jax._lib.records import record
from ntkmmd_jax._lib.tiles import even_size, tiled

Kernel = Callable[[jax.Array, jax.Array], jax.Array]  # (n1, ...), (n2, ...) -> (n1, n2)
_TILE = 1024  # rows and columns of the kernel matrix that are held at once
_LANDMARKS = 16  # of each sample, about whose mean the kernel is centred
_ROUNDING = 8  # units in the last place of the kernel, which sums over tiles stay within
LEAST = 4  # points of each sample that the estimate needs


@record
class EstimatedMMD:
    """An estimate of MMD², its standard error, and bounds that hold with some confidence."""

    mmd2: jax.Array  # () θ̂, without bias, so that it may be negative
    error: jax.Array  # () its standard error, by the jackknife
    spread: jax.Array  # () s; under p = q, θ̂ has the standard deviation √2 s

    @property
    def mmd(self) -> jax.Array:
        """√θ̂, or 0 where θ̂ is negative."""
        return jnp.sqrt(jnp.maximum(self.mmd2, 0))

    def error_at(self, mmd2: Any) -> jax.Array:
        """The standard deviation that θ̂ has if MMD² is this: √(4 m ρ + 2 s²)."""
        return jnp.sqrt(4 * mmd2 * self._slope + 2 * self.spread**2)

    @property
    def _slope(self) -> jax.Array:
        """ρ = ⟨δ̂, Σ δ̂⟩ / θ̂, at most s, the largest that it can be."""
        known = self.mmd2 * self.spread > self.error**2 / 4
        return jnp.where(known, self.error**2 / (4 * jnp.where(known, self.mmd2, 1)), self.spread)

    def lower(self, level: Any) -> jax.Array:
        """What MMD² is above, but for a probability of `level`; negative where nothing is said."""
        return self.mmd2 - _quantile(level, self.mmd2) * self.error

    def upper(self, level: Any) -> jax.Array:
        """What MMD² is below, but for a probability of `level` (of at most a half)."""
        z = _quantile(level, self.mmd2)
        centre = self.mmd2 + 2 * z**2 * self._slope
        # The larger root of (m − θ̂)² = z² (4 m ρ + 2 s²); of θ̂ far below 0 there may be none.
        square = centre**2 - self.mmd2**2 + 2 * (z * self.spread) ** 2
        return jnp.maximum(centre + jnp.sqrt(jnp.maximum(square, 0)), 0)

    def interval(self, level: Any = 0.05) -> tuple[jax.Array, jax.Array]:
        """Ends between which MMD² lies, but for a probability of `level`; not below 0."""
        level = jnp.asarray(level, self.mmd2.dtype) / 2
        return jnp.maximum(self.lower(level), 0), self.upper(level)

    def above(self, mmd2: Any) -> jax.Array:
        """The p-value of "MMD² is at most this": small if the samples differ by more."""
        return normal_law(self.mmd2 - mmd2, self.error, 0.5)[0]

    def below(self, mmd2: Any) -> jax.Array:
        """The p-value of "MMD² is at least this": small if the samples differ by less."""
        return normal_law(mmd2 - self.mmd2, self.error_at(mmd2), 0.5)[0]


def _quantile(level: Any, like: jax.Array) -> jax.Array:
    return -ndtri(jnp.asarray(level, like.dtype))


@pinned
def estimate_mmd(kernel: Kernel, x: jax.Array, y: jax.Array) -> EstimatedMMD:
    """MMD² of two samples, with a standard error, in quadratic time and the memory of a tile.

    The kernel must not have been chosen by how far x and y are apart. A bandwidth from the pooled
    points is fine: the estimate is of the MMD at that bandwidth.

    Args:
        kernel: k(x1, x2), of shape (n1, n2) for points (n1, ...) and (n2, ...).
        x: Points, shape (n_X, ...), at least 4.
        y: Likewise, with the same features.

    Example:
        >>> import jax
        >>> import ntkmmd_jax as ntk
        >>> x, y = ntk.datasets.mean_shift(jax.random.key(0), 60, 50, delta=3.0, dim=2)
        >>> found = ntk.estimate_mmd(ntk.GaussianKernel(1.0), x, y)
        >>> bool(found.lower(0.05) > 0)
        True
    """
    n_x, n_y = len(x), len(y)
    if min(n_x, n_y) < LEAST:
        raise ValueError(f"MMD² and its error need {LEAST} points of each; got {n_x} and {n_y}")
    points = jnp.concatenate([x, y])
    of_x = jnp.arange(n_x + n_y) < n_x
    samples = jnp.stack([of_x, ~of_x], axis=1).astype(points.dtype)
    # What depends on one of both points alone drops out of everything below: without, less cancels.
    landmarks = jnp.concatenate([x[:_LANDMARKS], y[:_LANDMARKS]])
    level = kernel(landmarks, points).mean(0)
    size = even_size(len(points), _TILE)
    columns = (tiled(points, size), tiled(level, size), tiled(samples, size, fill=0))
    numbers = jnp.arange(len(columns[0]))

    def row_sums(row: tuple) -> tuple[jax.Array, jax.Array, jax.Array]:
        def add(total: tuple, column: tuple) -> tuple[tuple, None]:
            j, z, of_z, weights = column
            k = kernel(row[1], z) - row[2][:, None] - of_z
            diagonal = jnp.where(row[0] == j, jnp.diagonal(k), 0)
            found = (k @ weights, k**2 @ weights, diagonal)
            return jax.tree.map(jnp.add, total, found), None

        zero = jnp.zeros_like(row[3])
        return jax.lax.scan(add, (zero, zero, zero[:, 0]), (numbers, *columns))[0]

    found = jax.lax.map(row_sums, (numbers, *columns))
    sums, squares, diagonal = (leaf.reshape(-1, *leaf.shape[2:])[: n_x + n_y] for leaf in found)
    of = [_within(sums[:n_x, 0], squares[:n_x, 0], diagonal[:n_x])]
    of += [_within(sums[n_x:, 1], squares[n_x:, 1], diagonal[n_x:])]
    across = (sums[:n_x, 1] / n_y, sums[n_x:, 0] / n_x)  # means over the other sample
    cross = across[0].mean()
    # Jackknife values of θ̂, two for one: invariant to what depends on one point alone.
    own = [(one.rows / (n - 2) - mean) for one, n, mean in zip(of, (n_x, n_y), across, strict=True)]
    variance = 4 * (own[0].var(ddof=1) / n_x + own[1].var(ddof=1) / n_y)
    between = jnp.mean(squares[:n_x, 1] / n_y) + cross**2
    between -= jnp.mean(across[0] ** 2) + jnp.mean(across[1] ** 2)
    pairs = [n * (n - 1.0) for n in (n_x, n_y)]  # floats: they may be beyond an int32
    spread2 = of[0].trace / pairs[0] + of[1].trace / pairs[1]
    spread2 += 2 * between / ((n_x - 1.0) * (n_y - 1.0))
    # No estimate is better than its rounding: of tied points it is all that there is.
    rounding = _ROUNDING * jnp.finfo(points.dtype).eps * jnp.max(jnp.abs(level))
    return EstimatedMMD(
        of[0].mean + of[1].mean - 2 * cross,
        jnp.sqrt(variance + rounding**2),
        jnp.sqrt(jnp.maximum(spread2, 0) + rounding**2),
    )


@record
class _Within:
    """What the pairs of different points of one sample come to."""

    rows: jax.Array  # (n,) Σ_{j≠i} k(z_i, z_j)
    mean: jax.Array  # () over all pairs
    trace: jax.Array  # () tr Σ², without bias: HSIC of the sample with itself (Song et al. 2012)


def _within(sums: jax.Array, squares: jax.Array, diagonal: jax.Array) -> _Within:
    n = float(len(sums))  # whose square may be beyond an int32
    rows, total = sums - diagonal, jnp.sum(sums - diagonal)
    trace = jnp.sum(squares - diagonal**2) - 2 * jnp.sum(rows**2) / (n - 2)
    trace += total**2 / ((n - 1) * (n - 2))
    return _Within(rows, total / (n * (n - 1)), trace / (n * (n - 3)))
