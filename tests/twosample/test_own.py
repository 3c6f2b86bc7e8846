"""A test of one's own, in all places where tests go."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from tests.conftest import LONG, binomial_band

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(30, 2)), RNG.normal(size=(20, 2)) + 2


@ntk.record
class Energy(ntk.PermutationTest):
    """The energy distance (Székely & Rizzo 2004), in units of the spread if asked for."""

    power: float = 1.0
    scaled: bool = ntk.static(default=False)

    def prepare(self, key, points):
        return jnp.std(points) if self.scaled else jnp.ones((), points.dtype)

    def statistics(self, prepared, points, weights):
        distance = jnp.linalg.norm((points[:, None] - points) / prepared, axis=-1) ** self.power
        return -jnp.sum((weights @ distance) * weights, axis=1)


def energy(x, y):
    between, in_x, in_y = (
        np.linalg.norm(a[:, None] - b, axis=-1).mean() for a, b in ((x, y), (x, x), (y, y))
    )
    return 2 * between - in_x - in_y


def test_the_statistic_is_that_of_the_samples():
    result = ntk.two_sample_test(X, Y, method=Energy())
    np.testing.assert_allclose(result.statistic, energy(X, Y), rtol=1e-4)
    assert result.reject and result.method == "energy" and result.witness is None
    scaled = ntk.two_sample_test(X, Y, method=Energy(scaled=True))
    spread = np.std(np.concatenate([X, Y]))
    np.testing.assert_allclose(scaled.statistic, energy(X, Y) / spread, rtol=1e-4)


def test_the_level_is_exact():
    """Ties among them: 12 + 9 points of four values."""
    test, runs = Energy(n_permutations=39), 2000

    def replica(key):
        k_data, k_test = jax.random.split(key)
        z = jax.random.bernoulli(k_data, 0.4, (21, 2)).astype(jnp.float32)
        tied = test(k_test, z[:12], z[12:]).pvalue
        z = jax.random.normal(k_data, (21, 2))
        return jnp.stack([tied, test(k_test, z[:12], z[12:]).pvalue])

    count = jax.jit(lambda keys: jax.lax.map(replica, keys, batch_size=50), compiler_options=LONG)
    rates = np.mean(count(jax.random.split(jax.random.key(0), runs)) <= 0.05, axis=0)
    assert rates[0] < 0.05 + binomial_band(0.05, runs)
    assert abs(rates[1] - 0.05) < binomial_band(0.05, runs)


def test_in_a_sweep_a_pilot_a_chart_and_files(tmp_path):
    tests = {"energy": Energy(n_permutations=39)}
    options = {"n": 20, "n_runs": 8, "progress": False, "checkpoint": tmp_path / "sweep.jsonl"}
    table = ntk.power_sweep(0, tests, ntk.datasets.mean_shift, {"delta": [0.0, 9.0]}, **options)
    assert [row.rejections for row in table.rows][1] == 8
    pilot = ntk.pilot_null(0, RNG.normal(size=(120, 2)), 20, test=Energy(), n_draws=50)
    assert pilot(1, Y + 1).reject
    loaded = ntk.PilotNull.load(pilot.save(tmp_path / "pilot"))
    assert isinstance(loaded.test, Energy)
    np.testing.assert_array_equal(loaded(1, Y).statistics, pilot(1, Y).statistics)
    result = ntk.two_sample_test(X, Y, method=Energy())
    again = ntk.TwoSampleResult.load(result.save(tmp_path / "result"))
    assert again.method == "energy" and again.pvalue == result.pvalue


def test_what_is_missing_is_said():
    class Undecorated(ntk.PermutationTest):
        pass

    with pytest.raises(TypeError, match=r"write @ntk.record above `class Undecorated`"):
        Undecorated()

    @ntk.record
    class Silent(ntk.PermutationTest):
        pass

    with pytest.raises(NotImplementedError, match="Silent does not define `statistics`"):
        ntk.two_sample_test(X, Y, method=Silent())

    @ntk.record
    class Single(ntk.PermutationTest):
        def statistics(self, prepared, points, weights):
            return jnp.zeros(())

    with pytest.raises(ValueError, match=r"one float a row of weights, shape \(401,\)"):
        ntk.two_sample_test(X, Y, method=Single())


def test_options_are_fields():
    test = dataclasses.replace(Energy(), power=0.5)
    assert test.power == 0.5 and "power=0.5" in repr(test)
