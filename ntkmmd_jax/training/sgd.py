"""How to train: stochastic gradient descent on L(θ) = −Σ w_i f(z_i; θ), for a short time.

    θ_k = θ_{k−1} + α Σ_{i in batch k} w_i ∇f(z_i; θ_{k−1}),

or on another loss of h = f(·; θ) − f(·; θ0) (`losses.py`), which is 0 at the start.

The loss is a sum over samples whose weights already hold 1/n, so one epoch takes time t = α
whatever the batch size, and k of n samples α k/n. The paper's "effective learning rate" is α / n_X.
"""

import itertools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.checks import positive, whole
from ntkmmd_jax._lib.padding import is_full, random_order
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.measure import Visits
from ntkmmd_jax.training.losses import named_loss

if TYPE_CHECKING:
    import optax  # only training by steps of its own imports it: it takes a while

_RATE = 0.1


@record
class SGD:
    """How to train: plain SGD with momentum, or any optax optimizer.

    The default is the paper's: one pass over the shuffled samples, batch size 1, α = 0.1.

    Args:
        learning_rate: α, the training time of one epoch; traced. An optimizer has its own.
        batch_size: Samples of a step; None for full-batch gradient descent.
        epochs: Passes over the samples.
        momentum: In [0, 1).
        optimizer: Any of optax, instead.
        shuffle: Whether samples are visited in random order, or in their own.
        loss: "linear", the paper's, "l2" or "logistic", of h = f(·; θ) − f(·; θ0).

    Example:
        >>> import ntkmmd_jax as ntk
        >>> float(ntk.SGD(learning_rate=0.25, batch_size=5, epochs=2).whole_time)
        0.5
    """

    learning_rate: Any = _RATE
    batch_size: int | None = static(default=1)
    epochs: int = static(default=1)
    momentum: float = static(default=0.0)
    optimizer: "optax.GradientTransformation | None" = static(default=None)
    shuffle: bool = static(default=True)
    loss: str = static(default="linear")

    def __post_init__(self) -> None:
        named_loss(self.loss)
        whole("batch_size", self.batch_size or 1)
        whole("epochs", self.epochs)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1); got {self.momentum!r}")
        positive("learning_rate", self.learning_rate)
        if self.optimizer is not None:
            self._check_optimizer()

    def _check_optimizer(self) -> None:
        import optax

        if not isinstance(self.optimizer, optax.GradientTransformation):
            raise TypeError(
                "optimizer must be an optax GradientTransformation, such as optax.adam(1e-3); "
                f"got {self.optimizer!r}"
            )
        rate = self.learning_rate  # traced ones come from a pytree that was checked when built
        own = isinstance(rate, int | float | np.number) and np.float32(rate) != np.float32(_RATE)
        if own or self.momentum:
            raise ValueError(
                "an optax optimizer has a learning rate of its own, and momentum: set them there; "
                f"got learning_rate={rate!r}, momentum={self.momentum!r} beside it"
            )

    def transformation(self) -> "optax.GradientTransformation":
        """The optax optimizer that makes the steps."""
        import optax

        return self.optimizer or optax.sgd(self.learning_rate, momentum=self.momentum or None)

    @property
    def is_plain(self) -> bool:
        """Whether a step at weight 0 moves nothing."""
        return self.optimizer is None and self.momentum == 0

    @property
    def whole_time(self) -> jax.Array:
        """The time of all epochs of plain SGD."""
        return jnp.asarray(self.epochs * self.learning_rate, jnp.result_type(float))

    def steps_per_epoch(self, n: int) -> int:
        """How many batches cover n samples; the last may be short."""
        return -(-n // min(self.batch_size or n, n))

    def batches(self, key: jax.Array, weights: jax.Array, n: Any = None) -> Visits:
        """Which points, of these weights, the steps of all epochs visit.

        Args:
            key: For their order.
            weights: One a point.
            n: How many points are real, if the others are padding at weight 0, which is visited
                last.
        """
        n = len(weights) if n is None else n
        if not is_full(len(weights), n):
            return self._padded_batches(key, weights, n)
        size = min(self.batch_size or n, n)
        if self.shuffle:
            orders = jnp.argsort(jax.random.bits(key, (self.epochs, n)), axis=1)
        else:
            orders = jnp.tile(jnp.arange(n), (self.epochs, 1))
        visits = jax.vmap(lambda order: Visits(order, weights[order]).batched(size))(orders)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, size), visits)

    def _padded_batches(self, key: jax.Array, weights: jax.Array, n: jax.Array) -> Visits:
        """The same visits; steps beyond them have weight 0."""
        room = len(weights)
        size = min(self.batch_size or room, room)
        bits = jax.random.bits(key, (self.epochs * room,))
        epochs, places = jnp.arange(self.epochs)[:, None], jnp.arange(room)
        # Bits are those of an array (epochs, n): the same, whatever the padding.
        own = bits[jnp.minimum(epochs * n + places, len(bits) - 1)]
        orders = jax.vmap(lambda one: random_order(one, n))(own)
        steps = -(-n // size)
        step = jnp.arange(self.epochs * -(-room // size))[:, None]
        within = step % steps * size + jnp.arange(size)
        counts = (step < self.epochs * steps) & (within < n)
        at = orders[jnp.minimum(step // steps, self.epochs - 1), jnp.minimum(within, room - 1)]
        return Visits(at, jnp.where(counts, weights[at], jnp.zeros((), weights.dtype)))

    def elapsed(self, steps: Any, n: int) -> jax.Array:
        """The time that plain SGD has spent after some steps on n samples.

        α times the passes over the samples: a short last batch takes as much less time. With
        momentum μ, step j moves θ by α (1 + μ + … + μ^(k−j)) of its gradient by the end of step k,
        and counts by that and its share of the samples; so the start-up transient is exact.
        """
        steps, per_epoch, mu = np.asarray(steps), self.steps_per_epoch(n), self.momentum
        spent = self.visited(steps, n) * per_epoch / n  # in steps of mean size
        if mu:
            every = np.arange(steps.max() + 1)
            shares = np.diff(self.visited(every, n), prepend=0) * per_epoch / n
            owed = itertools.accumulate(shares, lambda total, share: mu * (total + share))
            spent = spent - np.fromiter(owed, float)[steps]
        spent = jnp.asarray(spent, jnp.result_type(float))
        return self.learning_rate * spent / ((1 - mu) * per_epoch)

    def visited(self, steps: np.ndarray, n: int) -> np.ndarray:
        """How many samples some steps have visited, all epochs together."""
        per_epoch = self.steps_per_epoch(n)
        size = min(self.batch_size or n, n)
        return steps // per_epoch * n + np.minimum(steps % per_epoch * size, n)
