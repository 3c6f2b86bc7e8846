"""Learners and bets in plain values, so that a file can name them, and the way back."""

import json
from typing import Any

from ntkmmd_jax._lib.files import FileError, fields_of, plain
from ntkmmd_jax.networks import Network, restored
from ntkmmd_jax.sequential.bets import AGRAPA, ONS, Bet
from ntkmmd_jax.sequential.bettor import as_learners
from ntkmmd_jax.sequential.learners import Exact, Learner, Trained
from ntkmmd_jax.sequential.ridge import Ridge

_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (Exact, Trained, Ridge, ONS, AGRAPA)}
_OWN = {"own": True}  # what no file can hold: a function of the user's


def recipe(one: Learner | Bet) -> dict[str, Any]:
    """The class and the options of a learner or a bet."""

    def other(value: Any) -> Any:
        if isinstance(value, Network) and value.recipe is not None:
            return value.recipe
        return _OWN

    return {"class": type(one).__name__, "options": plain(fields_of(one), other)}


def is_own(made: dict[str, Any]) -> bool:
    """Whether a recipe has functions of the user's own."""
    return _OWN in made["options"].values()


def from_recipe(made: dict[str, Any]) -> Any:
    """The learner or bet of a recipe; refuse one that has functions of the user's own."""
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in made["options"].items()}
    if is_own(made):
        names = sorted(name for name, value in options.items() if value == _OWN)
        raise FileError(
            f"the file has a {' and a '.join(names)} of your own: load it with network=..., the "
            "network or the witnesses that `init` was given"
        )
    if "network" in options:
        options["network"] = restored(made["options"]["network"])
    return _CLASSES[made["class"]](**options)


def learners_of(saved: list[dict[str, Any]], network: Any = None) -> tuple[Learner, ...]:
    """The learners of a file; those given, if there is a function of the user's own among them."""
    if network is None:
        return tuple(map(from_recipe, saved))
    learners = as_learners(network)
    own = json.loads(json.dumps([recipe(one) for one in learners]))
    if own != saved:
        raise FileError(f"the file is of a test with {saved}; got {own}")
    return learners
