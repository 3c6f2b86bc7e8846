"""The networks we ship: the paper's two, drawn at random, and how a saved one is rebuilt."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ntkmmd_jax._lib.files import FileError
from ntkmmd_jax.networks.layers import INITIALIZATIONS, MLP, Activation, ConvNet, check_activation
from ntkmmd_jax.networks.modules import NetworkLike, as_network, freeze, from_flax
from ntkmmd_jax.networks.network import Network


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
        initialization: paper, he, lecun or ntk (see `layers.Layer`).
        train_readout: Whether the readout a_k is trained, or frozen as in the paper.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> network = mlp(16)
        >>> x = jnp.ones((5, 3))
        >>> network(network.init(jax.random.key(0), x), x).shape
        (5,)
    """
    widths = _sizes("widths", widths, "one per hidden layer")
    return _built("mlp", MLP, train_readout, widths=widths, **_layers(activation, initialization))


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
        initialization: paper, he, lecun or ntk (see `layers.Layer`); the paper does not say which.
        train_readout: Whether the readout is trained.

    Example:
        >>> convnet((4,), width=8).recipe[0]
        'convnet'
    """
    (width,) = _sizes("width", width, "one")
    options = {"channels": _sizes("channels", channels, "one per convolution"), "width": width}
    return _built(
        "convnet", ConvNet, train_readout, **options, **_layers(activation, initialization)
    )


def _sizes(name: str, sizes: Any, many: str) -> tuple[int, ...]:
    """Sizes of layers as Python ints; refuse what would be read as other numbers than meant."""
    single = isinstance(sizes, str | int | float | np.generic)
    given: tuple[Any, ...] = (sizes,) if single else tuple(sizes)
    whole = all(isinstance(m, int | np.integer) and not isinstance(m, bool) for m in given)
    if not given or not whole or min(given) < 1:
        raise ValueError(f"{name} must be positive whole numbers, {many}; got {sizes!r}")
    return tuple(map(int, given))


def _layers(activation: Activation, initialization: str) -> dict[str, Any]:
    check_activation(activation)
    if initialization not in INITIALIZATIONS:
        raise ValueError(f"unknown initialization {initialization!r}; use one of {INITIALIZATIONS}")
    return {"activation": activation, "initialization": initialization}


@functools.cache
def _built(name: str, module_class: type, train_readout: bool, **options: Any) -> Network:
    """One object per configuration, so that equal networks share one compiled program."""
    module = module_class(**options)
    recipe = (name, (*options.items(), ("train_readout", train_readout)))
    return dataclasses.replace(
        from_flax(module),
        frozen=() if train_readout else ("readout",),
        recipe=None if callable(options["activation"]) else recipe,
    )


def rebuild(recipe: list | tuple) -> Network:
    """Build the network of a saved recipe.

    Args:
        recipe: Name and options, as `Network.recipe` has them.
    """
    name, options = recipe[0], {key: value for key, value in recipe[1]}
    if name == "freeze":
        return freeze(rebuild(options["network"]), *options["names"])
    return CONSTRUCTORS[name](**options)


CONSTRUCTORS: dict[str, Callable[..., Network]] = {"mlp": mlp, "convnet": convnet}


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
