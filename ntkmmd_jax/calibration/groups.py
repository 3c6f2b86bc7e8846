"""Whole groups: a patient's, a day's, a block's points keep one label, and groups change theirs.

Points of one group depend on each other, and under H0 only groups are exchangeable: the groups of
both samples, each with its points and its size, are one sequence whose order says nothing. Let G_X
of them be x. A pool has B + 1 labellings of the groups, each with G_X labels x; the observed one
takes a random row J of it, the groups of x fill the x places of row J in random order, those of y
its y places, and points stand group by group, in random order within. Under H0 this arrangement is
independent of J. T of a row is a function of the arrangement and the row, so that the rank of row J
among all is uniform and the level exact, as in `calibration`, with groups for points.

The number of points labelled x, n_X(b) = Σ of the sizes of the groups labelled x, depends on the
row where sizes differ, and with it the weights, +1/n_X(b) and −1/n_Y(b): every row is a signed
measure of mass +1 and −1. The observed n_X, which would tell row J from others, enters nothing. As
MMD² is about 1/n_X(b) + 1/n_Y(b) under H0, the statistic is n_X(b) n_Y(b) MMD², up to a constant:
then a labelling does not stand out by its sizes alone, where sizes go with the label by design.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.calibration.pools import Relabelling
from ntkmmd_jax.calibration.strata import as_names, as_strata


@record
class Exchangeable:
    """Which labels may change places under H0: of points or of whole groups, within strata."""

    strata: jax.Array  # of every point, or of every group; those of x first
    groups: jax.Array | None = None  # (n,) which group a point belongs to; None: labels of points
    of_x: int | None = static(default=None)  # groups of x

    def spread(self, key: jax.Array, units: Relabelling, n_x: Any, n_y: Any) -> Relabelling:
        """Labellings of points, from those of points or groups.

        Args:
            key: For the order of the points within groups.
            units: A pool for the points or groups, and the place of each.
            n_x: Points of x.
            n_y: Points of y.
        """
        if self.groups is None:
            return units
        place = jnp.argsort(units.order)  # of every group
        bits = jax.random.bits(key, self.groups.shape)
        keys = (place[self.groups], bits, jnp.arange(len(bits)))
        at, _, order = jax.lax.sort(keys, num_keys=2)
        labels = units.labels[:, at]
        found = Relabelling(labels, order, units.observed, n_x, n_y, of_x=labels.sum(1))
        (rows_x, rows_y), share = found.sizes, (self.of_x or 0) / len(self.strata)
        balance = rows_x * rows_y / (share * (1 - share) * len(bits) ** 2)
        return dataclasses.replace(found, balance=balance)


def as_groups(
    x: Any, y: Any, n_x: int, n_y: int, strata: tuple[Any, Any] | None = None
) -> tuple[Exchangeable, int]:
    """Groups of x and of y, within strata if there are, and how many labellings they leave.

    Args:
        x: The group of every point of x, whatever names it: numbers, words, dates.
        y: Likewise of y. No group is in both.
        n_x: Points of x.
        n_y: Points of y.
        strata: The stratum of every point of x, and of y; one for all points of a group.
    """
    of_x, of_y = as_names("group", x, y, n_x, n_y)
    (names, first_x, in_x), (others, first_y, in_y) = (
        np.unique(names, return_index=True, return_inverse=True) for names in (of_x, of_y)
    )
    if len(both := np.intersect1d(names, others)):
        raise ValueError(
            f"a group has one label, so that it lies in one sample; {len(both)} are in both, the "
            f"first is {both[0]!s}. Where points of a group are in both samples, give strata"
        )
    if _fewest(in_x, in_y, len(names)) < 2:
        raise ValueError(
            f"{len(names)} + {len(others)} groups can be relabelled so that one sample has a "
            "single point: take groups of two points at least, or more groups"
        )
    groups = np.concatenate([in_x, len(names) + in_y]).astype(np.int32)
    given = (np.zeros(n_x), np.zeros(n_y)) if strata is None else strata
    inside = as_names("stratum", given[0], given[1], n_x, n_y)
    for sample, of_group, first in zip(inside, (in_x, in_y), (first_x, first_y), strict=True):
        if (split := sample != sample[first][of_group]).any():
            raise ValueError(
                f"a group lies in one stratum; the group of point {int(split.argmax())} of a "
                "sample has points in two"
            )
    by_group = (inside[0][first_x], inside[1][first_y])
    found, ways = as_strata(*by_group, len(names), len(others))
    return Exchangeable(jnp.asarray(found), jnp.asarray(groups), of_x=len(names)), ways


def _fewest(in_x: np.ndarray, in_y: np.ndarray, of_x: int) -> int:
    """The smallest sample that any labelling makes: of as many groups, the smallest."""
    sizes = np.sort(np.concatenate([np.bincount(in_x), np.bincount(in_y)]))
    return int(sizes[: min(of_x, len(sizes) - of_x)].sum())
