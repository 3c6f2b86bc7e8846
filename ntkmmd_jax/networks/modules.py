"""Networks from flax modules, drawn at random or pretrained, and a head on a backbone:

    f(x; θ) = h(φ(x; θ_φ); θ_h),

with φ from samples to features and h from features to numbers. With θ_φ frozen, f is the network h
on the features φ(x): its tangent kernel is that of h at φ(x) and φ(x').
"""

import dataclasses
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Union

import jax
import jax.numpy as jnp

from ntkmmd_jax.networks.check import Explained
from ntkmmd_jax.networks.network import Network, Params, names_of

# What stands for a network: one of ours, a flax module, or a bare pair (init, apply).
if TYPE_CHECKING:
    from flax import linen, nnx

NetworkLike = Union[
    Network, "linen.Module", "nnx.Module", tuple[Callable[..., Any], Callable[..., Any]]
]


def is_module(value: Any) -> bool:
    """Whether a value is a module of flax, linen or nnx."""
    return _is_of("flax.linen", value) or _is_of("flax.nnx", value)


def _is_of(library: str, value: Any) -> bool:
    """Whoever has a module has imported its library; we do not, as that takes its time."""
    found = sys.modules.get(library)
    return found is not None and isinstance(value, found.Module)


def as_network(network: NetworkLike) -> Network:
    """A `Network` from one of ours, a flax module, or a bare `(init, apply)` pair.

    Args:
        network: Any of these.
    """
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


def freeze(network: NetworkLike, *names: str) -> Network:
    """Freeze the leaves under the given names: they are neither trained nor part of the kernel.

    Args:
        network: One of ours, a flax module, or a pair (init, apply).
        *names: Of leaves or of what holds them: "bias", "backbone"; "head/bias" is every bias below
            head.

    Example:
        >>> from ntkmmd_jax.networks import mlp
        >>> freeze(mlp((16, 16)), "layer_1").frozen
        ('readout', 'layer_1')
    """
    network, names = as_network(network), names_of(names)
    recipe = None
    if network.recipe is not None:
        recipe = ("freeze", (("network", network.recipe), ("names", names)))
    return dataclasses.replace(network, frozen=(*network.frozen, *names), recipe=recipe)


def from_flax(
    module: Any,
    *,
    params: Params | None = None,
    method: str | None = None,
    frozen: str | Iterable[str] = (),
) -> Network:
    """A network from a flax module that gives one number per sample; or, for `with_head`, features.

    It must be a pure function: dropout takes deterministic=True, a norm use_running_average=True
    (of an nnx module, `module.eval()` sets both).

    Args:
        module: A linen module; an nnx module, whose present weights are then θ0 whatever the key;
            or a function `rngs -> nnx module`, which draws fresh ones.
        params: Pretrained weights of a linen module, as its `init` gives them and `apply` takes
            them: {"params": ..., "batch_stats": ...}. They are θ0 whatever the key. Make the
            network once and use it often: another call makes another, which compiles anew.
        method: The method to call instead of `__call__`, by name: one that gives features.
        frozen: Names of leaves to freeze, or a single one. What is no parameter (batch statistics)
            always is.

    Example:
        >>> from flax import linen
        >>> from_flax(linen.Dense(1), frozen="bias").frozen
        ('bias',)
    """
    if _is_of("flax.linen", module):
        network = _from_linen(module, params, method)
    elif params is not None:
        raise ValueError(
            "params= is for linen modules; an nnx module has its weights in itself: give the "
            "module that you have trained or loaded"
        )
    elif is_module(module):
        network = dataclasses.replace(_from_nnx(lambda _: module, method), pretrained=True)
    elif callable(module):
        network = _from_nnx(module, method)
    else:
        raise TypeError(
            f"from_flax takes a linen or nnx module, or rngs -> nnx module; got {module!r}"
        )
    return dataclasses.replace(network, frozen=names_of(frozen))


