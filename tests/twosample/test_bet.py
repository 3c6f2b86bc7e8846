"""The anytime-valid test of recorded samples: its result, its files, its place in sweeps."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.pooled import pooled
from ntkmmd_jax.power.table import PowerRow
from ntkmmd_jax.sequential.recorded import Wealth, blocks

NETWORK = (ntk.sequential.Ridge(ntk.fourier(16)), ntk.sequential.Exact(ntk.mlp(8)))
OPTIONS = {"method": "bet", "network": NETWORK}
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(120, 3)), RNG.normal(size=(90, 3)) + 0.8


@pytest.fixture(scope="module")
def result():
    return ntk.two_sample_test(X, Y, **OPTIONS)


def test_the_result_says_where_it_could_have_stopped(result):
    wealth = result.wealth
    assert result.reject and wealth.logs.shape == (90, 4) and len(wealth.names) == 4
    mean = np.log(np.mean(np.exp(wealth.logs), axis=1))
    np.testing.assert_allclose(wealth.mean, mean, rtol=1e-4, atol=1e-5)
    assert result.statistic == pytest.approx(max(mean.max(), 0), rel=1e-4)
    assert result.pvalue == pytest.approx(math.exp(-result.statistic), rel=1e-4)
    stop = int(wealth.stop)
    assert mean[stop - 1] >= math.log(20) and (mean[: stop - 1] < math.log(20)).all()
    assert result.to_dict()["stop"] == stop and f"after {stop} blocks" in repr(result)
    assert (result.statistic > result.threshold) == result.reject


def test_without_evidence_it_never_stops():
    found = ntk.two_sample_test(X, X[::-1] + 1e-3 * RNG.normal(size=X.shape), **OPTIONS)
    assert not found.reject and found.wealth.stop == 0 and found.to_dict()["stop"] is None
    assert 0 < found.pvalue <= 1
    assert "at any time)" in repr(found)


def test_it_saves_and_loads(result, tmp_path):
    loaded = ntk.TwoSampleResult.load(result.save(tmp_path / "bet"))
    np.testing.assert_array_equal(loaded.witness(X), result.witness(X))
    np.testing.assert_array_equal(loaded.wealth.logs, result.wealth.logs)
    assert loaded.wealth.names == result.wealth.names
    assert loaded.plot().get_ylabel().startswith("wealth")


def test_the_witness_is_larger_on_x(result):
    assert result.witness(X).mean() > result.witness(Y).mean()


@pytest.mark.parametrize(("n_x", "n_y"), [(7, 7), (3, 8), (8, 3), (5, 9)])
def test_every_point_is_in_one_block(n_x, n_y):
    x, y = jnp.arange(1.0 * n_x)[:, None], 100 + jnp.arange(1.0 * n_y)[:, None]
    found = blocks(jax.random.key(n_x), pooled((x, y)))
    points = np.asarray(found.points)[..., 0]
    few = np.concatenate([row[[place]] for row, place in zip(points, found.place, strict=True)])
    many = [
        value
        for row, place, size in zip(points, found.place, found.size, strict=True)
        for i, value in enumerate(row[: size + 1])
        if i != place
    ]
    of_x, of_y = (few, many) if n_x <= n_y else (many, few)
    assert sorted(of_x) == x[:, 0].tolist() and sorted(of_y) == y[:, 0].tolist()
    assert np.ptp(found.size) <= 1 and (found.sign == (1 if n_x <= n_y else -1)).all()


def test_a_sweep_knows_where_replicas_stopped(tmp_path):
    tests = {"bet": ntk.BettingTest(network=NETWORK, standardize=True), "hotelling": "hotelling"}
    options = {"n": 60, "n_runs": 20, "progress": False}
    grid = {"delta": [2.0], "dim": [3]}
    run = lambda **more: ntk.power_sweep(0, tests, ntk.datasets.mean_shift, grid, **options, **more)  # noqa: E731
    table = run(batch_size=10, checkpoint=tmp_path / "log", devices=1)
    bet, other = table.rows
    assert other.stops is None and len(bet.stops) == bet.rejections > 10
    assert bet.stops == sorted(bet.stops) and 1 <= bet.stops[0] <= bet.stops[-1] <= 60
    assert bet.stopping(0.5) == bet.stops[9]
    assert "stopped (50, 80, 95 %)" in repr(table)
    again = run(batch_size=10, checkpoint=tmp_path / "log", devices=1)  # all recorded
    assert again.rows[0].stops == bet.stops
    table.save(tmp_path / "table.json")
    assert ntk.PowerTable.load(tmp_path / "table.json").rows[0].stops == bet.stops


def test_stopping_times_of_a_row():
    row = PowerRow("bet", {}, 10, 4, 1.0, 0, [3, 5, 8, 9])
    assert row.stopping(0.4) == 9 and math.isinf(row.stopping(0.5))
    with pytest.raises(ValueError, match="does not stop early"):
        PowerRow("net", {}, 10, 4, 1.0).stopping(0.5)
    with pytest.raises(ValueError, match=r"must lie in \(0, 1\]"):
        row.stopping(0.0)


def test_options_of_others_are_refused():
    with pytest.raises(ValueError, match="calibration 'test' does not apply"):
        ntk.BettingTest(calibration="test")
    with pytest.raises(TypeError, match="has no option"):
        ntk.two_sample_test(X, Y, method="bet", learning_rate=0.1)


def test_the_picture_has_a_line_per_witness(result):
    ax = result.plot()
    assert len(ax.lines) == 4 + 1 + 1 + 1  # witnesses, their mean, 1/α, where it stopped
    single = Wealth(np.zeros((0, 1)), 0.05, names=("one",))
    assert len(single.plot().lines) == 2
