"""Witnesses that learn online, block by block, in memory that does not grow.

Each is a recipe, like an optimizer: `init` draws θ0, `scores` says what the k witnesses that it
stands for think of some points, and `learn` takes in a block. A bettor scores a block before it
learns from it.

*Exact*: v is the mean of ∇f(x; θ0) − ∇f(y; θ0) over the blocks so far, g = ∂_v f(·; θ0).
*Trained*: an optimizer takes one step per block on a loss of h = f(·; θ) − f(·; θ0), and g = h.

Points come in standard coordinates. `scale` is the unit in which the network sees them, as a share
of √(2d), the root mean square distance between two points.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.checks import positive
from ntkmmd_jax._lib.optimizer import updates
from ntkmmd_jax._lib.records import record, shown
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Params, as_network, mlp
from ntkmmd_jax.sequential.payoff import Block
from ntkmmd_jax.training.losses import named_loss
from ntkmmd_jax.witness import Witness, velocity

if TYPE_CHECKING:
    import optax

Learned = Any  # what a learner knows: a pytree of fixed shapes


@dataclasses.dataclass(frozen=True, repr=False)
class Learner:
    """Base of the witnesses that learn; a static recipe, equal where its fields are.

    Attributes:
        network: A network of ours, a flax module or an `(init, apply)` pair.
        scale: The unit of its inputs, in root mean square distances between points.
    """

    network: Any = dataclasses.field(default_factory=mlp)
    scale: float = 1.0

    __repr__ = shown

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", as_network(self.network))
        positive("scale", self.scale)

    @property
    def names(self) -> tuple[str, ...]:
        """One per witness."""
        raise NotImplementedError

    def init(self, key: jax.Array, features: tuple[int, ...]) -> Learned:
        """Know nothing yet, of points of a shape: draw θ0."""
        raise NotImplementedError

    def scores(self, learned: Learned, points: jax.Array) -> jax.Array:
        """What the k witnesses say of points (n, ...) in standard coordinates, shape (k, n)."""
        raise NotImplementedError

    def learn(self, learned: Learned, block: Block) -> Learned:
        """Take in a block."""
        raise NotImplementedError

    def seen(self, points: jax.Array) -> jax.Array:
        """Points in the unit of the network."""
        return points / (self.scale * math.sqrt(2 * math.prod(points.shape[1:])))

    @property
    def described(self) -> str:
        """Network and scale in words."""
        recipe = self.network.recipe
        name = "own network" if recipe is None else recipe[0]
        if recipe is not None and dict(recipe[1]).get("additive"):
            name = f"additive {name}"
        return f"{name}, scale {self.scale:g}"


def check_memory(memory: float | None) -> None:
    """Refuse what is no number of blocks."""
    if memory is not None and not memory > 1:
        raise ValueError(f"memory, in blocks, must exceed 1; got {memory!r}")


@record
class ExactState:
    """The mean gradient."""

    params: Params  # θ0
    velocity: Params  # v, on the trained leaves
    n: jax.Array  # () blocks


@dataclasses.dataclass(frozen=True, repr=False)
class Exact(Learner):
    """The exact witness of the neural tangent kernel.

    Attributes:
        network: As for every learner.
        scale: Likewise.
        memory: Blocks over which the past is forgotten; None never forgets.
    """

    memory: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self.memory)

    @property
    def names(self) -> tuple[str, ...]:
        """Of its one witness."""
        return (f"exact, {self.described}",)

    def init(self, key: jax.Array, features: tuple[int, ...]) -> ExactState:
        """Draw θ0."""
        params = self.network.init(key, jnp.zeros((1, *features)))
        zero = jax.tree.map(jnp.zeros_like, self.network.trainable(params)[1])
        return ExactState(params, zero, jnp.zeros((), jnp.int32))

    def scores(self, learned: ExactState, points: jax.Array) -> jax.Array:
        """∂_v f(·; θ0), shape (1, n)."""
        zero = jnp.zeros((), points.dtype)
        about = {"network": self.network, "features": points.shape[1:], "nodes": 1}
        witness = Witness(learned.params, learned.velocity, zero, **about)
        return witness(self.seen(points))[None]

    def learn(self, learned: ExactState, block: Block) -> ExactState:
        """Take the gradient of a block into the mean."""
        measure = SignedMeasure(self.seen(block.points), block.weights)
        new = velocity(self.network, learned.params, measure)
        by = 1 / (learned.n + 1).astype(block.weights.dtype)
        by = by if self.memory is None else jnp.maximum(by, 1 / self.memory)
        mean = jax.tree.map(lambda old, one: old + by * (one - old), learned.velocity, new)
        return ExactState(learned.params, mean, learned.n + 1)


@record
class TrainedState:
    """Where the training stands."""

    params: Params  # θ0
    moved: Params  # θ − θ0, on the trained leaves
    optimizer: Any  # its own state


@dataclasses.dataclass(frozen=True, repr=False)
class Trained(Learner):
    """A network that is trained, a step per block.

    Attributes:
        network: As for every learner.
        scale: Likewise.
        learning_rate: Of Adam, unless there is an optimizer.
        loss: "logistic", "l2" or "linear" (the paper's).
        optimizer: Any of optax; no file can hold it, so it is given again to `load`.
    """

    learning_rate: float = 0.01
    loss: str = "logistic"
    optimizer: "optax.GradientTransformation | None" = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("learning_rate", self.learning_rate)
        named_loss(self.loss)

    @property
    def names(self) -> tuple[str, ...]:
        """Of its one witness."""
        return (f"trained, {self.loss}, {self.described}",)

    @property
    def transformation(self) -> "optax.GradientTransformation":
        """The optimizer in use."""
        import optax

        return self.optimizer or optax.adam(self.learning_rate)

    def init(self, key: jax.Array, features: tuple[int, ...]) -> TrainedState:
        """Draw θ0."""
        params = self.network.init(key, jnp.zeros((1, *features)))
        theta = self.network.trainable(params)[1]
        zero = jax.tree.map(jnp.zeros_like, theta)
        return TrainedState(params, zero, self.transformation.init(theta))

    def scores(self, learned: TrainedState, points: jax.Array) -> jax.Array:
        """f(·; θ) − f(·; θ0), shape (1, n)."""
        about = {"network": self.network, "features": points.shape[1:]}
        one = jnp.ones((), points.dtype)
        return Witness(learned.params, learned.moved, one, **about)(self.seen(points))[None]

    def learn(self, learned: TrainedState, block: Block) -> TrainedState:
        """One step on a block."""
        f, theta = self.network.trainable(learned.params)
        points = self.seen(block.points)
        start = f(theta, points)

        def loss(moved: Params) -> jax.Array:
            h = f(jax.tree.map(jnp.add, theta, moved), points) - start
            return named_loss(self.loss)(h, block.weights)

        at = jax.tree.map(jnp.add, theta, learned.moved)
        gradient = jax.grad(loss)(learned.moved)
        by, optimizer = updates(self.transformation, gradient, learned.optimizer, at)
        return TrainedState(learned.params, jax.tree.map(jnp.add, learned.moved, by), optimizer)
