"""Networks f(x; θ): pairs of pure functions, some leaves of θ frozen.

The paper's network is f(x; θ) = Σ_k a_k σ(w_k·x + b_k) with w ~ N(0, I), b = 0, a ~ N(0, 1/m),
where the readout a stays fixed: frozen leaves are no part of the neural tangent kernel.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

Params = Any  # a pytree of arrays; θ, or the part of it that is trained


@dataclasses.dataclass(frozen=True)
class Network:
    """A pair `init(key, x) -> params`, `apply(params, x) -> (n,)`, with some leaves frozen.

    Attributes:
        init: Draws θ0; of `x` only the shape is used.
        apply: Maps n samples to n numbers, shape (n,) or (n, 1).
        frozen: Names, or a single one; a leaf is frozen if its path has one as a component. With
            "a/b", if it has b below a.
        collection: The only top-level entry of the parameters that is trained, if not all are.
        recipe: `(constructor, options)` of a network of ours, so that it can be saved.
        pretrained: Whether θ0 are weights given by the user, the same for every key. They belong to
            points as they are, which the call by name therefore leaves as they are.

    Example:
        >>> def init(key, x):
        ...     return {"w": jax.random.normal(key, x.shape[1:])}
        >>> def apply(params, x):
        ...     return jnp.tanh(x @ params["w"])
        >>> Network(init, apply)
        Network(init=init, apply=apply)
    """

    init: Callable[[jax.Array, jax.Array], Params]
    apply: Callable[[Params, jax.Array], jax.Array]
    frozen: tuple[str, ...] = ()
    collection: str | None = None
    recipe: tuple[str, tuple[tuple[str, Any], ...]] | None = None
    pretrained: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "frozen", names_of(self.frozen))

    @property
    def module(self) -> Any:
        """The module behind it, flax's or that of an `mlp`, if any."""
        return getattr(self.apply, "module", None)

    def __repr__(self) -> str:
        if self.recipe is None:
            frozen = f", frozen={self.frozen}" if self.frozen else ""
            if self.module is not None:
                return f"Network({type(self.module).__name__}{frozen})"
            names = (getattr(f, "__name__", type(f).__name__) for f in (self.init, self.apply))
            return "Network(init={}, apply={}{})".format(*names, frozen)
        return _written(self.recipe)

    def __call__(self, params: Params, x: jax.Array) -> jax.Array:
        """f(x; θ), shape (n,); refuse a network that gives anything else."""
        out = self.apply(params, x)
        n = x.shape[0]
        shape, dtype = getattr(out, "shape", None), getattr(out, "dtype", type(out).__name__)
        if shape not in ((n,), (n, 1)) or not jnp.issubdtype(dtype, jnp.floating):
            many = shape is not None and shape[:1] == (n,) and len(shape) > 1
            hint = "; put a head on it, as with_head(network, linen.Dense(1)) does" * many
            raise ValueError(
                "the network must return one number per sample, shape (n,) or (n, 1): it returned "
                f"shape {shape} and type {dtype} for input of shape {x.shape}{hint}"
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
        return outside or any(_has(components, name) for name in self.frozen)

    def _check_frozen(self, params: Params) -> None:
        paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
        leaves = list(map(_components, paths))
        unknown = [name for name in self.frozen if not any(_has(leaf, name) for leaf in leaves)]
        if unknown:
            known = ["/".join(leaf) for leaf in leaves]
            raise ValueError(f"cannot freeze {sorted(unknown)}: the parameters are {known}")
        if all(map(self._is_frozen, paths)):
            raise ValueError("every parameter is frozen: there is nothing to train")


def _written(recipe: Any) -> str:
    """A recipe as the call that it is: `mlp(widths=(16,), activation='relu', …)`."""
    name, options = recipe
    told = (
        f"{key}={_written(value) if key == 'network' else repr(value)}" for key, value in options
    )
    return f"{name}({', '.join(told)})"


def merged(params: Params, theta: Params) -> Params:
    """All leaves of θ: trained ones from `theta`, frozen ones, None there, from `params`.

    Args:
        params: θ0, all leaves.
        theta: The trained leaves, None where one is frozen.
    """
    return jax.tree.map(lambda leaf, new: leaf if new is None else new, params, theta)


def names_of(names: str | Iterable[str]) -> tuple[str, ...]:
    """Names of leaves; a single string is one name, not its letters."""
    names = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"leaves are frozen by their names, each a string; got {names!r}")
    return names


def _components(path: tuple) -> list[str]:
    return jax.tree_util.keystr(path, simple=True, separator="/").split("/")


def _has(components: list[str], name: str) -> bool:
    """Whether a path has the parts of a name, one below the other."""
    left = iter(components)  # what comes after the part that was found last
    return all(part in left for part in name.split("/"))
