"""The polynomial kernel k(x, x') = (1 + x·x'/d)³ of the kernel inception distance.

As of Bińkowski et al. (2018): of features of images, its MMD² compares the first three moments.
"""

from typing import Any

import jax

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.points import as_points
from ntkmmd_jax._lib.precision import pinned
from ntkmmd_jax._lib.records import record, static


@record
class PolynomialKernel:
    """k(x, x') = (1 + x·x'/d)³, as an object.

    Example:
        >>> import numpy as np
        >>> float(PolynomialKernel()(np.ones((1, 4)), np.ones((1, 4)))[0, 0])
        8.0
    """

    degree: int = static(default=3)  # moments up to which it sees a difference

    def __post_init__(self) -> None:
        whole("degree", self.degree)

    def __call__(self, x1: Any, x2: Any) -> jax.Array:
        """k(x1, x2), shape (n1, n2)."""
        return polynomial_kernel(x1, x2, self.degree)


@pinned
def polynomial_kernel(x1: Any, x2: Any, degree: int = 3) -> jax.Array:
    """k(x, x') = (1 + x·x'/d)^degree, with d the number of features; shape (n1, n2).

    Args:
        x1: Points, shape (n1, ...).
        x2: Points, shape (n2, ...).
        degree: Moments up to which the kernel sees a difference.
    """
    x1, x2 = (as_points(x, name) for x, name in ((x1, "x1"), (x2, "x2")))
    x1, x2 = (x.reshape(len(x), -1) for x in (x1, x2))
    return (1 + x1 @ x2.T / x1.shape[1]) ** degree
