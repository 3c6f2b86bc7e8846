"""What a network must be: one number per sample, a pure function of that sample alone.

If f(z_i) depends on the other samples of a batch (batch statistics, a softmax over the batch) or
on its place among them (dropout with a fixed key), there is no witness g(z), and a test that
permutes labels has p = 1 or no level. Flax's own complaints are put in words of this library.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import errors

if TYPE_CHECKING:
    from ntkmmd_jax.networks import Network

_N_POINTS = 4
_SAME_PLACE = 1e-5  # relative, of one row of two batches, by the same program
_OTHER_PLACE = 0.03  # relative: other rows, or of a batch of another size, may round otherwise
_HINTS = {
    errors.InvalidRngError: "it draws random numbers: set deterministic=True in its dropout",
    errors.ModifyScopeVariableError: (
        "it updates statistics of the batch: set use_running_average=True"
    ),
}


@dataclasses.dataclass(frozen=True)
class Explained:
    """A function of a flax module; equal for the same one, and its errors say what to set."""

    function: Callable[..., Any]

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.function

    def __call__(self, *arguments: Any) -> Any:
        """The function, with errors of flax as `ValueError`."""
        try:
            return self.function(*arguments)
        except errors.FlaxError as error:
            raise explanation(error) from error


def explanation(error: errors.FlaxError) -> ValueError:
    """What an error of flax asks of the user."""
    reason = str(error).split(" (https://")[0]
    hint = _HINTS.get(type(error), "it must be a pure function of parameters and samples")
    return ValueError(f"the flax module fails ({reason}): {hint}")


def check_network(network: "Network", features: tuple[int, ...]) -> None:
    """Refuse a network that is no function of single samples of the shape given.

    Near a random θ0 and at a few random points: the value at a point must stay when the others of
    its batch are replaced, when it is the last of them, and when it is alone. A network of ours
    needs no check, any other is checked once for each shape; it also works while a test is traced.
    """
    if network.recipe is None:
        _check(network, tuple(features))


@functools.lru_cache(maxsize=256)
def _check(network: "Network", features: tuple[int, ...]) -> None:
    with jax.ensure_compile_time_eval():
        try:
            found = jax.jit(_probe, static_argnums=(0, 1))(network, features)
        except errors.FlaxError as error:
            raise explanation(error) from error
        except TypeError as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(
                f"the network does not take samples of shape {features}: {reason}"
            ) from error
        values = np.asarray(found, np.float64)
    rounding = np.array([_SAME_PLACE, _OTHER_PLACE, _OTHER_PLACE])[:, None]
    with np.errstate(invalid="ignore"):
        gap, size = np.abs(values[1:] - values[0]), np.nanmax(np.abs(values[0]), initial=0.0)
    differ = gap > rounding * size
    if differ.any():  # NaN, where the points are outside its domain, says nothing
        first, again, last, alone = values[:, differ.any(axis=0).argmax()]
        raise ValueError(
            f"the network mixes the samples of a batch: its value at a point is {first:.6g} in one "
            f"batch, {again:.6g} in another, {last:.6g} as the last of that and {alone:.6g} alone; "
            "use no statistics of the batch (use_running_average=True), no dropout "
            "(deterministic=True), and no operation over the first axis"
        )


def _probe(network: "Network", features: tuple[int, ...]) -> jax.Array:
    """f at k points, each first in a batch, first and last in another, and alone: shape (4, k)."""
    k_init, k_theta, k_points, k_others = jax.random.split(jax.random.key(0), 4)
    points, others = (jax.random.normal(k, (_N_POINTS, *features)) for k in (k_points, k_others))
    params = network.init(k_init, points[:1])
    f, theta = network.trainable(params)
    leaves, structure = jax.tree.flatten(theta)
    # Off θ0: with a readout that starts at zero, f says nothing there.
    keys = jax.random.split(k_theta, len(leaves))
    moved = [leaf + 0.1 * _noise(key, leaf) for key, leaf in zip(keys, leaves, strict=True)]
    theta = jax.tree.unflatten(structure, moved)

    among = jnp.stack([jnp.roll(points, -i, axis=0) for i in range(_N_POINTS)])
    others = jnp.concatenate([points[:, None], jnp.stack([others[1:]] * _N_POINTS)], axis=1)
    batches = jnp.concatenate([among, others, jnp.flip(others, axis=1)])
    values = jax.lax.map(lambda batch: f(theta, batch), batches)
    first, first_again, last = values.reshape(3, _N_POINTS, _N_POINTS)
    alone = jax.lax.map(lambda point: f(theta, point[None])[0], points)
    return jnp.stack([first[:, 0], first_again[:, 0], last[:, -1], alone])


def _noise(key: jax.Array, leaf: jax.Array) -> jax.Array:
    floating = jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
    return jax.random.normal(key, jnp.shape(leaf), jnp.result_type(leaf)) if floating else 0 * leaf
