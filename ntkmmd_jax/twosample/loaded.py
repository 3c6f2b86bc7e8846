"""The parts of a saved result, from the leaves and the header of its file."""

from functools import partial
from typing import Any

import jax

from ntkmmd_jax._lib.files import refill
from ntkmmd_jax.sequential.recorded import Wealth
from ntkmmd_jax.witness import KINDS


def load_wealth(leaves: list, names: list[str] | None) -> tuple[Wealth | None, list]:
    """The wealth of a bet, if there is one, and the leaves after it."""
    if names is None:
        return None, leaves
    logs, level, *rest = leaves
    if logs.ndim != 2 or logs.shape[1] != len(names) or level.shape != ():
        raise ValueError(f"wealth of shape {logs.shape} of {len(names)} witnesses")
    return Wealth(logs, level, names=tuple(map(str, names))), rest


def load_witness(leaves: list, described: dict | None, network: Any, source: str) -> Any:
    """The witness of leaves and of what the file says of it; the network may be the user's."""
    if described is None:
        return refill(None, leaves, source=source)
    if network is None and described.get("network", ()) is None:
        reason = f"{source}: the witness has a network of your own: load it with network=..."
        return partial(_refuse, reason)
    # Of shapes only: nothing is allocated on the word of a header.
    blank = jax.eval_shape(lambda: KINDS[described["kind"]].blank(described, network))
    return refill(blank, leaves, source=source)


def _refuse(reason: str, points: Any) -> None:
    raise ValueError(reason)
