"""Many networks and scales, all of the data, one exact p-value, in linear time.

Every member m (see `members`) gives a statistic T_m of every labelling of one pool, on bins. In
units z_m of their spread over the pool, T is their soft maximum (`soft_maximum`). T of a labelling
depends on arranged points and on the pool only, so its rank among those of the pool is exact, as of
any statistic (`calibration`). A member that is the same for every labelling says nothing: its z is
0.
"""

import dataclasses
import operator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib import padding
from ntkmmd_jax._lib.checks import positive, whole
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.calibration import NullStatistics
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Network
from ntkmmd_jax.pooled import Pooled, pooled
from ntkmmd_jax.twosample import binned
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.evidence import Comparable, Permuted, Pool, Refittable, Samples
from ntkmmd_jax.twosample.fused_witness import FusedWitness
from ntkmmd_jax.twosample.members import Member, Scale, Seen, Tangent, as_member
from ntkmmd_jax.twosample.scales import prepared_together
from ntkmmd_jax.twosample.soft_maximum import fused, root_moments, z_scores, z_slopes
from ntkmmd_jax.twosample.spoken import Members

_TIE = 1e-4  # in units of z: rounding of T^⅓
_TABLED = 4096  # points whose kernel matrix is held: 64 MiB


def collection() -> tuple[Member, ...]:
    """The default: three Gaussian scales, the wider the longer trained, and the paper's network.

    Chosen by power over some twenty collections and five sharpnesses, on mixtures, perturbed
    uniforms, blobs and a mean shift; more members gained less than they lost.
    """
    return (
        Scale(1 / 6, times=(2.0**3, 2.0**7)),
        Scale(1 / 3, times=(2.0**7, 2.0**13)),
        Scale(1 / 2, times=(2.0**3, 2.0**13, 2.0**20)),
        Tangent(),
    )


@record
class FusedTable:
    """The members at fixed points, for T of many measures on them."""

    test: "FusedNTK"
    prepared: tuple
    tables: tuple[jax.Array, ...]  # of every member

    def __call__(self, weights: jax.Array, n_x: Any, n_y: Any) -> jax.Array:
        """T of weights (n,) of the points, of which n_X are x and n_Y are y."""
        pairs = zip(self.prepared, self.tables, strict=True)
        values = [one.weighed(table, weights) for one, table in pairs]
        return _alone(self.test, self.prepared, values, 1 / n_x + 1 / n_y)


@record
class FusedEvidence(Refittable, Comparable):
    """All points, and the members if they are prepared beforehand."""

    test: "FusedNTK"
    key: jax.Array
    prepared: tuple | None
    samples: Pooled

    def refitted(self, key: jax.Array, pool: Pool) -> Permuted:
        """The fused statistic of every labelling of bins."""
        test, samples = self.test, self.samples
        relabelling = pool.relabel(key, samples, bins=binned.bins_of_pooled(samples, test.bins))
        placed = relabelling.placed(samples.points)
        # The arrangement is uniform under H0, so any of its places are a sample without labels.
        prepared = self.prepared or test.prepare_placed(self.key, placed, samples.n)
        measure = samples.measure
        found = [one.labelled(relabelling, placed, measure) for one in prepared]
        values = jnp.concatenate([of_member for of_member, _ in found], axis=1)
        roots = jnp.cbrt(jnp.maximum(values, 0))
        if pool.chunk is None:
            mean, spread = roots.mean(0), roots.std(0)
        else:  # one scale for all chunks, and none of them knows which row is the observed one
            mean, spread = root_moments(prepared, self._sizes)
        scores = z_scores(roots, mean, spread)
        null = NullStatistics(fused(scores, test.sharpness), jnp.asarray(_TIE, scores.dtype))
        row = relabelling.observed
        slopes = z_slopes(roots[row], mean, spread)
        shares = jax.nn.softmax(test.sharpness * scores[row]) * slopes
        own = jnp.mean(~(scores < scores[row] - _TIE), axis=0)
        members = Members(values[row], scores[row], own, names=test.names)
        moved = [v for _, v in found]
        return Permuted(null, row, self._witness(prepared, moved, shares), members=members)

    def _witness(self, prepared: tuple, moved: list, shares: jax.Array) -> FusedWitness:
        features = self.samples.points.shape[1:]
        ends = np.cumsum([one.count for one in prepared])
        parts = zip(prepared, moved, jnp.split(shares, ends[:-1]), strict=True)
        return FusedWitness(tuple(one.witness(v, share, features) for one, v, share in parts))

    def _moved(self) -> tuple[tuple, list, list]:
        """The members, their v and their statistics."""
        prepared = self.prepared or self.test.prepare(self.key, self.samples.points)
        moved = _moved(prepared, self.samples.measure)
        return prepared, moved, _statistics(prepared, moved)

    @property
    def _sizes(self) -> Any:
        """1/n_X + 1/n_Y, whatever the labels."""
        samples, within = self.samples, self.samples.within
        n, n_x = padding.number(samples.n), padding.number(samples.n_x)
        if within is not None and within.groups is not None:
            n_x = n * within.of_x / len(within.strata)
        return 1 / n_x + 1 / (n - n_x)

    @property
    def witness(self) -> FusedWitness:
        """Of the members that speak loudest."""
        prepared, moved, values = self._moved()
        roots, law = jnp.cbrt(jnp.concatenate(values)), root_moments(prepared, self._sizes)
        shares = jax.nn.softmax(self.test.sharpness * z_scores(roots, *law)) * z_slopes(roots, *law)
        return self._witness(prepared, moved, shares)

    def statistic(self) -> jax.Array:
        """The members fused, on the scale of their laws under H0."""
        prepared, _, values = self._moved()
        return _alone(self.test, prepared, values, self._sizes)


