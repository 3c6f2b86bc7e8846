import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

import ntkmmd_jax as ntk


@pytest.fixture(scope="module")
def found():
    x, y = ntk.datasets.covariance_shift(jax.random.key(0), 40, 30, rho=1.0, dim=4)
    networks = {name: ntk.mlp(32, activation=name) for name in ("softplus", "relu")}
    options = {"networks": networks, "times": (1.0, 0.1, 0.01), "n_permutations": 99}
    return ntk.side_by_side(0, x, y, learning_rate=1e-3, **options)


def test_trained_and_exact_agree(found):
    assert 0.9 < float(found.comparisons["softplus"].order) < 1.1
    assert 0.9 < float(found.drifts["softplus"].order) < 1.1
    np.testing.assert_allclose(*found.scores, atol=1e-3 * np.abs(found.scores[1]).max())
    net, ntk1, ntk2 = (found.results[name] for name in ("net", "ntk1", "ntk2"))
    assert float(net.statistic) == pytest.approx(float(ntk1.statistic), rel=1e-2)
    assert float(ntk2.statistic) == pytest.approx(float(ntk1.statistic), rel=1e-3)
    assert float(net.threshold) == pytest.approx(float(ntk1.threshold), rel=1e-2)


def test_table_and_plot(found):
    text = repr(found)
    correlation = np.corrcoef(*found.scores)[0, 1]
    assert text.splitlines()[-1] == f"correlation of the witnesses: {correlation:.6f}"
    assert correlation > 0.999
    for part in ("softplus", "relu", "ntk1", "ntk2", "T_NTK"):
        assert part in text
    figure = found.plot()
    assert len(figure.axes) == 4 and all(ax.get_xlabel() for ax in figure.axes)
    plt.close(figure)


def test_bad_input():
    with pytest.raises(ValueError, match="no networks given"):
        ntk.side_by_side(0, np.ones((4, 2)), np.ones((4, 2)), networks={})
