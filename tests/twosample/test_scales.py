"""Scales that are prepared together, against each of them by itself."""

import jax
import jax.numpy as jnp
import numpy as np

import ntkmmd_jax as ntk
from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.twosample.evidence import Pool
from ntkmmd_jax.twosample.members import Seen
from ntkmmd_jax.twosample.scales import Together, prepared_together

SCALES = (
    ntk.Scale(0.2, times=(8.0,)),
    ntk.Scale(0.4, times=(8.0, 24.0, 2.0**10)),  # 24 = 3 · 8 begins anew
    ntk.Scale(0.5, times=(3.0, 2.0**6)),
)
RTOL = 1e-4  # float32 sums of some 50 terms, filtered by up to 13 doublings


def both():
    rng = np.random.default_rng(0)
    samples = tuple(jnp.asarray(rng.normal(size=(n, 2)), jnp.float32) for n in (30, 21))
    relabelling = Pool(40).relabel(jax.random.key(3), samples)
    placed = relabelling.placed(jnp.concatenate(samples))
    seen = Seen(placed, placed[::2])
    (together,) = prepared_together(SCALES, jax.random.key(4), seen)
    alone = [scale.prepare(jax.random.key(4), seen) for scale in SCALES]
    return together, alone, relabelling, placed, signed_measure(*samples)


def test_together_is_each_by_itself():
    together, alone, *labelled = both()
    assert isinstance(together, Together)
    assert together.count == sum(one.count for one in alone) == 6
    values, v = together.labelled(*labelled)
    expected = [one.labelled(*labelled) for one in alone]
    np.testing.assert_allclose(values, jnp.concatenate([e[0] for e in expected], 1), rtol=RTOL)
    moments = zip(*(one.moments() for one in alone), strict=True)
    for found, apart in zip(together.moments(), moments, strict=True):
        np.testing.assert_allclose(found, jnp.concatenate(apart), rtol=RTOL)
    measure, shares = labelled[2], jnp.arange(1.0, 7.0)
    apart = jnp.concatenate([one.statistics(one.moved(measure)) for one in alone])
    np.testing.assert_allclose(together.statistics(together.moved(measure)), apart, rtol=RTOL)
    parts = zip(alone, jnp.split(shares, [1, 4]), strict=True)
    g = sum(one.witness(one.moved(measure), s, (2,))(measure.points) for one, s in parts)
    found = together.witness(v, shares, (2,))(measure.points)
    np.testing.assert_allclose(found, g, atol=RTOL * float(jnp.abs(g).max()))


def test_who_stands_alone():
    """Another law, a time 0, and what is no scale."""
    placed = jnp.asarray(np.random.default_rng(0).normal(size=(20, 2)), jnp.float32)
    first, second, third = SCALES
    odd = (ntk.Scale(0.3, law="cauchy"), ntk.Scale(0.3, times=(0.0, 8.0)), ntk.Tangent(ntk.mlp(4)))
    members = (first, second, *odd, third)
    found = prepared_together(members, jax.random.key(0), Seen(placed, placed))
    assert [one.count for one in found] == [4, 3, 2, 1, 2]
    assert [isinstance(one, Together) for one in found] == [True, False, False, False, False]
