"""Permutations within strata: labels change places among the points of one stratum only.

Where samples differ in a nuisance (a hospital, a day, an age group), points are exchangeable under
H0 within a stratum, not across: permuted across, the nuisance itself would be found. A pool whose
rows all have n_X^s labels x in stratum s is exact then, by the argument of `calibration` in every
stratum at once. Pairs (x_i, y_i) are strata of two points: their labels swap, or stay.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax.calibration.pools import Relabelling, arranged

_MANY = 10**8  # labellings, beyond which they are not counted


def relabel_within(key: jax.Array, n_x: int, strata: jax.Array, n_permutations: int) -> Relabelling:
    """Place points into a pool of labellings within strata.

    Args:
        key: For the pool, the arrangement of the points and the observed row.
        n_x: Points labelled x.
        strata: The stratum of every pooled point, x first, as whole numbers, shape (n,).
        n_permutations: B; the pool has B + 1 rows.
    """
    k_pool, k_place = jax.random.split(key)
    n, rows = len(strata), jnp.arange(len(strata))
    of_place = jnp.sort(strata)  # places come stratum by stratum
    left = jnp.searchsorted(of_place, of_place, side="right") - rows  # of it, from here on
    first = rows == jnp.searchsorted(of_place, of_place)
    of_x = jnp.sort(strata[:n_x])
    needed = jnp.searchsorted(of_x, of_place, side="right") - jnp.searchsorted(of_x, of_place)

    def choose(wanted: jax.Array, step: tuple) -> tuple[jax.Array, jax.Array]:
        """Selection sampling, as in `label_pool`, begun anew in every stratum."""
        u, left, first, needed = step
        wanted = jnp.where(first, needed, wanted)
        chosen = u * left < wanted
        return wanted - chosen.astype(u.dtype), chosen

    u = jax.random.uniform(k_pool, (n, n_permutations + 1))
    steps = (u, left.astype(u.dtype), first, needed.astype(u.dtype))
    labels = jax.lax.scan(choose, jnp.zeros_like(u[0]), steps)[1].T
    bits = jax.random.bits(k_place, (1 + n,))
    observed = (bits[0] % (n_permutations + 1)).astype(jnp.int32)
    # x by stratum, in random order within; then y: as many in every stratum as the row has places.
    keys = ((rows >= n_x).astype(bits.dtype), strata, bits[1:], rows)
    random = jax.lax.sort(keys, num_keys=3)[3]
    order = arranged(labels[observed], random, n_x)
    return Relabelling(labels, order, observed, n_x, n - n_x)


def as_strata(x: Any, y: Any, n_x: int, n_y: int) -> tuple[np.ndarray, int]:
    """Strata of x and of y as whole numbers, pooled, and how many labellings they leave.

    Args:
        x: The stratum of every point of x, whatever names it: numbers, words, dates.
        y: Likewise of y.
        n_x: Points of x.
        n_y: Points of y.
    """
    x, y = as_names("stratum", x, y, n_x, n_y)
    found = np.unique(np.concatenate([x, y]), return_inverse=True)[1]
    counts = [np.bincount(part, minlength=found.max() + 1) for part in (found[:n_x], found[n_x:])]
    ways, even = 1, True
    for a, b in zip(*(count.tolist() for count in counts), strict=True):
        ways = min(ways * math.comb(a + b, a), _MANY)
        even = even and a == b
    return found.astype(np.int32), ways // (1 + even)  # all labels swapped, an MMD² is the same


def as_names(what: str, x: Any, y: Any, n_x: int, n_y: int) -> tuple[np.ndarray, np.ndarray]:
    """What names the stratum, or the group, of every point of x and of y, as arrays."""
    x, y = np.asarray(x), np.asarray(y)
    if x.shape != (n_x,) or y.shape != (n_y,):
        raise ValueError(
            f"name one {what} a point: shapes ({n_x},) and ({n_y},); got {x.shape} and {y.shape}"
        )
    for sample, names in zip("xy", (x, y), strict=True):
        if (missing := np.asarray([name is None or name != name for name in names.tolist()])).any():
            raise ValueError(
                f"{missing.sum()} points of {sample} have no {what} (the first is point "
                f"{missing.argmax()}): drop them, or give each a {what} of its own"
            )
    return x, y
