"""The chart's statistic: a two-sample statistic T between a reference block and a window.

    T = Σ_i w_i g(z_i),   g the witness of the two blocks, on the very points it was found from:

the symmetric T_net and T_NTK = |v|², the biased MMD² of a Gaussian kernel, and Hotelling's T². All
that is random or comes from data beforehand (θ0, the bandwidth, the standardisation) is fixed once,
so that statistics of different windows compare with one threshold.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.records import record
from ntkmmd_jax.measure import mean_gap, signed_measure
from ntkmmd_jax.networks import Params
from ntkmmd_jax.twosample import NTKMMD, GaussianMMD, Hotelling, NetMMD
from ntkmmd_jax.twosample.gaussian import MEDIAN_POINTS, KernelWitness
from ntkmmd_jax.twosample.hotelling import LinearWitness, t_squared
from ntkmmd_jax.witness import inner, velocity

EFFECTIVE_RATE = 0.0015  # the paper's: α / window
METHODS = ("net", "ntk", "gmmd", "hotelling")


@record
class Chart:
    """T of a reference block x and a window y, in standardised coordinates."""

    test: Any  # NetMMD, NTKMMD, GaussianMMD or Hotelling
    centre: jax.Array  # of the shape of one frame
    scale: jax.Array  # likewise

    def standard(self, frames: jax.Array) -> jax.Array:
        """Frames in the coordinates that the witness takes."""
        return (frames - self.centre) / self.scale

    def witness(self, key: jax.Array, x: jax.Array, y: jax.Array) -> Any:
        """The witness of two standardised blocks: large where x exceeds y."""
        raise NotImplementedError

    def __call__(self, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        """T of two standardised blocks; the key is for the order of training."""
        measure = signed_measure(x, y)
        return mean_gap(self.witness(key, x, y)(measure.points), measure.weights)


@record
class NetworkChart(Chart):
    """T_net, trained, or T_NTK, exact, from one θ0."""

    params: Params

    def witness(self, key: jax.Array, x: jax.Array, y: jax.Array) -> Any:
        """Trained on the two blocks, or exact."""
        return self.test.find_witness(key, self.params, (x, y))

    def __call__(self, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        """T_net; T_NTK is |v|², so it needs no scores."""
        if not isinstance(self.test, NTKMMD):
            return super().__call__(key, x, y)
        v = velocity(self.test.network, self.params, signed_measure(x, y))
        return inner(v, v)


@record
class GaussianChart(Chart):
    """The biased MMD² with the median distance of the reference pool."""

    bandwidths: jax.Array  # (k,)

    def witness(self, key: jax.Array, x: jax.Array, y: jax.Array) -> KernelWitness:
        """The kernel mean of x minus that of y."""
        measure = signed_measure(x, y)
        return KernelWitness(measure.points, measure.weights, self.bandwidths)


@record
class HotellingChart(Chart):
    """T², which needs more frames in two windows than coordinates; NaN if singular."""

    def witness(self, key: jax.Array, x: jax.Array, y: jax.Array) -> LinearWitness:
        """The linear discriminant."""
        direction = t_squared(*(block.reshape(len(block), -1) for block in (x, y)))[1]
        centre = (x.mean(0) + y.mean(0)) / 2
        return LinearWitness(direction.reshape(centre.shape), centre)

    def __call__(self, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        """T²."""
        return t_squared(*(block.reshape(len(block), -1) for block in (x, y)))[0]


def chart_test(test: Any, window: int) -> Any:
    """The test of a chart: one of `METHODS` by name, with the paper's settings, or an object."""
    if isinstance(test, NetMMD | NTKMMD):
        return dataclasses.replace(test, train_fraction=None, calibration=None, pilot=None)
    if isinstance(test, GaussianMMD | Hotelling):
        return test
    if test == "net":
        rate = EFFECTIVE_RATE * window
        return NetMMD(learning_rate=rate, momentum=0.9, train_fraction=None)
    named = {"ntk": NTKMMD(train_fraction=None), "gmmd": GaussianMMD(), "hotelling": Hotelling()}
    if isinstance(test, str) and test in named:
        return named[test]
    raise ValueError(
        f"a chart takes one of {METHODS}, or NetMMD, NTKMMD, GaussianMMD or Hotelling; got {test!r}"
    )


def make_chart(
    key: jax.Array, test: Any, pool: jax.Array, window: int, *, standardize: bool
) -> Chart:
    """Fix θ0 or the bandwidth, and the standardisation, from the reference pool.

    Args:
        key: For θ0, or for the frames of the median.
        test: As `chart_test` gives it.
        pool: Reference frames (N, ...).
        window: Frames in a window.
        standardize: Whether to give every coordinate mean 0 and spread 1 over the pool.
    """
    centre, scale = jnp.zeros(pool.shape[1:]), jnp.ones(pool.shape[1:])
    if standardize:
        centre, spread = pool.mean(0), pool.std(0)
        scale = jnp.where(spread > 1e-6 * jnp.abs(centre), spread, 1.0)  # constant: as it is
    frames = (pool - centre) / scale
    if isinstance(test, GaussianMMD):
        some = jax.random.permutation(key, frames)[:MEDIAN_POINTS]
        return GaussianChart(test, centre, scale, test.bandwidths(some))
    if isinstance(test, Hotelling):
        _check_hotelling(test, pool, window)
        return HotellingChart(test, centre, scale)
    return NetworkChart(test, centre, scale, test.network.init(key, frames[:1]))


def _check_hotelling(test: Hotelling, pool: jax.Array, window: int) -> None:
    d = pool[0].size
    if test.shrinkage is not None:
        raise ValueError("a chart with Hotelling's T² is without shrinkage: leave it None")
    if 2 * window - 2 < d:
        raise ValueError(
            f"two windows of {window} frames are too few for the covariance of {d} coordinates; "
            f"use a window of at least {d // 2 + 1}, or another test"
        )
