"""A test in plain values, so that a file can name it, and the way back."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from ntkmmd_jax import twosample
from ntkmmd_jax._lib.files import fields_of, plain
from ntkmmd_jax.networks import Network, restored
from ntkmmd_jax.sequential import recipe as wagers
from ntkmmd_jax.sequential.bets import AGRAPA, ONS
from ntkmmd_jax.sequential.learners import Learner
from ntkmmd_jax.twosample.adaptive import Adaptive
from ntkmmd_jax.twosample.bet import BettingTest
from ntkmmd_jax.twosample.calibrations import Calibration
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.members import Scale, Tangent

_MEMBERS: dict[str, Any] = {cls.__name__: cls for cls in (Scale, Tangent)}


def recipe(test: TwoSampleTest) -> dict[str, Any]:
    """The class, options and network of a test; refuse what no file can hold."""

    def other(value: Any) -> Any:
        if isinstance(value, Network):
            return value.recipe  # None for a function of the user's own, who has it at loading
        if isinstance(value, Learner | ONS | AGRAPA):
            return wagers.recipe(value)
        if isinstance(value, tuple(_MEMBERS.values())):
            return {"class": type(value).__name__, "options": plain(fields_of(value), other)}
        if isinstance(value, Adaptive):
            return plain(fields_of(value), other)
        if isinstance(value, Calibration) and not jax.tree.leaves(value):
            return value.word  # its numbers are options of the test
        if isinstance(value, jax.Array | np.ndarray | np.generic):
            return value.item()
        raise ValueError(
            f"{value!r} of {type(test).__name__} cannot be saved: "
            "use plain values, such as momentum instead of an optimizer"
        )

    made = {"class": type(test).__name__, "options": plain(fields_of(test), other)}
    return made if _module(type(test)) is None else {**made, "module": _module(type(test))}


def from_recipe(made: dict[str, Any], network: Any = None) -> TwoSampleTest:
    """The test of a recipe; `network` if it was a function of the user's own."""
    module = made.get("module")  # of one of the user's own; defined again, the last counts
    if module is None and made["class"] in twosample.__all__:
        getattr(twosample, made["class"])  # ours are imported when they are asked for
    classes = {cls.__name__: cls for cls in _tests(TwoSampleTest) if _module(cls) == module}
    if made["class"] not in classes:
        where = "" if module is None else f" of {module}: import that module first"
        raise ValueError(f"unknown test {made['class']!r}{where}; known are {sorted(classes)}")
    if made["class"] == BettingTest.__name__:
        return _bet(made["options"], network)
    options = _options(made["options"], network)
    options.pop("pilot", None)  # of earlier versions, always None
    if isinstance(options.get("calibration"), dict):  # the one with numbers of its own
        options["calibration"] = Adaptive(**options["calibration"])
    if "members" in options:
        members = made["options"]["members"]
        options["members"] = tuple(
            _MEMBERS[one["class"]](**_options(one["options"], network)) for one in members
        )
    return classes[made["class"]](**options)


def _module(cls: type) -> str | None:
    """Where a class of the user's own comes from; None of ours."""
    return None if cls.__module__.split(".")[0] == "ntkmmd_jax" else cls.__module__


def _tests(base: type) -> Iterator[type]:
    """All tests that there are, those of users included."""
    for cls in base.__subclasses__():
        if cls.method is not TwoSampleTest.method:  # others are bases only
            yield cls
        yield from _tests(cls)


def _bet(made: dict[str, Any], network: Any) -> BettingTest:
    """A bet; its witnesses those of the network given, if there is a function of the user's own."""
    own = any(map(wagers.is_own, made["network"]))  # a network may be given for others
    learners = wagers.learners_of(made["network"], network if own else None)
    return BettingTest(**{**made, "network": learners, "bet": wagers.from_recipe(made["bet"])})


def _options(made: dict[str, Any], network: Any) -> dict[str, Any]:
    """Options as they were; the network of those that have one."""
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in made.items()}
    if "network" in options:
        options["network"] = restored(made["network"], network if made["network"] is None else None)
    return options
