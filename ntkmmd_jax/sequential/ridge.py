"""The ridge witness: the direction of the largest signal to noise, g(x) = θ·φ(x).

Wealth grows at the rate (E F)² / 2 E F², so what counts of a witness is signal to noise. Over the
differences u = φ(x) − φ(y) of the blocks so far, φ(x) = ∂f(x; θ0), it is largest for

    θ = (Σ u uᵀ + ρ)⁻¹ Σ u,

the least-squares fit of the number 1 by θ·u. The sums A = Σ u uᵀ and b = Σ u keep their accuracy,
unlike the inverse of recursive least squares; θ is found anew by conjugate gradients, from where it
was, whenever the blocks are a sixteenth more. Every ρ is a witness of its own. The u of the last
few blocks wait, to be taken into A by one product.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ntkmmd_jax._lib.checks import positive
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.networks import Params, fourier
from ntkmmd_jax.sequential.learners import Learner, check_memory
from ntkmmd_jax.sequential.payoff import Block

MOST = 2048  # features: A has their square
_OFTEN = 16  # θ is found anew when blocks are more by one in so many
_WAIT = 16  # blocks that wait at most
_STEPS = 8  # of conjugate gradients
_DRAWS = 64  # Gaussian points behind the size of the features


@record
class RidgeState:
    """The sums over the blocks, and the solutions."""

    params: Params  # θ0
    unit: jax.Array  # () root mean square of |∂f| at Gaussian points
    products: jax.Array  # (m, m) A, without the u that wait
    recent: jax.Array  # (16, m) those; rows of 0 where none does
    faded: jax.Array  # () what is left of A since the last of it, if the past is forgotten
    total: jax.Array  # (m,) b
    solutions: jax.Array  # (k, m) θ for every ρ
    n: jax.Array  # () blocks


@dataclasses.dataclass(frozen=True, repr=False)
class Ridge(Learner):
    """The witness of the largest signal to noise on the tangent features of a network.

    Attributes:
        network: A network with at most 2,048 trained weights, each a feature; freeze the others.
        scale: The unit of its inputs, in root mean square distances between points.
        ridges: ρ, one witness each; features are scaled such that |φ|² is about 1.
        memory: Blocks after which the past is forgotten; None never forgets.
    """

    network: Any = dataclasses.field(default_factory=lambda: fourier(128))
    scale: float = 0.5
    ridges: tuple[float, ...] = (0.03, 0.3, 3.0)
    memory: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self.memory)
        object.__setattr__(self, "ridges", tuple(self.ridges))
        if not self.ridges:
            raise ValueError("no ridges given: name at least one, as ridges=(0.3,)")
        for ridge in self.ridges:
            positive("a ridge", ridge)

    @property
    def names(self) -> tuple[str, ...]:
        """One per ρ."""
        return tuple(f"ridge {ridge:g}, {self.described}" for ridge in self.ridges)

    def init(self, key: jax.Array, features: tuple[int, ...]) -> RidgeState:
        """Draw θ0."""
        k_params, k_unit = jax.random.split(key)
        params = self.network.init(k_params, jnp.zeros((1, *features)))
        found = self._tangents(params, jax.random.normal(k_unit, (_DRAWS, *features)))
        m = found.shape[1]
        if m > MOST:
            raise ValueError(
                f"a ridge witness takes at most {MOST:,} features, and the network has {m:,} "
                "trained weights: take fewer units, or freeze layers"
            )
        unit = jnp.sqrt(jnp.mean(jnp.sum(found**2, axis=1)))
        k, dtype = len(self.ridges), found.dtype
        shapes = ((m, m), (_WAIT, m), (), (m,), (k, m))
        sums: list[Any] = [jnp.zeros(shape, dtype) for shape in shapes]
        return RidgeState(params, unit, *sums, n=jnp.zeros((), jnp.int32))

    def scores(self, learned: RidgeState, points: jax.Array) -> jax.Array:
        """θ·φ of every ρ, shape (k, n)."""
        return learned.solutions @ self._features(learned, points).T

    def learn(self, learned: RidgeState, block: Block) -> RidgeState:
        """Take a block into the sums and, if it is time, solve anew."""
        u = block.weights @ self._features(learned, block.points)
        keep = 1.0 if self.memory is None else 1 - 1 / self.memory
        n, total = learned.n + 1, keep * learned.total + u
        faded = keep * learned.faded
        recent = (math.sqrt(keep) * learned.recent).at[learned.n % _WAIT].set(u)
        due = n % jnp.maximum(n // _OFTEN, 1) == 0
        full = n % _WAIT == 0

        def taken_in() -> tuple[jax.Array, jax.Array, jax.Array]:
            products = faded * learned.products + recent.T @ recent
            return products, jnp.zeros_like(recent), jnp.ones_like(faded)

        products, waiting, left = jax.lax.cond(
            due | full, taken_in, lambda: (learned.products, recent, faded)
        )
        solutions = jax.lax.cond(
            due,
            lambda: self._solved(products, total, learned.solutions),
            lambda: learned.solutions,
        )
        sums = (products, waiting, left, total, solutions)
        return RidgeState(learned.params, learned.unit, *sums, n)

    def _features(self, learned: RidgeState, points: jax.Array) -> jax.Array:
        """φ of points, (n, m)."""
        return self._tangents(learned.params, points) / learned.unit

    def _tangents(self, params: Params, points: jax.Array) -> jax.Array:
        f, theta = self.network.trainable(params)

        def tangent(point: jax.Array) -> jax.Array:
            return ravel_pytree(jax.grad(lambda theta: f(theta, point[None])[0])(theta))[0]

        return jax.vmap(tangent)(self.seen(points))

    def _solved(self, products: jax.Array, total: jax.Array, start: jax.Array) -> jax.Array:
        """(A + ρ)⁻¹ b for every ρ, (k, m)."""
        ridges = jnp.asarray(self.ridges, total.dtype)[:, None]
        return conjugate_gradients(lambda v: v @ products + ridges * v, total, start)


def conjugate_gradients(operator: Any, target: jax.Array, start: jax.Array) -> jax.Array:
    """Solve operator(v) = target for rows (k, m), each its own system, in `_STEPS` steps."""

    def step(_: Any, carry: tuple) -> tuple:
        v, residual, along, size = carry
        ahead = operator(along)
        length = _ratio(size, jnp.sum(along * ahead, axis=1, keepdims=True))
        v, residual = v + length * along, residual - length * ahead
        smaller = jnp.sum(residual**2, axis=1, keepdims=True)
        return v, residual, residual + _ratio(smaller, size) * along, smaller

    residual = target - operator(start)
    size = jnp.sum(residual**2, axis=1, keepdims=True)
    return jax.lax.fori_loop(0, _STEPS, step, (start, residual, residual, size))[0]


def _ratio(a: jax.Array, b: jax.Array) -> jax.Array:
    """a / b, and 0 once there is nothing left to do."""
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)
