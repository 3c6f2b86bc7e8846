"""The exact test at a finite training time: least squares, linearised (`theory.finite_time`)."""

from typing import Any

import jax

from ntkmmd_jax._lib.checks import positive
from ntkmmd_jax._lib.records import record
from ntkmmd_jax.measure import SignedMeasure
from ntkmmd_jax.networks import Params
from ntkmmd_jax.theory.finite_time import finite_time_witness
from ntkmmd_jax.twosample.learning import WitnessTest
from ntkmmd_jax.witness import Witness


@record
class FiniteTimeNTK(WitnessTest):
    """`NetMMD(loss="l2")` at training time t, without training: the NTK at θ0, filtered by time.

    At t → 0 it is `NTKMMD`. It holds the kernel matrix of the training half.

    Args:
        time: t > 0; traced.

    Example:
        >>> import numpy as np
        >>> import ntkmmd_jax as ntk
        >>> x = np.random.default_rng(0).normal(size=(40, 2))
        >>> ntk.FiniteTimeNTK(ntk.mlp(16), 10.0)(0, x, x[:30] + 2).concrete().reject
        True
    """

    time: Any = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("time", self.time)

    @property
    def method(self) -> str:
        """What results call it; it is in no table of methods."""
        return "ntk-finite-time"

    def scratch(self, n: int) -> int:
        """The matrices of the filter."""
        return 5 * n**2

    def learn(self, key: jax.Array, params: Params, measure: SignedMeasure, n: Any) -> Witness:
        """h_t / t."""
        del key, n  # nothing is random, and padding has weight 0
        return finite_time_witness(self.network, params, measure, self.time)
