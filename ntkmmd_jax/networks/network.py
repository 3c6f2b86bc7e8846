"""Networks f(x; θ): pairs of pure functions, some leaves of θ frozen.

The paper's network is f(x; θ) = Σ_k a_k σ(w_k·x + b_k) with w ~ N(0, I), b = 0, a ~ N(0, 1/m),
where the readout a stays fixed: frozen leaves are no part of the neural tangent kernel.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Union

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from ntkmmd_jax._lib.files import FileError
from ntkmmd_jax.networks.check import Explained
from ntkmmd_jax.networks.layers import INITIALIZATIONS, MLP, Activation, ConvNet, check_activation

Params = Any  # a pytree of arrays; θ, or the part of it that is trained


@dataclasses.dataclass(frozen=True)
class Network:
    """A pair `init(key, x) -> params`, `apply(params, x) -> (n,)`, with some leaves frozen.

    Attributes:
        init: Draws θ0; of `x` only the shape is used.
        apply: Maps n samples to n numbers, shape (n,) or (n, 1).
        frozen: Names, or a single one; a leaf is frozen if its path has one as a component.
        collection: The only top-level entry of the parameters that is trained, if not all are.
        recipe: `(constructor, options)` of a network of ours, so that it can be saved.
        module: The flax module behind it, if any.
    """

    init: Callable[[jax.Array, jax.Array], Params]
    apply: Callable[[Params, jax.Array], jax.Array]
    frozen: tuple[str, ...] = ()
    collection: str | None = None
    recipe: tuple[str, tuple[tuple[str, Any], ...]] | None = None
    module: Any = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frozen", _names(self.frozen))

    def __call__(self, params: Params, x: jax.Array) -> jax.Array:
        """f(x; θ), shape (n,); refuse a network that gives anything else."""
        out = self.apply(params, x)
        n = x.shape[0]
        shape, dtype = getattr(out, "shape", None), getattr(out, "dtype", type(out).__name__)
        if shape not in ((n,), (n, 1)) or not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(
                "the network must return one number per sample, shape (n,) or (n, 1): "
                f"it returned shape {shape} and type {dtype} for input of shape {x.shape}"
            )
        return out.reshape(n)

    def trainable(self, params: Params) -> tuple[Callable[[Params, jax.Array], jax.Array], Params]:
        """Split off the frozen leaves: `f(theta, x)` on the trained ones, and their values.

        Frozen places hold None, which is no leaf, so that θ is a vector space of its own.
        """
        frozen = jax.tree_util.tree_map_with_path(lambda path, _: self._is_frozen(path), params)
        self._check_frozen(params)
        theta = jax.tree.map(lambda leaf, stays: None if stays else leaf, params, frozen)

        def f(theta: Params, x: jax.Array) -> jax.Array:
            return self(merged(params, theta), x)

        return f, theta

    def _is_frozen(self, path: tuple) -> bool:
        components = _components(path)
        outside = self.collection is not None and components[0] != self.collection
        return outside or not set(self.frozen).isdisjoint(components)

    def _check_frozen(self, params: Params) -> None:
        paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
        unknown = set(self.frozen).difference(*map(_components, paths))
        if unknown:
            known = ["/".join(_components(path)) for path in paths]
            raise ValueError(f"cannot freeze {sorted(unknown)}: the parameters are {known}")
        if all(map(self._is_frozen, paths)):
            raise ValueError("every parameter is frozen: there is nothing to train")


# What stands for a network: one of ours, a flax module, or a bare pair (init, apply).
if TYPE_CHECKING:
    from flax import nnx

NetworkLike = Union[
    Network, linen.Module, "nnx.Module", tuple[Callable[..., Any], Callable[..., Any]]
]


def is_module(value: Any) -> bool:
    """Whether a value is a module of flax, linen or nnx.

    Whoever has one of nnx has imported it: we do not, as that takes a fifth of a second.
    """
    nnx = sys.modules.get("flax.nnx")
    return isinstance(value, linen.Module) or (nnx is not None and isinstance(value, nnx.Module))


def merged(params: Params, theta: Params) -> Params:
    """All leaves of θ: trained ones from `theta`, frozen ones, None there, from `params`."""
    return jax.tree.map(lambda leaf, new: leaf if new is None else new, params, theta)


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    """Names of leaves; a single string is one name, not its letters."""
    names = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"leaves are frozen by their names, each a string; got {names!r}")
    return names


def _components(path: tuple) -> list[str]:
    return jax.tree_util.keystr(path, simple=True, separator="/").split("/")


def freeze(network: NetworkLike, *names: str) -> Network:
    """Freeze the leaves under the given names: they are neither trained nor part of the kernel."""
    network, names = as_network(network), _names(names)
    recipe = None
    if network.recipe is not None:
        recipe = ("freeze", (("network", network.recipe), ("names", names)))
    return dataclasses.replace(network, frozen=(*network.frozen, *names), recipe=recipe)


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
        _from_linen(module),
        frozen=() if train_readout else ("readout",),
        recipe=None if callable(options["activation"]) else recipe,
    )


def rebuild(recipe: list | tuple) -> Network:
    """Build the network of a saved recipe."""
    name, options = recipe[0], {key: value for key, value in recipe[1]}
    if name == "freeze":
        return freeze(rebuild(options["network"]), *options["names"])
    return CONSTRUCTORS[name](**options)


CONSTRUCTORS: dict[str, Callable[..., Network]] = {"mlp": mlp, "convnet": convnet}


def restored(recipe: list | tuple | None, network: NetworkLike | None = None) -> Network:
    """The network of a saved file: the one given, or else that of its recipe."""
    if network is not None:
        return as_network(network)
    if recipe is None:
        raise FileError("the file has a network of your own: load it with network=...")
    return rebuild(recipe)


def from_flax(module: Any, *, frozen: str | Iterable[str] = ()) -> Network:
    """A network from a flax module that gives one number per sample.

    It must be a pure function: dropout takes deterministic=True, a norm use_running_average=True.

    Args:
        module: A linen module; an nnx module, whose present weights are then θ0 whatever the key;
            or a function `rngs -> nnx module`, which draws fresh ones.
        frozen: Names of leaves to freeze, or a single one. What is no parameter (batch statistics)
            always is.
    """
    if isinstance(module, linen.Module):
        network = _from_linen(module)
    elif is_module(module):
        network = _from_nnx(lambda _: module)
    elif callable(module):
        network = _from_nnx(module)
    else:
        raise TypeError(
            f"from_flax takes a linen or nnx module, or rngs -> nnx module; got {module!r}"
        )
    return dataclasses.replace(network, frozen=_names(frozen))


def _from_linen(module: linen.Module) -> Network:
    init, apply = Explained(module.init), Explained(module.apply)
    return Network(init, apply, collection="params", module=module)


def _from_nnx(build: Callable[["nnx.Rngs"], Any]) -> Network:
    from flax import nnx

    def parts(key: Any) -> tuple:
        return nnx.split(build(nnx.Rngs(key)), nnx.Param, ...)

    def init(key: jax.Array, x: jax.Array) -> Params:
        del x  # nnx modules know their input
        _, params, rest = parts(key)
        return {"params": nnx.to_pure_dict(params), "rest": nnx.to_pure_dict(rest)}

    def apply(params: Params, x: jax.Array) -> jax.Array:
        graph, state, rest = parts(0)  # the values are replaced, and never computed under jit
        nnx.replace_by_pure_dict(state, params["params"])
        nnx.replace_by_pure_dict(rest, params["rest"])
        return nnx.merge(graph, state, rest)(x)

    return Network(Explained(init), Explained(apply), collection="params")


def as_network(network: NetworkLike) -> Network:
    """A `Network` from one of ours, a flax module, or a bare `(init, apply)` pair."""
    if isinstance(network, Network):
        return network
    if is_module(network):
        return from_flax(network)
    if isinstance(network, tuple) and len(network) == 2 and all(map(callable, network)):
        return Network(*network)
    raise TypeError(
        "network must be one of ours (mlp, convnet), a flax module, or a pair (init, apply); "
        f"got {network!r}"
    )
