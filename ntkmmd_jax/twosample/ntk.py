"""The paper's tests (Cheng & Xie 2021): train a witness on one half, average it over the other.

    T̂_a,net = Σ_i w'_i ĝ(z'_i),   ĝ trained (`NetMMD`) or exact (`NTKMMD`) on the training half w.

Calibration "test" permutes the labels of the test half only, so nothing is retrained; "full"
permutes those of both halves; "normal" studentises the held-out scores. `train_fraction=None` is
the symmetric statistic T̂_net or T̂_NTK, without a split, calibrated by "full", by a `PilotNull`,
or, if exact, by its "asymptotic" law. "theory" takes the threshold of the paper's theorems.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax

from ntkmmd_jax import calibration
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax.kernels import bin_gram, empirical_ntk
from ntkmmd_jax.measure import SignedMeasure, interleaved, signed_measure
from ntkmmd_jax.networks import Params
from ntkmmd_jax.pooled import pooled
from ntkmmd_jax.training import SGD, trained_witness
from ntkmmd_jax.twosample import binned
from ntkmmd_jax.twosample.calibrations import Asymptotic, Full
from ntkmmd_jax.twosample.evidence import Permuted, Pool, Samples
from ntkmmd_jax.twosample.learning import WitnessTest
from ntkmmd_jax.twosample.witnessed import ExactHeldOut, ExactWhole, WitnessEvidence
from ntkmmd_jax.witness import Witness, exact_witness, inner, velocity

if TYPE_CHECKING:
    import optax


@record
class NTKMMD(WitnessTest):
    """The exact test: the witness of the MMD with the NTK at θ0, in linear time, no training.

    Args:
        unbiased: Whether the symmetric statistic leaves the diagonal of the kernel out.
        bins: About how many bins the labels of the symmetric statistic are of: one a point up to
            1,024 points, then 256, by default.

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> x = np.random.default_rng(0).normal(size=(40, 2))
        >>> ntk.NTKMMD(ntk.mlp(16), n_permutations=99)(0, x, x[:30] + 1).concrete().reject
        True
    """

    stratifies: ClassVar[bool] = True

    unbiased: bool = static(default=False, kw_only=True)  # of the symmetric statistic
    bins: int | None = static(default=None, kw_only=True)  # of it; None: as `bins_of` has it

    def __post_init__(self) -> None:
        super().__post_init__()
        binned.check_bins(self.bins, None if self.train_fraction is None else "train_fraction=None")
        if self.unbiased and self.train_fraction is not None:
            raise ValueError(
                "unbiased is for the symmetric statistic, train_fraction=None: with a split it is "
                "unbiased as it is"
            )

    @property
    def uses_lapack(self) -> bool:
        """The asymptotic law takes eigenvalues."""
        return isinstance(self.calibration, Asymptotic)

    @property
    def pads_up_to(self) -> int:
        """As long as a program is soon run; of a subclass, which may count its points, none."""
        if type(self) is not NTKMMD:
            return 0
        if self.bins is not None:
            return 0
        if isinstance(self.calibrated_by, Asymptotic):
            return binned.POINTS
        if self.train_fraction is None:
            return binned.PADDED
        return binned.POINTS if isinstance(self.calibrated_by, Full) else 65_536

    def pads(self, n_x: int, n_y: int) -> bool:
        """Whether samples of these sizes share a program with others (see `pooled`)."""
        fits = self.train_fraction is not None or binned.bins_pad(n_x, n_y)
        return fits and super().pads(n_x, n_y)

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        if self.train_fraction is None:
            return "ntk-symmetric"
        return "ntk-full" if isinstance(self.calibration, Full) else "ntk"

    @property
    def evidence_type(self) -> type[WitnessEvidence]:
        """What its evidence can do, with a split and without."""
        return ExactWhole if self.train_fraction is None else ExactHeldOut

    def reach(self, n_x: int, n_y: int) -> tuple[int, str]:
        """How many values labellings give to T: those of bins, without a split."""
        bins = binned.bins_of(n_x, n_y, self.bins) if self.train_fraction is None else None
        return super().reach(n_x, n_y) if bins is None else binned.bins_reach(bins)

    def learn(self, key: jax.Array, params: Params, measure: SignedMeasure, n: Any) -> Witness:
        """g(x) = Σ_i K_0(x, z_i) w_i."""
        del key, n  # nothing is random, and padding has weight 0
        return exact_witness(self.network, params, measure)

    def statistic(self, key: jax.Array, prepared: Params, x: jax.Array, y: jax.Array) -> jax.Array:
        """T_NTK = |v|², which needs no scores, for one of many pairs of samples."""
        if self.train_fraction is not None:
            return super().statistic(key, prepared, x, y)
        v = velocity(self.network, prepared, signed_measure(x, y))
        return inner(v, v)

    def full(self, evidence: WitnessEvidence, key: jax.Array, pool: Pool) -> Permuted:
        """Permute rows and columns of the kernel matrix, all permutations in matrix products."""
        if self.train_fraction is None:
            return self._symmetric(evidence, key, pool)
        on_test, on_train = evidence.relabel(key, pool)
        points = on_test.placed(evidence.held.points)
        rows = on_train.placed(evidence.train.points)
        kernel = empirical_ntk(self.network, evidence.params, points, rows)
        null = calibration.kernel_null(on_test, on_train, kernel)
        return Permuted(null, on_test.observed, evidence.witness)

    def _symmetric(self, evidence: WitnessEvidence, key: jax.Array, pool: Pool) -> Permuted:
        """wᵀ G w of every labelling of bins, in linear time; of points, if each is a bin."""
        bins = binned.bins_of_pooled(evidence.held, self.bins)
        relabelling = pool.relabel(jax.random.split(key)[0], evidence.held, bins=bins)
        placed = relabelling.placed(evidence.held.points)
        if bins is None:
            kernel = empirical_ntk(self.network, evidence.params, placed)
            null = calibration.symmetric_null(relabelling, kernel, unbiased=self.unbiased)
        else:
            gram = bin_gram(self.network, evidence.params, placed, bins)
            null = calibration.gram_null(relabelling, gram, unbiased=self.unbiased)
        return Permuted(null, relabelling.observed, evidence.witness)


@record
class NetMMD(WitnessTest):
    """The trained test: the witness is a network trained for a short time on the training half.

    Args:
        learning_rate: α, the training time of one epoch; traced.
        batch_size: Samples of a step of SGD; None for full-batch gradient descent.
        epochs: Passes over the training half.
        momentum: Of the SGD, in [0, 1).
        optimizer: Any of optax, with a learning rate of its own, instead of SGD.
        shuffle: Whether samples are visited in random order.
        loss: "linear", the paper's, "l2" or "logistic", of f(·; θ) − f(·; θ0).

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> x = np.random.default_rng(0).normal(size=(40, 2))
        >>> ntk.NetMMD(ntk.mlp(16), learning_rate=0.01)(0, x, x[:30] + 2).concrete().reject
        True
    """

    learning_rate: Any = 0.1  # α, the training time of one epoch
    batch_size: int | None = static(default=1)  # None: full-batch gradient descent
    epochs: int = static(default=1)
    momentum: float = static(default=0.0)
    optimizer: "optax.GradientTransformation | None" = static(default=None)  # instead of plain SGD
    shuffle: bool = static(default=True)
    loss: str = static(default="linear")

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.sgd  # checks the training options
        if not self.shuffle and (isinstance(self.calibration, Full) or self.train_fraction is None):
            raise ValueError(
                "calibration 'full' visits the points in random order, or the permuted labels "
                "would not be exchangeable with the observed ones: use shuffle=True"
            )

    @property
    def method(self) -> str:
        """Its name in the table of methods."""
        return "net"

    @property
    def pads_up_to(self) -> int:
        """With plain SGD, for which padding is no step; unless points are visited in order."""
        plain = type(self) is NetMMD and self.sgd.is_plain and self.shuffle
        return 65_536 if plain else 0

    @property
    def sgd(self) -> SGD:
        """How the witness is trained."""
        names = [field.name for field in dataclasses.fields(SGD)]
        return SGD(**{name: getattr(self, name) for name in names})

    def learn(self, key: jax.Array, params: Params, measure: SignedMeasure, n: Any) -> Witness:
        """Train on a measure."""
        return trained_witness(key, self.network, params, measure, self.sgd, n=n)

    def find_witness(self, key: jax.Array, params: Params, train: Samples) -> Witness:
        """Train on x and y; in order, they alternate."""
        if self.shuffle:
            return super().find_witness(key, params, train)
        train = pooled(train)
        order = interleaved(train.n_x, train.n_y)
        in_turn = jax.tree.map(lambda leaf: leaf[order], train.measure)
        return self.learn(key, params, in_turn, train.n)
