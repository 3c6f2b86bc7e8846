"""One test over many devices and hosts: the p-value is that of one."""

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from tests.processes import answer, launch, launch_two

SCRIPT = """
import numpy as np
rng = np.random.default_rng(3)
found = []
for n_x, n_y in ((611, 730), (19, 1300), (30, 41)):
    x, y = rng.normal(size=(n_x, 3)), 5 + 1.1 * rng.normal(size=(n_y, 3))
    result = ntk.sharded_test(x, y - 5, network=ntk.mlp(13), key=4)
    found.append([result.statistic, result.pvalue, float(result.witness(x[:1])[0])])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def expected():
    """In memory, by the test itself."""
    rng, found = np.random.default_rng(3), []
    test = ntk.NTKMMD(ntk.mlp(13), train_fraction=None, standardize=True)
    for n_x, n_y in ((611, 730), (19, 1300), (30, 41)):
        x, y = rng.normal(size=(n_x, 3)), 5 + 1.1 * rng.normal(size=(n_y, 3))
        result = test(jax.random.key(4), x, y - 5)
        found.append([result.statistic, result.pvalue, result.witness(x[:1])[0]])
    return np.asarray(found, float)


def assert_same(found, expected):
    found = np.asarray(found)
    np.testing.assert_allclose(found[:, 0], expected[:, 0], rtol=1e-4)
    np.testing.assert_allclose(found[:, 1], expected[:, 1], atol=1e-7)
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_the_p_value_does_not_depend_on_the_devices(expected, devices):
    assert_same(answer(launch(SCRIPT, devices=devices)), expected)


def test_two_processes_share_a_test(expected):
    both = launch_two(SCRIPT)
    for process in both:
        assert_same(answer(process), expected)


def test_bad_input_is_refused():
    x = np.ones((20, 2))
    with pytest.raises(ValueError, match="different features"):
        ntk.sharded_test(x, np.ones((20, 3)))
    with pytest.raises(ValueError, match="NaN"):
        ntk.sharded_test(np.where(np.arange(20)[:, None] == 3, np.nan, x), x)
