"""Members of a fused test: statistics of one signed measure, a tangent kernel and a time each.

A `Scale` is a network of radial units around landmarks, points of the pooled sample; a `Tangent` is
any network at θ0. Each has a statistic T(t) for every training time t (see `kernels.filtered`);
T_NTK is that at t = 0.

`prepare` fixes what looks at pooled points only. What it gives (see `at_times`) knows the
statistics.
"""

import dataclasses
import math
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.records import record, shown
from ntkmmd_jax.calibration import centred
from ntkmmd_jax.kernels import empirical_ntk
from ntkmmd_jax.kernels.collection import family_bandwidths
from ntkmmd_jax.kernels.filtered import LONGEST
from ntkmmd_jax.kernels.units import GradientUnits, KernelUnits, RadialUnits
from ntkmmd_jax.networks import Network, as_network, mlp
from ntkmmd_jax.networks.shipped import LAWS
from ntkmmd_jax.twosample.at_times import AtStart, AtTimes

TIMES = (2.0**3, 2.0**13, 2.0**20)  # of a `Scale`, in units of 1/λ_1
_FEW = 1024  # parameters up to which gradients of single points are features


@record
class Seen:
    """What members are prepared from: pooled points and landmarks among them, without labels."""

    points: jax.Array  # (n, ...)
    landmarks: jax.Array  # (m, ...)
    n: Any = None  # how many points are real; None: all
    m: Any = None  # how many landmarks are

    def width(self, position: float, law: str) -> jax.Array:
        """σ at a position (see `Scale`) of the range of the landmarks' distances."""
        low, high = self._range(law)
        return low * (high / low) ** position

    def _range(self, law: str) -> jax.Array:
        """Half the 5 % and twice the 95 % quantile of the landmarks' distances, found once."""
        if law not in self._ranges:
            options = {"geometric": True, "n": self.m}
            self._ranges[law] = family_bandwidths(self.landmarks, LAWS.index(law), 2, **options)
        return self._ranges[law]

    @cached_property
    def _ranges(self) -> dict[str, jax.Array]:
        return {}


@dataclasses.dataclass(frozen=True, repr=False)
class Scale:
    """Radial units around landmarks, at a scale of the pooled sample, at some times.

    Args:
        position: Where their width σ lies: 0 at half the 5 % quantile of the pooled distances, 1 at
            twice the 95 % quantile, geometric in between.
        law: Their shape: "gaussian", or "cauchy" for that of the Laplace kernel.
        times: t ≥ 0, in units of 1/λ_1.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> ntk.FusedNTK((ntk.Scale(0.3, times=(8.0,)), ntk.Tangent())).names
        ('gaussian scale 0.3, t = 8', 'softplus mlp, t = 0')
    """

    position: float = 0.5
    law: str = "gaussian"
    times: tuple[float, ...] = TIMES

    __repr__ = shown

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", _times(self.times))
        if not 0 <= self.position <= 1:
            raise ValueError(f"position must lie in [0, 1]; got {self.position!r}")
        if self.law not in LAWS:
            raise ValueError(f"unknown law {self.law!r}; use one of {LAWS}")

    @property
    def names(self) -> tuple[str, ...]:
        """One a statistic."""
        return tuple(f"{self.law} scale {self.position:.2g}, t = {_time(t)}" for t in self.times)

    @property
    def networks(self) -> tuple[Network, ...]:
        """None of a user's: it takes any points."""
        return ()

    @property
    def pads(self) -> bool:
        """Whether padding is left out."""
        return True

    def prepare(self, key: jax.Array, seen: Seen) -> AtTimes:
        """The scale, and the units trained for all times."""
        del key  # nothing is random
        units = RadialUnits(
            seen.landmarks, seen.width(self.position, self.law), seen.m, law=self.law
        )
        return AtTimes.of(units, seen.points, self.times, seen.n)


@dataclasses.dataclass(frozen=True, repr=False)
class Tangent:
    """The tangent kernel of a network at θ0, at some times.

    Args:
        network: One of ours, a flax module, or a pair (init, apply).
        times: t ≥ 0, in units of 1/λ_1. At 0 alone it is T_NTK, by gradients of bins. Else features
            are filtered: the gradients, of a network with few parameters, and its kernel with the
            landmarks, of any other.
        initializations: Kernels of so many θ0 are averaged.

    Example:
        >>> import ntkmmd_jax as ntk
        >>> ntk.Tangent(ntk.mlp(32), times=(0.0, 8.0)).names
        ('softplus mlp, t = 0', 'softplus mlp, t = 8')
    """

    network: Network = dataclasses.field(default_factory=mlp)
    times: tuple[float, ...] = (0.0,)
    initializations: int = 1

    __repr__ = shown

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", as_network(self.network))
        object.__setattr__(self, "times", _times(self.times))
        whole("initializations", self.initializations)

    @property
    def names(self) -> tuple[str, ...]:
        """One a statistic."""
        recipe = self.network.recipe
        options = dict(recipe[1]) if recipe else {}
        name = f"{options.get('activation', '')} {recipe[0]}".strip() if recipe else "network"
        return tuple(f"{name}, t = {_time(t)}" for t in self.times)

    @property
    def networks(self) -> tuple[Network, ...]:
        """Its network."""
        return (self.network,)

    @property
    def pads(self) -> bool:
        """Whether padding is left out: at time 0, where no feature is a landmark."""
        return self.times == (0.0,)

    def prepare(self, key: jax.Array, seen: Seen) -> AtTimes | AtStart:
        """θ0, and the features for times other than 0."""
        network, points, landmarks = self.network, seen.points, seen.landmarks
        keys = jax.random.split(key, self.initializations)
        params = tuple(network.init(k, points[:1]) for k in keys)
        if self.times == (0.0,):
            kernels = [empirical_ntk(network, at, landmarks) for at in params]
            m = len(landmarks) if seen.m is None else seen.m
            kernel = centred(jnp.mean(jnp.stack(kernels), axis=0), m, m)
            kernel /= jnp.asarray(m, kernel.dtype)
            return AtStart(params, (jnp.trace(kernel), jnp.sum(kernel**2)), network=network)
        count = sum(leaf.size for leaf in jax.tree.leaves(network.trainable(params[0])[1]))
        if count * len(params) <= _FEW:
            return AtTimes.of(GradientUnits(params, network=network), points, self.times)
        units = KernelUnits(landmarks, params, network=network)
        return AtTimes.of(units, points, self.times)


Member = Scale | Tangent


def as_member(given: Any) -> Member:
    """A member: one of ours, or a network for its `Tangent`."""
    return given if isinstance(given, Scale | Tangent) else Tangent(as_network(given))


def _time(time: float) -> str:
    """A time in words: 0, 8, 2^13, 1.5e+03."""
    mantissa, power = math.frexp(time)
    return f"2^{power - 1}" if mantissa == 0.5 and power > 7 else f"{time:.3g}"


def _times(times: Any) -> tuple[float, ...]:
    given = tuple(times) if isinstance(times, tuple | list) else (times,)
    if not given or not all(isinstance(t, int | float) and 0 <= t <= LONGEST for t in given):
        raise ValueError(
            f"times must be numbers between 0 and {LONGEST:g}, beyond which float32 sees rounding "
            f"only, one at least; got {times!r}"
        )
    return tuple(map(float, given))
