"""A test of one's own: say what T is, and the rest follows.

    T(z, w) of points z_1 … z_n and signed weights w, +1/n_X on x and −1/n_Y on y,

for many rows of weights at once. The labellings, an exact level (the points are placed before T is
computed, see `calibration`), p-value and threshold, sweeps, charts, pilots and files come from the
contract that all tests have.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record
from ntkmmd_jax.calibration import NullStatistics
from ntkmmd_jax.calibration.nulls import tie_tolerance
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.pooled import Pooled, pooled
from ntkmmd_jax.twosample.contract import TwoSampleTest
from ntkmmd_jax.twosample.evidence import Comparable, Permuted, Pool, Refittable, Samples
from ntkmmd_jax.twosample.parts import Prepared


@record
class OwnEvidence(Refittable, Comparable):
    """All points, and what is prepared if it is fixed beforehand."""

    test: "PermutationTest"
    key: jax.Array
    prepared: Prepared
    samples: Pooled

    def _prepared(self, points: jax.Array) -> Prepared:
        return self.test.prepare(self.key, points) if self.prepared is None else self.prepared

    def refitted(self, key: jax.Array, pool: Pool) -> Permuted:
        """T of every labelling, from the placed points."""
        relabelling = pool.relabel(key, self.samples)
        placed = relabelling.placed(self.samples.points)
        prepared = self._prepared(placed)
        values = self.test.checked_statistics(prepared, placed, relabelling.weights)
        null = NullStatistics(values, tie_tolerance(values))
        witness = self.test.witness(prepared, self.samples.measure)
        return Permuted(null, relabelling.observed, witness)

    @property
    def witness(self) -> Any:
        """That of the test, or None."""
        return self.test.witness(self._prepared(self.samples.points), self.samples.measure)

    def statistic(self) -> jax.Array:
        """T of the labels as they are."""
        measure = self.samples.measure
        prepared = self._prepared(measure.points)
        return self.test.checked_statistics(prepared, measure.points, measure.weights[None])[0]


@record
class PermutationTest(TwoSampleTest):
    """Base of tests of one's own: a subclass, below `@ntk.record`, that defines `statistics`.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> import ntkmmd_jax as ntk
        >>> @ntk.record
        ... class Energy(ntk.PermutationTest):
        ...     power: float = 1.0  # traced; `= ntk.static(default=…)` if it fixes a shape
        ...
        ...     def statistics(self, prepared, points, weights):
        ...         distance = jnp.linalg.norm(points[:, None] - points, axis=-1) ** self.power
        ...         return -jnp.sum((weights @ distance) * weights, axis=1)
        >>> x = np.random.default_rng(0).normal(size=(30, 2))
        >>> ntk.two_sample_test(x, x[:20] + 2, method=Energy(power=0.5)).reject
        True
    """

    stratifies: ClassVar[bool] = True

    def statistics(self, prepared: Prepared, points: jax.Array, weights: jax.Array) -> jax.Array:
        """T for every row of weights; large values speak against H0.

        Args:
            prepared: As `prepare` gives it: None, unless a subclass defines that.
            points: Of both samples, (n, ...), in random order.
            weights: (rows, n): +1/n_X on x, −1/n_Y on y, a row a labelling.

        Returns:
            One number a row, shape (rows,).
        """
        raise NotImplementedError(f"{type(self).__name__} does not define `statistics`")

    def prepare(self, key: jax.Array, points: jax.Array) -> Prepared:
        """What T needs beside points and weights, from points without labels; None by default.

        Args:
            key: For whatever is random.
            points: Of both samples, (n, ...), in random order, or a reference of such.
        """
        del key, points
        return None

    def witness(self, prepared: Prepared, measure: SignedMeasure) -> Any:
        """A function of points, large where p exceeds q; None by default."""
        del prepared, measure
        return None

    # What follows from it.

    @property
    def method(self) -> str:
        """The name of the class, in small letters."""
        return type(self).__name__.lower()

    @property
    def evidence_type(self) -> type[OwnEvidence]:
        """All points."""
        return OwnEvidence

    def prepare_run(self, key: jax.Array, points: jax.Array) -> None:
        """Nothing: `prepare` sees placed points, lest its rounding follow the labels."""
        return None

    def evidence(
        self, key: jax.Array, prepared: Prepared, train: Samples, held: Samples
    ) -> OwnEvidence:
        """The points; with what is prepared, if it is fixed."""
        return OwnEvidence(self, key, prepared, pooled(held))

    def checked_statistics(
        self, prepared: Prepared, points: jax.Array, weights: jax.Array
    ) -> jax.Array:
        """`statistics`, of the shape that it must have."""
        values = jnp.asarray(self.statistics(prepared, points, weights.astype(points.dtype)))
        if values.shape != weights.shape[:1] or not jnp.issubdtype(values.dtype, jnp.floating):
            raise ValueError(
                f"{type(self).__name__}.statistics must give one float a row of weights, shape "
                f"{weights.shape[:1]}; got {values.dtype} of shape {values.shape}"
            )
        return values