def with_head(backbone: NetworkLike, head: NetworkLike) -> Network:
    """A head on a backbone, f(x; θ) = h(φ(x; θ_φ); θ_h): for features, or many outputs.

    Leaves are below "backbone" and "head": `freeze(with_head(backbone, head), "backbone")` trains
    the head alone. What the two freeze stays frozen.

    Args:
        backbone: Gives features of any shape (n, ...): a network of ours, a flax module, or a pair
            (init, apply); pretrained, by `from_flax(module, params=...)`.
        head: Gives one number per sample from them: `linen.Dense(1)`, `mlp()`, ….

    Example:
        >>> from flax import linen
        >>> critic = freeze(with_head(linen.Dense(8), linen.Dense(1)), "backbone")
        >>> x = jnp.ones((5, 3))
        >>> critic(critic.init(jax.random.key(0), x), x).shape
        (5,)
    """
    backbone, head = as_network(backbone), as_network(head)
    frozen = [f"backbone/{name}" for name in backbone.frozen]
    frozen += [f"head/{name}" for name in head.frozen]
    given = {"frozen": tuple(frozen), "pretrained": backbone.pretrained}
    parts = (backbone, head)
    return Network(_HeadInit(*parts), _HeadApply(*parts), collection="params", **given)


def _from_linen(module: "linen.Module", params: Params | None, method: str | None) -> Network:
    from flax import core

    apply = Explained(module.apply if method is None else _Method(module, method))
    if params is None:
        return Network(Explained(module.init), apply, collection="params")
    if "params" not in params:
        raise ValueError(
            "params must be what the module's apply takes, {'params': ..., ...}; "
            f"got {sorted(params)}: wrap the weights as {{'params': weights}}"
        )
    weights = _Weights(core.unfreeze(params))
    return Network(weights, apply, collection="params", pretrained=True)


def _from_nnx(build: Callable[["nnx.Rngs"], Any], method: str | None) -> Network:
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
        return getattr(nnx.merge(graph, state, rest), method or "__call__")(x)

    return Network(Explained(init), Explained(apply), collection="params")


@dataclasses.dataclass(frozen=True)
class _Method:
    """`apply` of a linen module by another method than `__call__`; equal for the same one."""

    owner: "linen.Module"
    name: str

    def __call__(self, params: Params, x: jax.Array) -> Any:
        return self.owner.apply(params, x, method=self.name)


@dataclasses.dataclass(frozen=True, eq=False)
class _Weights:
    """θ0 that is given: the same for every key. Equal to itself only: arrays have no hash."""

    params: Params

    def __call__(self, key: jax.Array, x: jax.Array) -> Params:
        return self.params


@dataclasses.dataclass(frozen=True)
class _HeadInit:
    """{"params": what either part trains, "rest": what it never does}."""

    backbone: Network
    head: Network

    def __call__(self, key: jax.Array, x: jax.Array) -> Params:
        k_backbone, k_head = jax.random.split(key)
        of_backbone = self.backbone.init(k_backbone, x)
        features = jax.eval_shape(self.backbone.apply, of_backbone, x)
        of_head = self.head.init(k_head, jnp.zeros(features.shape, features.dtype))
        trained, rest = _apart(self.backbone, of_backbone)
        trained_head, rest_head = _apart(self.head, of_head)
        return {
            "params": {"backbone": trained, "head": trained_head},
            "rest": {"backbone": rest, "head": rest_head},
        }


@dataclasses.dataclass(frozen=True)
class _HeadApply:
    """h(φ(x))."""

    backbone: Network
    head: Network

    def __call__(self, params: Params, x: jax.Array) -> jax.Array:
        features = self.backbone.apply(_together(self.backbone, "backbone", params), x)
        return self.head.apply(_together(self.head, "head", params), features)


def _apart(network: Network, params: Params) -> tuple[Params, Params]:
    """What a network may train, and its other collections."""
    if network.collection is None:
        return params, {}
    rest = {name: values for name, values in params.items() if name != network.collection}
    return params[network.collection], rest


def _together(network: Network, name: str, params: Params) -> Params:
    """The same of a part of a network with a head, put together again."""
    trained, rest = params["params"][name], params["rest"][name]
    return trained if network.collection is None else {network.collection: trained, **rest}
