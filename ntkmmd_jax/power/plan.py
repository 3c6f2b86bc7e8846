"""Power and sample size from a pilot of one's own, by subsampling it without replacement.

n of the N pilot points of each sample, drawn without replacement (Politis & Romano 1994), are a
sample of size n of the laws themselves: over pilots, the rate at which they are rejected is the
power at n, without bias. Drawn with replacement they would be samples of two discrete laws that
differ even where p = q, by an MMD² of order 1/N, and the power at large n would come to 1 whatever
the data.

Hence sizes up to N/2 only, so that subsamples differ enough; beyond, the curve of `curve.py` goes
on. How much a pilot can tell is seen from parts of it, two thirds each: replicas are drawn from
one part at a time, all together make the estimate, and how the parts differ makes its interval. A
pilot that is compatible with p = q (the interval reaches to no slope) recommends no size.

Measured on pilots of 100 + 100 points, 400 subsamples per size: hotelling, a mean shift of 1 in
d = 4, where 26 points have power .8: median size 25, quartiles 21 and 32, the interval holds 26 for
58 of 60 pilots. gmmd, a covariance shift, where 49 do: median 49, quartiles 40 and 61, and 25 of
25. So a single pilot is good for n to within a third or so. With p = q, none of 60 recommends.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.keys import as_key
from ntkmmd_jax._lib.points import as_samples, check_finite
from ntkmmd_jax.power.curve import fitted
from ntkmmd_jax.power.planned import Plan
from ntkmmd_jax.power.sweep import power_sweep
from ntkmmd_jax.power.table import PowerRow, PowerTable
from ntkmmd_jax.twosample import TwoSampleTest, default_method, make_test, shipped_test

SHARE = 2 / 3  # of the pilot in a part
PARTS = 20
BEYOND = 10  # how many times the pilot the curve is trusted at most
_SIZES = 5  # tried, unless given
_LEAST = 20  # pilot points of each sample


@dataclasses.dataclass(frozen=True, eq=False)
class Subsamples:
    """A sampler: points of a part of the pilot, without replacement."""

    key: jax.Array  # of the parts
    x: jax.Array  # (N_X, ...)
    y: jax.Array  # (N_Y, ...)

    def __call__(
        self, key: jax.Array, n_x: int, n_y: int, *, part: Any
    ) -> tuple[jax.Array, jax.Array]:
        """n_X and n_Y points of the part of that number, a float, so that it is traced."""
        k_parts = jax.random.fold_in(self.key, jnp.asarray(part).astype(jnp.int32))
        keys = zip(jax.random.split(k_parts), jax.random.split(key), strict=True)
        pairs = zip(keys, (self.x, self.y), (n_x, n_y), strict=True)
        x, y = (_drawn(*both, points, n) for both, points, n in pairs)
        return x, y


def _drawn(k_part: jax.Array, k_draw: jax.Array, points: jax.Array, n: int) -> jax.Array:
    """n points, without replacement, of the part of a key."""
    part = jnp.argsort(jax.random.bits(k_part, (len(points),)))[: _part_size(len(points))]
    return points[part[jnp.argsort(jax.random.bits(k_draw, part.shape))[:n]]]


def _part_size(n: int) -> int:
    return math.floor(SHARE * n)


def plan(
    x: Any,
    y: Any,
    test: str | TwoSampleTest | None = None,
    *,
    power: float = 0.8,
    level: float = 0.05,
    sizes: Any = None,
    n_runs: int = 1000,
    key: Any = 0,
    largest: int | None = None,
    devices: Any = None,
    progress: bool = True,
    **options: Any,
) -> Plan:
    """Find how many samples of each a test needs for a power, from a pilot of x and y.

    Args:
        x: Pilot sample of p, array-like, one row per sample; 20 at least.
        y: Pilot sample of q, with the same features.
        test: A name in `methods()`, by default and standardised as `two_sample_test` has it; or a
            test object with options of its own.
        power: The power to reach, above the level and below 1.
        level: The level of the test, if it is given by name.
        sizes: Sample sizes to try, at most half of the smaller pilot sample; by default five.
        n_runs: Subsamples per size, drawn from 20 parts of the pilot in turn.
        key: An int seed or a JAX key.
        largest: The largest size that may be recommended; by default 10 times the smaller pilot.
        devices: How many devices, or which; all by default.
        progress: Whether to show a progress bar on a terminal.
        **options: Options of a test given by name.

    Returns:
        A `Plan`: the size `n` (None if no size can be recommended) and its 95 % interval, the
        powers measured and the curve through them.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(80, 2))
        >>> found = plan(x, x[:60] + 0.8, "hotelling", sizes=[12], n_runs=40)
        >>> 10 < found.n < 60
        True
    """
    made = _as_test(default_method(options) if test is None else test, level, options)
    if not made.level < power < 1:
        raise ValueError(f"power must lie between the level, {made.level:g}, and 1; got {power}")
    if not isinstance(n_runs, int) or n_runs < PARTS:
        raise ValueError(f"n_runs must be a whole number of at least {PARTS}; got {n_runs!r}")
    x, y = as_samples(x, y)
    check_finite(x, "x")
    check_finite(y, "y")
    smaller = min(len(x), len(y))
    if smaller < _LEAST:
        raise ValueError(
            f"a pilot of {len(x)} + {len(y)} points is too small to plan from: take {_LEAST} of "
            "each at least"
        )
    tried = _sizes(made, smaller, sizes, x.shape[1:])
    k_parts, k_sweep = jax.random.split(as_key(key))
    each = -(-n_runs // PARTS)
    found = power_sweep(
        k_sweep,
        {made.method: made},
        Subsamples(k_parts, x, y),
        {"n": tried, "part": [float(part) for part in range(PARTS)]},
        n_runs=each,
        devices=devices,
        progress=progress,
    )
    rows = [found.rows[i : i + PARTS] for i in range(0, len(found.rows), PARTS)]
    rejections = np.array([[row.rejections for row in of_size] for of_size in rows]).T
    about = {"share": SHARE, "pilot": smaller}
    curve = fitted(float(made.level), np.asarray(tried, float), rejections, each, **about)
    largest = BEYOND * smaller if largest is None else largest
    pilot = (len(x), len(y))
    return Plan(PowerTable([_pooled(of_size) for of_size in rows]), curve, power, pilot, largest)


def _as_test(test: str | TwoSampleTest, level: float, options: dict[str, Any]) -> TwoSampleTest:
    if isinstance(test, TwoSampleTest):
        if level != 0.05:
            raise TypeError("a test object carries its own level: set it there")
        return make_test(test, **options)
    return shipped_test(test, level=level, **options)


def _sizes(test: TwoSampleTest, smaller: int, given: Any, features: tuple[int, ...]) -> list[int]:
    """The sizes to try, in order: those given, or five up to half of the pilot."""
    most = smaller // 2
    if given is not None:
        tried = sorted({int(n) for n in np.atleast_1d(np.asarray(given)).ravel()})
        if not tried or tried[0] < 2 or tried[-1] > most:
            raise ValueError(
                f"sizes must lie between 2 and half of the smaller pilot sample, {most}: larger "
                f"subsamples are too much alike; got {given!r}"
            )
        return tried
    wanted = np.unique(np.geomspace(max(most / 6, 4), most, _SIZES).round().astype(int)).tolist()
    taken = [n for n in wanted if _why_not(test, n, features) is None]
    if not taken:
        raise ValueError(
            f"the pilot is too small to plan from: at half of it, {most} of each, "
            f"{_why_not(test, most, features)}"
        )
    return taken


def _why_not(test: TwoSampleTest, n: int, features: tuple[int, ...]) -> str | None:
    try:
        test.check_samples(n, n, features)
        test.check_sizes(n, n)
    except ValueError as error:
        return str(error)
    return None


def _pooled(rows: list[PowerRow]) -> PowerRow:
    """All parts at one size."""
    totals: dict[str, Any] = {
        name: sum(getattr(row, name) for row in rows)
        for name in ("n_runs", "rejections", "seconds", "failures")
    }
    return PowerRow(rows[0].test, {"n": rows[0].point["n"]}, **totals)
