"""The trained witness: stochastic gradient descent on L(θ) = −Σ w_i f(z_i; θ), for a short time.

    θ_k = θ_{k−1} + α Σ_{i in batch k} w_i ∇f(z_i; θ_{k−1}),   v = (θ_t − θ0) / t.

The loss is a sum over samples whose weights already hold 1/n, so one epoch takes time t = α
whatever the batch size, and k of n samples α k/n. The paper's "effective learning rate" is α / n_X.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ntkmmd_jax import two_layer
from ntkmmd_jax.measure import SignedMeasure, as_points
from ntkmmd_jax.networks import Network, Params
from ntkmmd_jax.pytree import record, static
from ntkmmd_jax.witness import Witness, inner, velocity

_RATE = 0.1


@record
class SGD:
    """How to train: plain SGD with momentum, or any optax optimizer.

    The default is the paper's: one pass over the shuffled samples, batch size 1, α = 0.1.
    """

    learning_rate: Any = _RATE  # α; an optimizer has its own
    batch_size: int | None = static(default=1)  # None: full-batch gradient descent
    epochs: int = static(default=1)
    momentum: float = static(default=0.0)
    optimizer: optax.GradientTransformation | None = static(default=None)
    shuffle: bool = static(default=True)  # else visit the points in their order

    def __post_init__(self) -> None:
        for name, value in (("batch_size", self.batch_size or 1), ("epochs", self.epochs)):
            if not (isinstance(value, int) and value >= 1):
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1); got {self.momentum!r}")
        if isinstance(self.learning_rate, int | float) and not 0 < self.learning_rate < float(
            "inf"
        ):
            raise ValueError(
                f"learning_rate must be positive and finite; got {self.learning_rate!r}"
            )
        if self.optimizer is not None:
            self._check_optimizer()

    def _check_optimizer(self) -> None:
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

    def transformation(self) -> optax.GradientTransformation:
        """The optax optimizer that makes the steps."""
        return self.optimizer or optax.sgd(self.learning_rate, momentum=self.momentum or None)

    def steps_per_epoch(self, n: int) -> int:
        """How many batches cover n samples; the last may be short."""
        return -(-n // min(self.batch_size or n, n))

    def batches(self, key: jax.Array, weights: jax.Array) -> SignedMeasure:
        """The visiting order of all epochs: indices of points (steps, batch) and their weights."""
        n = len(weights)
        size = min(self.batch_size or n, n)
        if self.shuffle:
            orders = jnp.argsort(jax.random.bits(key, (self.epochs, n)), axis=1)
        else:
            orders = jnp.tile(jnp.arange(n), (self.epochs, 1))
        epochs = jax.vmap(lambda order: SignedMeasure(order, weights[order]).batched(size))(orders)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, size), epochs)

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


def trained_witness(
    key: jax.Array, network: Network, params: Params, measure: SignedMeasure, sgd: SGD
) -> Witness:
    """Train from θ0 = `params` on a signed measure and return the witness.

    With an optax optimizer of its own scale, time is measured by how far it went along the
    gradient flow: t = ⟨θ_t − θ0, v_0⟩ / |v_0|² with v_0 = −∇L(θ0).

    Args:
        key: For the order of the samples; unused if not shuffled.
        network: The network f.
        params: θ0, as `network.init` draws it.
        measure: Training points and weights.
        sgd: How to train.
    """
    plain = sgd.optimizer is None and sgd.momentum == 0
    if plain and two_layer.applies(network):
        return _two_layer_witness(key, network, params, measure, sgd)
    return trajectory(key, network, params, measure, sgd)[-1]


@jax.jit(static_argnames="network")
def _two_layer_witness(
    key: jax.Array, network: Network, params: Params, measure: SignedMeasure, sgd: SGD
) -> Witness:
    """The last witness of `trajectory`, several steps at a time."""
    batches = sgd.batches(key, measure.weights)
    moved = two_layer.displacement(network, params, measure, batches, sgd.learning_rate)
    t = sgd.elapsed(len(batches.weights), len(measure.weights))
    v = jax.tree.map(lambda leaf: leaf / t, moved)
    return Witness(params, v, t, network=network, features=measure.points.shape[1:])


@record
class Trajectory:
    """Snapshots of the witness along the training, `path[i]` after `path.counts[i]` samples."""

    params: Params  # θ0, all leaves
    velocity: Params  # (θ_k − θ0) / t_k, trained leaves with a leading axis (len(counts), ...)
    time: jax.Array  # (len(counts),), the training time t_k spent so far
    counts: tuple[int, ...] = static()
    network: Network = static()
    features: tuple[int, ...] = static()  # shape of one point

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, i: int) -> Witness:
        return self._witness(jax.tree.map(lambda leaf: leaf[i], self.velocity), self.time[i])

    def _witness(self, v: Params, t: jax.Array) -> Witness:
        return Witness(self.params, v, t, network=self.network, features=self.features)

    def scores(self, points: Any) -> jax.Array:
        """Every snapshot's witness at the points, shape (len(counts), n)."""
        points = as_points(points, "the points")
        return jax.vmap(lambda v, t: self._witness(v, t)(points))(self.velocity, self.time)

    def statistics(self, measure: SignedMeasure) -> jax.Array:
        """T̂_net after each count of samples: the mean gap on a measure, shape (len(counts),)."""
        return self.scores(measure.points) @ measure.weights


