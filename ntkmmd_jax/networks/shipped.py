"""The networks we ship: the paper's two and random features, and how a saved one is rebuilt."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ntkmmd_jax._lib.checks import positive, whole
from ntkmmd_jax._lib.files import FileError
from ntkmmd_jax.networks.activations import Activation, check_activation
from ntkmmd_jax.networks.check import Explained
from ntkmmd_jax.networks.fully_connected import MLP
from ntkmmd_jax.networks.modules import NetworkLike, as_network, freeze
from ntkmmd_jax.networks.network import Network

INITIALIZATIONS = ("paper", "he", "lecun", "ntk")
LAWS = ("gaussian", "cauchy")


def mlp(
    widths: int | Iterable[int] = 512,
    *,
    activation: Activation = "softplus",
    initialization: str = "paper",
    train_readout: bool = False,
) -> Network:
    """A fully connected network; by default the paper's, f(x) = Σ_k a_k σ(w_k·x + b_k).

    Args:
        widths: Width of each hidden layer; one number for the two-layer network.
        activation: A name in `jax.nn` (softplus, relu, …), `erf`, `sin`, or a callable.
        initialization: paper, he, lecun or ntk (see `fully_connected.layer_scales`).
        train_readout: Whether the readout a_k is trained, or frozen as in the paper.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> network = mlp(16)
        >>> x = jnp.ones((5, 3))
        >>> network(network.init(jax.random.key(0), x), x).shape
        (5,)
    """
    widths = _sizes("widths", widths, "one per hidden layer")
    options = {"widths": widths, **_layers(activation, initialization)}
    return _built("mlp", *_frozen(train_readout), train_readout=train_readout, **options)


def convnet(
    channels: Iterable[int] = (16, 32),
    *,
    width: int = 128,
    activation: Activation = "relu",
    initialization: str = "he",
    train_readout: bool = True,
) -> Network:
    """A convolutional network; by default the paper's for 28×28 MNIST images.

    Args:
        channels: Channels of each 5×5 convolution, each followed by 2×2 max pooling.
        width: Width of the fully connected layer after them.
        activation: As for `mlp`.
        initialization: paper, he, lecun or ntk (see `fully_connected.layer_scales`); the paper
            does not say which.
        train_readout: Whether the readout is trained.

    Example:
        >>> convnet((4,), width=8).recipe[0]
        'convnet'
    """
    (width,) = _sizes("width", width, "one")
    options = {"channels": _sizes("channels", channels, "one per convolution"), "width": width}
    options |= _layers(activation, initialization)
    return _built("convnet", *_frozen(train_readout), train_readout=train_readout, **options)


def fourier(
    width: int = 512, *, law: str = "gaussian", scale: float = 1.0, additive: bool = False
) -> Network:
    """A network whose tangent kernel is that of random Fourier features.

    Args:
        width: m, the number of features.
        law: Of the frequencies: "gaussian" for the Gaussian kernel exp(−|x − x'|²/2σ²), "cauchy"
            for the Laplace kernel exp(−|x − x'|₁/σ).
        scale: σ, in the units of the inputs.
        additive: Whether every unit sees a single coordinate, in turn; of more coordinates than
            units, as many as there are units, evenly spaced.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> network = fourier(64, law="cauchy", scale=0.5)
        >>> x = jnp.ones((5, 3))
        >>> network(network.init(jax.random.key(0), x), x).shape
        (5,)
    """
    whole("width", width)
    positive("scale", scale)
    if law not in LAWS:
        raise ValueError(f"unknown law {law!r} of the frequencies; use one of {LAWS}")
    options = {"width": int(width), "law": law, "scale": float(scale), "additive": bool(additive)}
    return _built("fourier", "frequencies", **options)


def _sizes(name: str, sizes: Any, many: str) -> tuple[int, ...]:
    """Sizes of layers as Python ints; refuse what would be read as other numbers than meant."""
    single = isinstance(sizes, str | int | float | np.generic)
    given: tuple[Any, ...] = (sizes,) if single else tuple(sizes)
    fit = all(isinstance(m, int | np.integer) and not isinstance(m, bool) for m in given)
    if not given or not fit or min(given) < 1:
        raise ValueError(f"{name} must be positive whole numbers, {many}; got {sizes!r}")
    return tuple(map(int, given))


def _frozen(train_readout: bool) -> tuple[str, ...]:
    return () if train_readout else ("readout",)


def _layers(activation: Activation, initialization: str) -> dict[str, Any]:
    check_activation(activation)
    if initialization not in INITIALIZATIONS:
        raise ValueError(f"unknown initialization {initialization!r}; use one of {INITIALIZATIONS}")
    return {"activation": activation, "initialization": initialization}


@functools.cache
def _built(name: str, *frozen: str, train_readout: bool | None = None, **options: Any) -> Network:
    """One object per configuration, so that equal networks share one compiled program."""
    module = (name, tuple(options.items()))
    told = {} if train_readout is None else {"train_readout": train_readout}
    return Network(
        Explained(_Shipped(*module, "init")),
        Explained(_Shipped(*module, "apply")),
        frozen=frozen,
        collection="params",
        recipe=None if callable(options.get("activation")) else (name, (*module[1], *told.items())),
    )


@dataclasses.dataclass(frozen=True)
class _Shipped:
    """A function of a module of ours, made when it is asked for; equal for the same one.

    All but `mlp` are flax's, which takes a fifth of a second to import; a program that is kept
    draws without it.
    """

    name: str
    options: tuple[tuple[str, Any], ...]
    function: str  # "init" or "apply"

    @property
    def module(self) -> Any:
        return _module(self.name, self.options)

    def __call__(self, *arguments: Any) -> Any:
        return getattr(self.module, self.function)(*arguments)


@functools.cache
def _module(name: str, options: tuple[tuple[str, Any], ...]) -> Any:
    if name == "mlp":
        return MLP(**dict(options))
    from ntkmmd_jax.networks import layers, random_features

    modules = {"convnet": layers.ConvNet, "fourier": random_features.Fourier}
    return modules[name](**dict(options))


def mlp_behind(network: Network) -> MLP | None:
    """The module of an `mlp`, with its widths, activation and initialization; None of others."""
    return network.module if isinstance(network.module, MLP) else None


def rebuild(recipe: list | tuple) -> Network:
    """Build the network of a saved recipe.

    Args:
        recipe: Name and options, as `Network.recipe` has them.
    """
    name, options = recipe[0], {key: value for key, value in recipe[1]}
    if name == "freeze":
        return freeze(rebuild(options["network"]), *options["names"])
    return _CONSTRUCTORS[name](**options)


_CONSTRUCTORS: dict[str, Callable[..., Network]] = {
    "mlp": mlp,
    "convnet": convnet,
    "fourier": fourier,
}


def restored(recipe: list | tuple | None, network: NetworkLike | None = None) -> Network:
    """The network of a saved file: the one given, or else that of its recipe.

    Args:
        recipe: What the file says; None of a function of the user's own.
        network: The network itself, if it is given.
    """
    if network is not None:
        return as_network(network)
    if recipe is None:
        raise FileError("the file has a network of your own: load it with network=...")
    return rebuild(recipe)