def _moved(prepared: tuple, measure: SignedMeasure) -> list:
    """v of every member."""
    return [one.moved(measure) for one in prepared]


def _statistics(prepared: tuple, moved: Any) -> list[jax.Array]:
    """T_m of every member."""
    return [one.statistics(v) for one, v in zip(prepared, moved, strict=True)]


def _alone(test: "FusedNTK", prepared: tuple, values: list[jax.Array], sizes: Any) -> jax.Array:
    """T of one measure by the laws of its members, without a pool; sizes is 1/n_X + 1/n_Y."""
    scores = z_scores(jnp.cbrt(jnp.concatenate(values)), *root_moments(prepared, sizes))
    return fused(scores, test.sharpness)


@record
class FusedNTK(TwoSampleTest):
    """A collection of networks and scales, fused into one statistic of all data.

    The default collection has three Gaussian scales, at two or three training times each, and the
    paper's network. Members look at standardised, pooled points only, never at labels.

    Args:
        members: `Scale`, `Tangent` or networks, one or several.
        landmarks: Centres of the radial units of scales; all points, if there are no more.
        bins: About how many bins are labelled: one a point up to 1,024 points, then 256, by
            default.
        sharpness: s, of the soft maximum over members: 0 would be their mean, ∞ the loudest.
        standardize: Whether the test sees every coordinate with pooled mean 0 and spread 1.

    Example:
        >>> import jax
        >>> import ntkmmd_jax as ntk
        >>> x, y = ntk.datasets.blobs(jax.random.key(0), 200, 150)
        >>> result = ntk.two_sample_test(x, y, method="ntk-fuse")
        >>> result.reject
        True
    """

    stratifies: ClassVar[bool] = True
    fits: ClassVar[bool] = True
    null_order: ClassVar[float] = 0.0  # z knows the sizes
    null_power: ClassVar[float] = 1 / 3

    members: Any = static(default_factory=collection)  # `Scale`, `Tangent`, or networks
    landmarks: int = static(default=256, kw_only=True)  # of the scales; all points, if no more
    bins: int | None = static(default=None, kw_only=True)  # None: as `bins_of` has it
    sharpness: Any = dataclasses.field(default=3.0, kw_only=True)  # of the soft maximum
    standardize: bool = static(default=True, kw_only=True)

    def __post_init__(self) -> None:
        given = self.members if isinstance(self.members, tuple | list) else (self.members,)
        if not given:
            raise ValueError("the collection is empty: give it networks, `Scale` or `Tangent`")
        object.__setattr__(self, "members", tuple(map(as_member, given)))
        super().__post_init__()
        binned.check_bins(self.bins)
        whole("landmarks", self.landmarks, 2)
        positive("sharpness", self.sharpness)

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "ntk-fuse"

    @property
    def names(self) -> tuple[str, ...]:
        """Of all statistics."""
        return tuple(name for member in self.members for name in member.names)

    @property
    def networks(self) -> tuple[Network, ...]:
        """Those of the members."""
        return tuple(network for member in self.members for network in member.networks)

    @property
    def pads_up_to(self) -> int:
        """As long as a program is soon run."""
        return binned.PADDED if self.bins is None and all(one.pads for one in self.members) else 0

    def pads(self, n_x: int, n_y: int) -> bool:
        """Whether samples of these sizes share a program with others (see `pooled`)."""
        return binned.bins_pad(n_x, n_y) and super().pads(n_x, n_y)

    @property
    def evidence_type(self) -> type[FusedEvidence]:
        """All points."""
        return FusedEvidence

    def prepare(self, key: jax.Array, points: jax.Array) -> tuple:
        """The members, from pooled points in any order; some repeat if landmarks are more."""
        k_order, k_members = jax.random.split(key)
        placed = jax.random.permutation(k_order, points)
        # As many of them as there are always: a saved chart has one shape, whatever its pool.
        seen = Seen(placed, placed[jnp.arange(self.landmarks) % len(placed)])
        pairs = zip(self.members, jax.random.split(k_members, len(self.members)), strict=True)
        return tuple(member.prepare(k, seen) for member, k in pairs)

    def prepare_placed(self, key: jax.Array, placed: jax.Array, n: Any) -> tuple:
        """The members, from n points in random order: their landmarks are spread over all."""
        if padding.is_full(len(placed), n):
            landmarks = placed[:: max(1, n // self.landmarks)][: self.landmarks]
            return prepared_together(self.members, key, Seen(placed, landmarks))
        room = min(self.landmarks, len(placed))
        stride = jnp.maximum(1, n // self.landmarks)
        landmarks = placed[jnp.minimum(jnp.arange(room) * stride, n - 1)]
        seen = Seen(placed, landmarks, n, padding.at_most(n, room))
        return prepared_together(self.members, key, seen)

    def prepare_run(self, key: jax.Array, points: jax.Array) -> None:
        """Nothing: members see placed points, lest their rounding follow the labels."""
        return None

    def null_centre(self, prepared: tuple) -> jax.Array:
        """The members fused where every T_m is 0."""
        mean, spread = root_moments(prepared, 1.0)
        return fused(z_scores(jnp.zeros_like(mean), mean, spread), self.sharpness)

    def tabled(self, prepared: tuple, points: jax.Array) -> FusedTable | None:
        """The members at fixed points, if these are not too many for a kernel matrix."""
        if len(points) > _TABLED:
            return None
        return FusedTable(self, prepared, tuple(one.table(points) for one in prepared))

    def moved(self, prepared: tuple, sample: jax.Array) -> list:
        """v of every member, of the mean over a sample."""
        weights = jnp.full(len(sample), 1 / len(sample), sample.dtype)
        return _moved(prepared, SignedMeasure(sample, weights))

    def apart(self, prepared: tuple, x: Any, y: Any, n_x: Any, n_y: Any) -> jax.Array:
        """T of two samples, from what they `moved`."""
        values = _statistics(prepared, jax.tree.map(operator.sub, x, y))
        return _alone(self, prepared, values, 1 / n_x + 1 / n_y)

    def evidence(
        self, key: jax.Array, prepared: tuple | None, train: Samples, held: Samples
    ) -> FusedEvidence:
        """The points; with members, if they are fixed."""
        return FusedEvidence(self, key, prepared, pooled(held))

    def scratch(self, n: int) -> int:
        """Numbers that a run holds: the features of n points."""
        return len(self.members) * self.landmarks * (n + 4 * self.landmarks)

    def reach(self, n_x: int, n_y: int) -> tuple[int, str]:
        """How many values labellings of bins give to T."""
        bins = binned.bins_of(n_x, n_y, self.bins)
        return super().reach(n_x, n_y) if bins is None else binned.bins_reach(bins)
