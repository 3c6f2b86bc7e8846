"""Hotelling's T²: the multivariate t-test of equal means.

    T² = (n_X n_Y / n) δᵀ S⁻¹ δ,   δ = x̄ − ȳ,   S the pooled covariance over n − 2,   n = n_X + n_Y.

For Gaussian samples of d features, F = (n−d−1) / ((n−2) d) · T² has the law F(d, n−d−1) under H0,
exactly. It needs n − 2 ≥ d. `shrinkage` lifts that: S is mixed with a multiple of the identity,
and the null law comes from permuted labels.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from ntkmmd_jax.calibration import NullStatistics, Relabelling, check_level, relabel
from ntkmmd_jax.measure import as_samples, check_finite, points_like, signed_measure
from ntkmmd_jax.pytree import record, static
from ntkmmd_jax.statistics import mmd2
from ntkmmd_jax.twosample.contract import TwoSampleTest, analytic_result, permutation_result
from ntkmmd_jax.twosample.result import TwoSampleResult
from ntkmmd_jax.witness import savable

_NODES = 64  # of the quadrature of the F tail
_DROP = 25.0  # beyond e^−25 of where it starts, the tail's integrand is left out
_LIMIT = 80.0  # of s: eˢ is finite in single precision


@savable
@record
class LinearWitness:
    """The linear discriminant g(z) = ⟨v, z − m⟩, v = S⁻¹ (x̄ − ȳ), m half-way between the means."""

    direction: jax.Array  # v, of the shape of one point
    centre: jax.Array  # m, likewise

    def __call__(self, points: Any) -> jax.Array:
        """The score at points of shape (n, ...): positive where p is the likelier. Shape (n,)."""
        points = points_like(points, self.centre.shape)
        return (points - self.centre).reshape(len(points), -1) @ self.direction.reshape(-1)

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        return {"features": self.centre.shape}

    @classmethod
    def blank(cls, described: dict[str, Any], network: Any = None) -> "LinearWitness":
        """A witness of zeros, to be refilled with saved leaves; it has no network."""
        zeros = jnp.zeros(described["features"])
        return cls(zeros, zeros)


@record
class Hotelling(TwoSampleTest):
    """Hotelling's T², with the exact F law; features beyond one axis are flattened.

    A singular covariance (a constant, duplicate or dependent feature) is a `ValueError`; in a
    traced call, where data cannot be looked at, the p-value is NaN and `reject` False.

    With `shrinkage` λ the covariance is (1 − λ) C + λ (tr C / d) I, C that of the pooled sample
    about its one mean. C knows no labels, so T² is a quadratic form in the mean difference, all
    permutations are one matrix product, and the test is exact for any law and any n and d.
    """

    uses_lapack = True

    shrinkage: Any = None  # λ in (0, 1], traced; None: the F law
    n_permutations: int = static(default=400)  # with shrinkage
    shared_pool: bool = static(default=False)  # one pool of labellings for all replicas
    level: Any = 0.05

    def __post_init__(self) -> None:
        check_level(self.level, None if self.shrinkage is None else self.n_permutations)
        known = isinstance(self.shrinkage, int | float | np.generic)
        if known and not 0 < self.shrinkage <= 1:
            raise ValueError(f"shrinkage must lie in (0, 1]; got {self.shrinkage}")

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "hotelling"

    def __call__(self, key: Any, x: Any, y: Any) -> TwoSampleResult:
        """Test whether x (n_X, ...) and y (n_Y, ...) have the same mean; see `TwoSampleTest`."""
        x, y = as_samples(x, y)
        result = super().__call__(key, x, y)
        traced = isinstance(result.pvalue, jax.core.Tracer)
        if not traced and np.isnan(result.pvalue):
            check_finite(x, "x")
            check_finite(y, "y")
            raise ValueError(
                "the pooled covariance is singular: a feature is constant within the samples, or "
                "depends on others; drop it, or use shrinkage (more, if you do; for instance 0.1)"
            )
        return result

    def run(self, key: jax.Array, x: jax.Array, y: jax.Array) -> TwoSampleResult:
        """T² and its F law; or, with shrinkage, its permutations."""
        n_x, n_y, features = len(x), len(y), x.shape[1:]
        x, y = x.reshape(n_x, -1), y.reshape(n_y, -1)
        d, n = x.shape[1], n_x + n_y
        rest = {"method": self.method, "n_x": n_x, "n_y": n_y}
        centre = (x.mean(0) + y.mean(0)) / 2
        if self.shrinkage is not None:
            relabelling = relabel(key, n_x, n_y, self.n_permutations, shared=self.shared_pool)
            null, direction = shrunk_null(relabelling, x, y, self.shrinkage)
            witness = LinearWitness(direction.reshape(features), centre.reshape(features))
            return permutation_result(relabelling, null, self.level, witness=witness, **rest)
        if n - 2 < d:
            raise ValueError(
                f"too few samples for the covariance of {d} features: n_x + n_y − 2 = {n - 2}; "
                "use fewer features, more samples, or shrinkage (for instance 0.1)"
            )
        statistic, direction = t_squared(x, y)
        witness = LinearWitness(direction.reshape(features), centre.reshape(features))
        pvalue, threshold = f_law(statistic, self.level, d, n)
        return analytic_result(statistic, pvalue, threshold, self.level, witness=witness, **rest)


def t_squared(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """T² and the direction S⁻¹ (x̄ − ȳ) of samples (n_X, d), (n_Y, d); NaN if S is singular."""
    n_x, n_y, d = len(x), len(y), x.shape[1]
    n = n_x + n_y
    pooled = jnp.concatenate([x, y])
    size, centre = jnp.max(jnp.abs(pooled), axis=0), pooled.mean(0)
    x, y = x - centre, y - centre  # far from the origin, means lose digits
    residuals = jnp.concatenate([x - x.mean(0), y - y.mean(0)])
    # In units of its own spread every feature counts alike.
    spread = jnp.sqrt(jnp.sum(residuals**2, axis=0) / (n - 2))
    root = triangular_root(residuals / (spread * math.sqrt(n - 2)))
    # A pivot is what the features before leave unexplained of one; rounding alone leaves this:
    noise = 8 * jnp.finfo(x.dtype).eps * (size / spread + math.sqrt(d))
    regular = jnp.all((jnp.abs(jnp.diagonal(root)) > noise) & (noise < 1))
    gap = (x.mean(0) - y.mean(0)) / spread
    half = solve_triangular(root, gap, trans="T")  # S = RᵀR in these units
    statistic = n_x * n_y / n * jnp.vdot(half, half)
    return jnp.where(regular, statistic, jnp.nan), solve_triangular(root, half) / spread


def triangular_root(z: jax.Array) -> jax.Array:
    """The upper triangular R with RᵀR = zᵀz, for columns of length 1; NaN if that is singular.

    Cholesky, three times over: z R⁻¹ is ever closer to orthogonal, so that in the end R has the
    digits of a QR factorisation, in matrix products. The first time a shift keeps it from failing
    (Fukaya et al. 2020, shifted CholeskyQR3).
    """
    root = identity = jnp.eye(z.shape[1], dtype=z.dtype)
    for shift in (4 * z.shape[1] * jnp.finfo(z.dtype).eps, 0.0, 0.0):
        gram = jnp.matmul(z.T, z, precision="highest")
        lower = jnp.linalg.cholesky(gram + shift * identity)
        inverse = solve_triangular(lower, identity, lower=True)
        z = jnp.matmul(z, inverse.T, precision="highest")
        root = jnp.matmul(lower.T, root, precision="highest")
    return root


def f_law(statistic: jax.Array, level: Any, d: int, n: int) -> tuple[jax.Array, jax.Array]:
    """The p-value of T² and the threshold of the level, by F(d, n−d−1).

    With b = d/2 and a = (n−d−1)/2, F = (a/b) T²/(n−2), and s = log F has the density

        f(s) = exp(b s − (a+b) log(1 + (eˢ−1) b/(a+b)) + const),

    log-concave with its mode at 0. The tail is integrated by Gauss–Legendre from s to where f has
    died out. The const is summed in double precision beforehand: `betainc` takes it from float32
    logarithms of Γ and is off by 1 % at n = 20,000, by 25 % at 10⁶.
    """
    a, b = (n - d - 1) / 2, d / 2
    share = b / (a + b)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    constant = a * math.log1p(-share) + b * math.log(share) - log_beta
    dtype = statistic.dtype
    nodes, masses = (jnp.asarray(v, dtype) for v in np.polynomial.legendre.leggauss(_NODES))

    def log_density(s: Any, by: Any = math) -> Any:
        return b * s - (a + b) * by.log1p(share * by.expm1(s)) + constant

    def reach(side: int) -> float:
        """How far from the mode f has died out; from beyond the mode it dies out sooner."""
        length = math.sqrt(1 / a + 1 / b)
        while log_density(side * length) > log_density(0.0) - _DROP:
            length *= 1.2
        return length

    left, right = reach(-1), reach(1)

    def tail(s: jax.Array) -> jax.Array:
        odds = share * jnp.exp(s)
        slope = jnp.abs((a + b) * odds / (1 - share + odds) - b)
        length = jnp.minimum(jnp.where(s < 0, left, right), _DROP / slope)
        away = length * (1 + nodes) / 2
        density = jnp.exp(log_density(jnp.where(s < 0, s - away, s + away), jnp))
        integral = length * jnp.vdot(masses, density) / 2
        return jnp.where(s < 0, 1 - integral, integral)

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        middle = (low + high) / 2
        above = tail(middle) > level
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    s = jnp.log(statistic * a / (b * (n - 2)))
    ends = (jnp.asarray(-_LIMIT, dtype), jnp.asarray(_LIMIT, dtype))
    quantile = jax.lax.fori_loop(0, 48, halve, ends)[1]
    pvalue = jnp.maximum(tail(jnp.clip(s, *ends)), jnp.finfo(dtype).tiny)  # never 0
    return pvalue, b * (n - 2) / a * jnp.exp(quantile)


def shrunk_null(
    relabelling: Relabelling, x: jax.Array, y: jax.Array, shrinkage: Any
) -> tuple[NullStatistics, jax.Array]:
    """T² with the shrunk covariance Σ under every labelling, and the direction Σ⁻¹ (x̄ − ȳ).

    With Z the centred points in units of √(tr C / d), T² ∝ |wᵀ Z L⁻ᵀ|² where L Lᵀ = Σ is (d, d);
    for d > n, T² ∝ wᵀ K w with K = Z Σ⁻¹ Zᵀ = M⁻¹ Z Zᵀ, where M = (1−λ) Z Zᵀ/(n−1) + λ I is (n, n).
    """
    measure = signed_measure(x, y)
    z = measure.points - measure.points.mean(0)
    n, d = z.shape
    unit = jnp.sqrt(jnp.sum(z**2) / ((n - 1) * d))
    unit = jnp.where(unit == 0, 1, unit)  # all points are equal: every T² is 0, and p is 1
    z = z / unit
    rows = z.T if d <= n else z
    gram = jnp.matmul(rows, rows.T, precision="highest")
    factor = jnp.linalg.cholesky((1 - shrinkage) / (n - 1) * gram + shrinkage * jnp.eye(len(gram)))
    weights, order = relabelling.weights.astype(z.dtype), relabelling.order
    if d <= n:
        white = solve_triangular(factor, z.T, lower=True).T
        values = jnp.sum((weights @ white[order]) ** 2, axis=1)
        spread = jnp.mean(jnp.sum(white**2, axis=1))
        direction = cho_solve((factor, True), measure.weights @ z)
    else:
        kernel = cho_solve((factor, True), gram)
        values = mmd2(kernel[order][:, order], weights)
        spread = jnp.mean(jnp.diagonal(kernel))
        direction = cho_solve((factor, True), measure.weights) @ z
    scale = len(x) * len(y) / n
    # Sums of n terms of size √spread round at eps, and squares at twice their root.
    tolerance = 16 * jnp.finfo(z.dtype).eps * scale * jnp.sqrt(jnp.max(values) * spread)
    return NullStatistics(scale * values, tolerance), direction / unit
