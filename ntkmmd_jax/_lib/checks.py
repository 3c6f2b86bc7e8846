"""Checks of a user's numbers: each says what came in and what is wanted."""

import math
from typing import Any

import numpy as np


def whole(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is no whole number of at least `least`."""
    number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (number and value >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")


def positive(name: str, value: Any) -> None:
    """Refuse a number that is not positive and finite; what is traced its maker has checked."""
    if isinstance(value, int | float | np.number) and not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite; got {value!r}")
