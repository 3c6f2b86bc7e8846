"""The witness function: a point θ0, a velocity v and a time t.

    g(x) = (f(x; θ0 + t v) − f(x; θ0)) / t,   and its limit at t = 0, the JVP ∂_v f(x; θ0).

*Trained* (`training.py`): SGD on L(θ) = −Σ w_i f(z_i; θ) for time t gives v = (θ_t − θ0)/t.
*Exact*: v = −∇L(θ0) = Σ w_i ∇f(z_i; θ0) and t = 0. One VJP over the training points and one JVP
over the test points are the witness of the NTK-MMD in linear time, without a kernel matrix:
g(x) = Σ_i K_0(x, z_i) w_i, hence T_a = ⟨v_train, v_test⟩ and T_NTK = |v|².
"""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ntkmmd_jax._lib.points import points_like
from ntkmmd_jax._lib.precision import jit, pinned
from ntkmmd_jax._lib.quotient import displaced, quotient
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tiles import in_batches, tile_by_tile
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Network, NetworkLike, Params, merged, restored, two_layer

TILE = 2048  # points that are differentiated at once: memory does not grow with n beyond it
T = TypeVar("T")
KINDS: dict[str, type] = {}  # witnesses that can be saved and loaded, by name


def savable(cls: type[T]) -> type[T]:
    """Register a witness class: `describe()` gives its static part, `blank(...)` takes it back."""
    KINDS[cls.__name__] = cls
    return cls


@savable
@record
class Witness:
    """g(x) = (f(x; θ0 + t v) − f(x; θ0)) / t; call it at any points.

    `exact_witness`, `trained_witness` and `two_sample_test(…).witness` make one.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> network, x, y = ntk.mlp(16), jnp.ones((6, 2)), jnp.zeros((4, 2))
        >>> params = network.init(jax.random.key(0), x)
        >>> ntk.exact_witness(network, params, ntk.signed_measure(x, y))(x).shape
        (6,)
    """

    params: Params  # θ0, all leaves
    velocity: Params  # v, on the trained leaves
    time: jax.Array  # t, scalar; 0 for the exact witness
    network: Network = static()  # that of f
    features: tuple[int, ...] = static()  # shape of one point
    nodes: int = static(default=3)  # of the quadrature in time; 1 is exact at t = 0

    def __call__(self, points: Any) -> jax.Array:
        """The witness at points of shape (n, ...): large where p exceeds q. Shape (n,)."""
        return _scores(self, points_like(points, self.features))

    def describe(self) -> dict[str, Any]:
        """What a file says of the witness beside its leaves; `blank` is the way back."""
        return {"network": self.network.recipe, "features": self.features, "nodes": self.nodes}

    @classmethod
    def blank(cls, described: dict[str, Any], network: NetworkLike | None = None) -> "Witness":
        """A witness of shapes only, to be refilled with saved leaves."""
        network = restored(described["network"], network)
        features = tuple(described["features"])

        def shapes(key: jax.Array, x: jax.Array) -> Witness:
            params = network.init(key, x)
            theta = network.trainable(params)[1]
            static = {"network": network, "features": features, "nodes": described["nodes"]}
            return cls(params, theta, jnp.zeros(()), **static)

        return jax.eval_shape(shapes, jax.random.key(0), jnp.zeros((1, *features)))

    def params_at(self, time: Any = None) -> Params:
        """θ0 + t v, all leaves; `time` is the witness's own unless given."""
        time = self.time if time is None else time
        _, theta = self.network.trainable(self.params)
        return merged(self.params, displaced(theta, self.velocity, time))


@jit
def _scores(witness: Witness, points: jax.Array) -> jax.Array:
    """(f(x; θ0 + t v) − f(x; θ0)) / t, with nothing that cancels: see `quotient`."""
    network, params, v = witness.network, witness.params, witness.velocity
    along = (v, witness.time, witness.nodes)
    if two_layer.applies(network):
        return in_tiles(lambda x: two_layer.scores(network, params, *along, x), points)
    f, theta = network.trainable(params)
    return in_tiles(lambda x: quotient(lambda at: f(at, x), theta, *along), points)


def in_tiles(function: Any, points: jax.Array) -> jax.Array:
    """Apply a function of (n, ...) points that gives (n,), at most `TILE` points at a time."""
    return tile_by_tile(function, points, TILE)


@jit(static_argnames="network")
def velocity(network: Network, params: Params, measure: SignedMeasure) -> Params:
    """v = Σ w_i ∇f(z_i; θ0), the negative gradient of the loss; block by block in n."""
    f, theta = network.trainable(params)

    def pull_back(block: SignedMeasure) -> Params:
        return jax.grad(lambda theta: jnp.vdot(block.weights, f(theta, block.points)))(theta)

    if len(measure.weights) <= TILE:
        return pull_back(measure)

    def add_block(total: Params, block: SignedMeasure) -> tuple[Params, None]:
        return jax.tree.map(jnp.add, total, pull_back(block)), None

    zero = jax.tree.map(jnp.zeros_like, theta)
    return jax.lax.scan(add_block, zero, measure.batched(TILE))[0]


def bin_gradients(
    network: Network, params: Params, binned: jax.Array, weights: jax.Array | None = None
) -> jax.Array:
    """v_k = Σ_{i in bin k} ∇f(z_i; θ0) of bins (s, size, ...), one row each: (s, p).

    Weights (s, size) are 1, unless given: 0 where there is no point.
    """
    if weights is None:
        weights = jnp.ones(binned.shape[:2], binned.dtype)

    def gradient(one: SignedMeasure) -> jax.Array:
        return ravel_pytree(velocity(network, params, one))[0]

    measures = SignedMeasure(binned, weights)
    return in_batches(gradient, measures, max(1, TILE // binned.shape[1]))


def exact_witness(network: Network, params: Params, measure: SignedMeasure) -> Witness:
    """The witness of the MMD with the NTK at θ0: g(x) = Σ_i K_0(x, z_i) w_i, without training.

    Args:
        network: The network f.
        params: θ0, as `network.init` draws it.
        measure: Points and weights, as `signed_measure(x, y)` gives them.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> network, x, y = ntk.mlp(16), jnp.ones((6, 2)), jnp.zeros((4, 2))
        >>> params = network.init(jax.random.key(0), x)
        >>> g = exact_witness(network, params, ntk.signed_measure(x, y))
        >>> bool(g(x).mean() > g(y).mean())
        True
    """
    return Witness(
        params,
        velocity(network, params, measure),
        jnp.zeros((), measure.weights.dtype),
        network=network,
        features=measure.points.shape[1:],
        nodes=1,
    )


@pinned
def inner(u: Params, v: Params) -> jax.Array:
    """⟨u, v⟩ over all leaves."""
    return jax.tree.reduce(jnp.add, jax.tree.map(jnp.vdot, u, v))
