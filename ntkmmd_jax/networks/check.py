"""What a network must be: one number per sample, a pure function of that sample alone.

If f(z_i) depends on the other samples of a batch (batch statistics, a softmax over the batch) or
on its place among them (dropout with a fixed key), there is no witness g(z), and a test that
permutes labels has p = 1 or no level. Flax's own complaints are put in words of this library.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.precision import jit

if TYPE_CHECKING:
    from ntkmmd_jax.networks.network import Network

_N_POINTS = 4
_SAME_PLACE = 1e-5  # relative, of one row of two batches, by the same program
_OTHER_PLACE = 0.03  # relative: other rows, or of a batch of another size, may round otherwise
_WEIGHTS = "the weights that it was given are not its own, or are none of samples of this shape"
_HINTS = {  # by the names of flax's errors
    "ScopeCollectionNotFound": _WEIGHTS,
    "ScopeParamNotFoundError": _WEIGHTS,
    "ScopeParamShapeError": _WEIGHTS,
    "InvalidRngError": "it draws random numbers: set deterministic=True in its dropout",
    "ModifyScopeVariableError": "it updates statistics of the batch: set use_running_average=True",
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
        except _flax_errors() as error:
            raise explanation(error) from error

    @property
    def module(self) -> Any:
        """The module whose function it is; None of nnx, and of a method by its name."""
        found = getattr(self.function, "module", None)
        return getattr(self.function, "__self__", None) if found is None else found


def _flax_errors() -> tuple[type[Exception], ...]:
    """Flax's complaints. Whoever raises one has imported it: we do not, as that takes its time."""
    errors = sys.modules.get("flax.errors")
    return () if errors is None else (errors.FlaxError,)


def explanation(error: Exception) -> ValueError:
    """What an error of flax asks of the user."""
    reason = str(error).split(" (https://")[0]
    hint = _HINTS.get(type(error).__name__, "it must be a pure function of parameters and samples")
    return ValueError(f"the flax module fails ({reason}): {hint}")


def check_network(network: "Network", features: tuple[int, ...]) -> None:
    """Refuse a network that is no function of single samples of the shape given.

    Near a random θ0 and at a few random points: the value at a point must stay when the others of
    its batch are replaced, when it is the last of them, and when it is alone. A network of ours
    needs no check, any other is checked once for each shape; it also works while a test is traced.

    Args:
        network: The network.
        features: Shape of one sample.
    """
    if network.recipe is None:
        _check(network, tuple(features))


@functools.lru_cache(maxsize=256)
def _check(network: "Network", features: tuple[int, ...]) -> None:
    with jax.core.eval_context():  # while a test is traced, too
        try:
            values = _values(network, features)
        except _flax_errors() as error:
            raise explanation(error) from error
        except TypeError as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(
                f"the network does not take samples of shape {features}: {reason}"
            ) from error
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


def _values(network: "Network", features: tuple[int, ...]) -> np.ndarray:
    """f at k points, each first in a batch, first and last in another, and alone: shape (4, k)."""
    rng = np.random.default_rng(0)  # numpy's, as every use of JAX's takes its time to compile
    points, others = rng.standard_normal((2, _N_POINTS, *features)).astype(jnp.result_type(float))
    params = jax.jit(network.init)(jax.random.key(0), points[:1])
    _, theta = network.trainable(params)
    noise = jax.tree.map(lambda leaf: rng.standard_normal(np.shape(leaf)), theta)
    among = np.stack([np.roll(points, -i, axis=0) for i in range(_N_POINTS)])
    others = np.stack([np.concatenate([points[i : i + 1], others[1:]]) for i in range(_N_POINTS)])
    batches = np.concatenate([among, others, np.flip(others, axis=1)])
    values = _evaluated(network, params, noise, batches, points)
    together, alone = (np.asarray(value, np.float64) for value in values)
    first, again, last = together.reshape(3, _N_POINTS, _N_POINTS)
    return np.stack([first[:, 0], again[:, 0], last[:, -1], alone])


@jit(static_argnums=0)
def _evaluated(
    network: "Network", params: Any, noise: Any, batches: jax.Array, points: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """f on batches, and on points one by one, near θ0: there a readout of zeros says nothing."""
    f, theta = network.trainable(params)
    theta = jax.tree.map(lambda leaf, z: leaf + (0.1 * z).astype(leaf.dtype), theta, noise)
    together = jax.lax.map(lambda batch: f(theta, batch), batches)
    return together, jax.lax.map(lambda point: f(theta, point[None])[0], points)
