"""The trained witness, at the end of the training or along it: v = (θ_t − θ0) / t.

With a loss that is not linear, h = f(·; θ) − f(·; θ0) is trained, from 0: towards ±1 by "l2".
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.optimizer import updates
from ntkmmd_jax._lib.padding import is_full
from ntkmmd_jax._lib.points import as_points
from ntkmmd_jax._lib.precision import jit, pinned
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.measure import SignedMeasure, Visits
from ntkmmd_jax.networks import Network, Params, two_layer
from ntkmmd_jax.training.losses import named_loss
from ntkmmd_jax.training.sgd import SGD
from ntkmmd_jax.witness import Witness, in_tiles, inner, velocity


def trained_witness(
    key: jax.Array,
    network: Network,
    params: Params,
    measure: SignedMeasure,
    sgd: SGD,
    *,
    n: Any = None,
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
        n: How many points are real, if the others are padding; all, by default. Padding takes plain
            SGD: other optimizers move where there is no gradient.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> key, network = jax.random.key(0), ntk.mlp(16)
        >>> x, y = jnp.ones((6, 2)), jnp.zeros((4, 2))
        >>> params = network.init(key, x)
        >>> measure = ntk.signed_measure(x, y)
        >>> g = ntk.trained_witness(key, network, params, measure, ntk.SGD(learning_rate=0.01))
        >>> bool(g(x).mean() > g(y).mean())
        True
    """
    if n is not None and is_full(len(measure.weights), n):
        n = None  # as an argument of a program it would be traced
    by_steps = sgd.optimizer is None and (n is None or sgd.is_plain) and sgd.loss == "linear"
    if by_steps and two_layer.applies(network):
        return _two_layer_witness(key, network, params, measure, sgd, n)
    return trajectory(key, network, params, measure, sgd, n=n)[-1]


@jit(static_argnames="network")
def _two_layer_witness(
    key: jax.Array, network: Network, params: Params, measure: SignedMeasure, sgd: SGD, n: Any
) -> Witness:
    """The last witness of `trajectory`, several steps at a time."""
    batches = sgd.batches(key, measure.weights, n)
    steps = batches, sgd.learning_rate, sgd.momentum
    moved = two_layer.displacement(network, params, measure, *steps)
    t = sgd.elapsed(len(batches.weights), len(measure.weights)) if n is None else sgd.whole_time
    v = jax.tree.map(lambda leaf: leaf / t, moved)
    return Witness(params, v, t, network=network, features=measure.points.shape[1:])


@record
class Trajectory:
    """Snapshots of the witness along the training, `path[i]` after `path.counts[i]` samples."""

    params: Params  # θ0, all leaves
    velocity: Params  # (θ_k − θ0) / t_k, trained leaves with a leading axis (len(counts), ...)
    time: jax.Array  # (len(counts),), the training time t_k spent so far
    counts: tuple[int, ...] = static()  # samples visited at each
    network: Network = static()  # that of f
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

    @pinned
    def statistics(self, measure: SignedMeasure) -> jax.Array:
        """T̂_net after each count of samples: the mean gap on a measure, shape (len(counts),)."""
        return self.scores(measure.points) @ measure.weights


@jit(static_argnames=("network", "every"))
def trajectory(
    key: jax.Array,
    network: Network,
    params: Params,
    measure: SignedMeasure,
    sgd: SGD,
    *,
    every: int | None = None,
    n: Any = None,
) -> Trajectory:
    """Train and keep a snapshot after every so many samples, and at the end.

    Args:
        key: For the order of the samples.
        network: The network f.
        params: θ0.
        measure: Training points and weights.
        sgd: How to train.
        every: Samples between snapshots, a multiple of the batch size; None for the end only.
        n: As in `trained_witness`; with it, there is the end only.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> key, network = jax.random.key(0), ntk.mlp(16)
        >>> measure = ntk.signed_measure(jnp.ones((6, 2)), jnp.zeros((4, 2)))
        >>> params = network.init(key, measure.points)
        >>> ntk.trajectory(key, network, params, measure, ntk.SGD(), every=5).counts
        (5, 10)
    """
    places = len(measure.weights)
    batch_size = min(sgd.batch_size or places, places)
    if every is not None and (every < 1 or every % batch_size):
        raise ValueError(f"every = {every} must be a multiple of the batch size {batch_size}")
    f, theta = network.trainable(params)
    optimizer, loss_of = sgd.transformation(), named_loss(sgd.loss)
    start = in_tiles(lambda points: f(theta, points), measure.points)  # f(z_i; θ0)

    def loss(displacement: Params, visits: Visits) -> jax.Array:
        at = jax.tree.map(jnp.add, theta, displacement)
        # What is lost in this difference is small beside ±1; the linear loss does not see it.
        h = f(at, visits.of(measure.points).points) - start[visits.indices]
        return loss_of(h, visits.weights)

    def sgd_step(carry: tuple, visits: Visits) -> tuple[tuple, None]:
        displacement, state = carry
        gradient = jax.grad(loss)(displacement, visits)
        at = jax.tree.map(jnp.add, theta, displacement)
        by, state = updates(optimizer, gradient, state, at)
        # θ − θ0 is accumulated, not θ: a small step is not rounded away beside a large weight.
        return (jax.tree.map(jnp.add, displacement, by), state), None

    def segment(carry: tuple, batches: Visits) -> tuple[tuple, Params]:
        carry, _ = jax.lax.scan(sgd_step, carry, batches)
        return carry, carry[0]

    batches = sgd.batches(key, measure.weights, n)
    total = len(batches.weights)
    stride = total if every is None else min(every // batch_size, total)
    whole = total // stride * stride
    zero = jax.tree.map(jnp.zeros_like, theta)
    segments = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, stride, *leaf.shape[1:]), batches)
    carry, moved = jax.lax.scan(segment, (zero, optimizer.init(theta)), segments)
    steps = list(range(stride, whole + 1, stride))
    if whole < total:
        _, last = segment(carry, jax.tree.map(lambda leaf: leaf[whole:], batches))
        moved = jax.tree.map(lambda many, one: jnp.concatenate([many, one[None]]), moved, last)
        steps.append(total)

    counts = tuple(sgd.visited(np.asarray(steps), places).tolist())
    if n is not None:
        time = jnp.reshape(sgd.whole_time, 1)
    elif sgd.optimizer is None:
        time = sgd.elapsed(steps, places)
    else:
        pull = -jax.grad(loss_of)(jnp.zeros_like(start), measure.weights)  # of ∇f(z_i; θ0) in v_0
        v = velocity(network, params, SignedMeasure(measure.points, pull))
        time = jax.vmap(lambda by: inner(by, v))(moved) / inner(v, v)
    return Trajectory(
        params,
        jax.vmap(lambda by, t: jax.tree.map(lambda leaf: leaf / t, by))(moved, time),
        time,
        counts=counts,
        network=network,
        features=measure.points.shape[1:],
    )
