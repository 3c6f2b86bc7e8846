"""More, or less, than a tolerance: levels where the MMD is the tolerance, and what a user sees."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from tests.conftest import LONG, binomial_band

KEY = jax.random.key(6)
RUNS = 2000


def exact_mmd(shift, d, sigma):
    """Of N(0, I) and N(shift · e, I) with a Gaussian kernel."""
    v = sigma**2 + 2
    return np.sqrt(2 * (sigma**2 / v) ** (d / 2) * (1 - np.exp(-d * shift**2 / (2 * v))))


@pytest.fixture(scope="module")
def rates():
    """Of "more" and "less" at MMD = ε, of p = q rejected, for a shift traced: one program."""
    kernel, plain = ntk.GaussianKernel(2.0), ntk.GaussianMMD(2.0, n_permutations=39)

    def replica(key, shift, exact2):
        k_data, k_test = jax.random.split(key)
        z = jax.random.normal(k_data, (160, 2))
        x, y = z[:80], z[80:] + shift
        found = ntk.estimate_mmd(kernel, x, y)
        verdicts = [found.above(exact2), found.below(exact2), plain(k_test, x, y).pvalue]
        return jnp.stack(verdicts) <= 0.05

    def many(keys, shift, exact2):
        return jax.lax.map(lambda key: replica(key, shift, exact2), keys, batch_size=20)

    run = jax.jit(many, compiler_options=LONG)

    def found(shift):
        given = (jnp.float32(shift), jnp.float32(exact_mmd(shift, 2, 2.0) ** 2))
        return np.mean(run(jax.random.split(KEY, RUNS), *given), axis=0)

    return found


def test_level_away_from_zero(rates):
    more, less, plain = rates(1.0)
    upper = 0.05 + binomial_band(0.05, RUNS)
    assert 0.02 < more < upper
    assert 0.02 < less < upper
    assert plain == 1.0  # p = q is false


@pytest.mark.parametrize("shift", [1e-3, 0.15])
def test_level_near_zero_is_on_the_safe_side(rates, shift):
    more, less, _ = rates(shift)
    upper = 0.05 + binomial_band(0.05, RUNS)
    assert more < upper
    assert less < upper


def test_tolerance_of_a_shift_is_its_mmd():
    x = np.random.default_rng(0).normal(size=(1500, 2))
    found = ntk.tolerance_of(x, lambda z: z + 0.4, kernel=ntk.GaussianKernel(2.0))
    assert abs(found / exact_mmd(0.4, 2, 2.0) - 1) < 0.05
    assert ntk.tolerance_of(x, lambda z: z) == 0
    with pytest.raises(ValueError, match=r"keeps the shape of the points; from \(1500, 2\)"):
        ntk.tolerance_of(x, lambda z: z[:3])


def test_verdicts(tmp_path):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(300, 2)), rng.normal(size=(200, 2)) + 0.5
    exact = exact_mmd(0.5, 2, 2.0)
    kernel = ntk.GaussianKernel(2.0)
    said = {}
    for tolerance in (exact / 4, exact, 4 * exact):
        result = ntk.tolerance_test(x, y, tolerance, kernel=kernel)
        said[tolerance] = (result.exceeds, result.within)
        low, high = result.interval
        assert (low > tolerance, high < tolerance) == said[tolerance]
        assert json.loads(json.dumps(result.to_dict()))["exceeds"] == result.exceeds
        assert result.verdict in repr(result)
        ax = result.plot()
        assert ax.get_xlabel() == "MMD"
        ax.figure.savefig(tmp_path / "tolerance.png")
    assert list(said.values()) == [(True, False), (False, False), (False, True)]
    assert low < exact < high
    same = ntk.tolerance_test(x, y, exact, kernel=lambda a, b: kernel(a, b))  # any function
    assert same.mmd == pytest.approx(result.mmd, rel=1e-5)


def test_bad_input_is_refused():
    x = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="tolerance must be positive"):
        ntk.tolerance_test(x, x, 0.0)
    with pytest.raises(TypeError, match="kernel is a function"):
        ntk.tolerance_test(x, x, 0.1, kernel="gaussian")
    with pytest.raises(ValueError, match="NaN or infinite"):
        ntk.tolerance_test(x, x * np.nan, 0.1)
    with pytest.warns(UserWarning, match="measured from 50 of each on"):
        ntk.tolerance_test(x[:20], x, 0.1)