@jax.jit(static_argnames=("network", "every"))
def trajectory(
    key: jax.Array,
    network: Network,
    params: Params,
    measure: SignedMeasure,
    sgd: SGD,
    *,
    every: int | None = None,
) -> Trajectory:
    """Train and record a snapshot after every so many samples, and at the end.

    Args:
        key: For the order of the samples.
        network: The network f.
        params: θ0.
        measure: Training points and weights.
        sgd: How to train.
        every: Samples between snapshots, a multiple of the batch size; None for the end only.
    """
    n = len(measure.weights)
    batch_size = min(sgd.batch_size or n, n)
    if every is not None and (every < 1 or every % batch_size):
        raise ValueError(f"every = {every} must be a multiple of the batch size {batch_size}")
    f, theta = network.trainable(params)
    optimizer = sgd.transformation()

    def loss(displacement: Params, batch: SignedMeasure) -> jax.Array:
        at = jax.tree.map(jnp.add, theta, displacement)
        return -jnp.vdot(batch.weights, f(at, batch.points))

    def sgd_step(carry: tuple, picked: SignedMeasure) -> tuple[tuple, None]:
        displacement, state = carry
        batch = SignedMeasure(measure.points[picked.points], picked.weights)
        updates, state = optimizer.update(
            jax.grad(loss)(displacement, batch), state, jax.tree.map(jnp.add, theta, displacement)
        )
        # θ − θ0 is accumulated, not θ: a small step is not rounded away beside a large weight.
        return (jax.tree.map(jnp.add, displacement, updates), state), None

    def segment(carry: tuple, batches: SignedMeasure) -> tuple[tuple, Params]:
        carry, _ = jax.lax.scan(sgd_step, carry, batches)
        return carry, carry[0]

    batches = sgd.batches(key, measure.weights)
    total = len(batches.weights)
    stride = total if every is None else min(every // batch_size, total)
    whole = total // stride * stride
    zero = jax.tree.map(jnp.zeros_like, theta)
    segments = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, stride, *leaf.shape[1:]), batches)
    carry, recorded = jax.lax.scan(segment, (zero, optimizer.init(theta)), segments)
    steps = list(range(stride, whole + 1, stride))
    if whole < total:
        _, last = segment(carry, jax.tree.map(lambda leaf: leaf[whole:], batches))
        recorded = jax.tree.map(
            lambda many, one: jnp.concatenate([many, one[None]]), recorded, last
        )
        steps.append(total)

    counts = tuple(sgd.visited(np.asarray(steps), n).tolist())
    if sgd.optimizer is None:
        time = sgd.elapsed(steps, n)
    else:
        v = velocity(network, params, measure)
        time = jax.vmap(lambda moved: inner(moved, v))(recorded) / inner(v, v)
    return Trajectory(
        params,
        jax.vmap(lambda moved, t: jax.tree.map(lambda leaf: leaf / t, moved))(recorded, time),
        time,
        counts=counts,
        network=network,
        features=measure.points.shape[1:],
    )
