"""A test in plain values, so that a file can name it, and the way back."""

import dataclasses
from typing import Any

import jax

from ntkmmd_jax.networks import Network, restored
from ntkmmd_jax.twosample.gaussian import GaussianMMD
from ntkmmd_jax.twosample.hotelling import Hotelling
from ntkmmd_jax.twosample.ntk import NTKMMD, NetMMD

_CLASSES = {cls.__name__: cls for cls in (NetMMD, NTKMMD, GaussianMMD, Hotelling)}


def recipe(test: Any) -> dict[str, Any]:
    """The class, options and network of a test; refuse what no file can hold."""
    options = {}
    for field in dataclasses.fields(test):
        value = getattr(test, field.name)
        if isinstance(value, Network):
            value = value.recipe  # None for a function of the user's own, who has it at loading
        value = jax.tree.map(lambda leaf: getattr(leaf, "item", lambda: leaf)(), value)
        if not isinstance(value, int | float | str | bool | tuple | None):
            raise ValueError(
                f"{type(test).__name__}.{field.name} = {value!r} cannot be saved: "
                "use plain values, such as momentum instead of an optimizer"
            )
        options[field.name] = value
    return {"class": type(test).__name__, "options": options}


def from_recipe(made: dict[str, Any], network: Any = None) -> Any:
    """The test of a recipe; `network` if it was a function of the user's own."""
    if made["class"] not in _CLASSES:
        raise ValueError(f"unknown test {made['class']!r}; the known ones are {sorted(_CLASSES)}")
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in made["options"].items()}
    if "network" in options:
        options["network"] = restored(made["options"]["network"], network)
    return _CLASSES[made["class"]](**options)
