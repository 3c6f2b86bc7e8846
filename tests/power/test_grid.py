"""Where the parameters of a grid go, and which grids are refused."""

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.power.grid import cells_of
from ntkmmd_jax.power.sweep import power_sweep
from tests.power.test_sweep import OPTIONS, SAMPLER, TESTS, Coin


def test_static_parameters_and_sizes():
    grid = {"widths": [(4, 4)], "n": [8, 12], "train_fraction": [0.25], "rho": [0.1]}
    small = {**grid, "n": [8]}  # each size is a program of its own
    table = power_sweep(1, {"ntk": TESTS["ntk"]}, SAMPLER, small, n_runs=4, progress=False)
    point = {"widths": (4, 4), "n": 8, "train_fraction": 0.25, "rho": 0.1}
    assert [row.point for row in table.rows] == [point]
    cells = cells_of(TESTS, SAMPLER, grid, 5)
    assert cells[1].sizes == (12, 12) and cells[1].traced == {"rho": 0.1}
    assert cells[1].tests["net"].network is ntk.mlp((4, 4))
    assert cells[1].tests["net"].train_fraction == 0.25


def test_sizes_in_the_grid_come_before_the_samplers_parameters():
    """The sampler has parameters n_x and n_y, too; n sets both, whatever the order."""
    cells = cells_of(TESTS, SAMPLER, {"rho": 0.1, "n_x": [8, 9], "n_y": [7]}, 5)
    assert [cell.sizes for cell in cells] == [(8, 7), (9, 7)]
    assert cells[0].fixed == () and cells[0].traced == {"rho": 0.1}
    cells = cells_of(TESTS, SAMPLER, {"rho": 0.1, "n_x": 8, "n": [(5, 6), 4.0]}, 5)
    assert [cell.sizes for cell in cells] == [(8, 6), (8, 4)]
    table = power_sweep(
        0, {"fair": Coin(fair=True)}, SAMPLER, {"rho": 0.1, "dim": 1, "n_x": [3]}, **OPTIONS
    )
    assert table.rows[0].point == {"rho": 0.1, "dim": 1, "n_x": 3}


def test_a_sampler_may_call_its_sizes_what_it_likes():
    def sampler(k, first, second, *, rho):
        return SAMPLER(k, first, second, rho=rho, dim=1)

    options = {**OPTIONS, "n_runs": 20}
    ours = power_sweep(0, {"fair": Coin(fair=True)}, sampler, {"rho": [0.1]}, **options)
    theirs = power_sweep(0, {"fair": Coin(fair=True)}, SAMPLER, {"rho": [0.1], "dim": 1}, **options)
    assert ours.rows[0].rejections == theirs.rows[0].rejections
    with pytest.raises(ValueError, match="nothing takes the grid parameter 'first'"):
        power_sweep(0, {"fair": Coin(fair=True)}, sampler, {"rho": [0.1], "first": [3]}, **options)


def test_values_of_a_grid():
    """Numbers of any origin are Python's; what is no number stays; a tuple can be one value."""
    grid = {"level": [np.float32(0.5), 1 / 4], "train_fraction": [None, 0.5], "widths": [[4, 4]]}
    cells = cells_of(TESTS, SAMPLER, {**grid, "rho": jax.numpy.asarray([1.0]), "dim": 2}, 8)
    assert cells[0].point == {
        "level": 0.5, "train_fraction": None, "widths": (4, 4), "rho": 1.0, "dim": 2,
    }  # fmt: skip
    assert type(cells[0].point["level"]) is float and len(cells) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"grid": {"sigma": [1.0]}}, "nothing takes the grid parameter 'sigma'"),
        ({"grid": {"rho": []}}, "'rho' has no values"),
        ({"tests": {}}, "no tests given"),
        ({"n_runs": 0}, "n_runs must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"devices": 99}, "devices = 99, but there are"),
        ({"devices": []}, "devices must be how many"),
        ({"tests": ["nett"]}, "unknown method 'nett'"),
        ({"n_runs": True}, "n_runs must be a whole number"),
        ({"n_runs": 2**40}, "n_runs must be a whole number"),
        ({"n": 0}, "n must be a whole number of at least 2; got 0"),
        ({"n": (8, -1)}, "n must be a whole number of at least 2; got -1"),
        ({"n": (8, 8, 8)}, "n must be one size or a pair"),
        ({"n": 8.5}, "n must be a whole number of at least 2; got 8.5"),
        ({"grid": {"rho": 0.1, "n_x": [8, 1]}}, "n_x must be a whole number of at least 2; got 1"),
        ({"grid": {"rho": 0.1, "n": [0]}}, "n must be a whole number of at least 2; got 0"),
        ({"grid": {"rho": range(10**9)}}, "'rho' has 1,000,000,000 values"),
        ({"grid": {name: [0.1] * 1000 for name in ("rho", "dim", "level")}}, "1,000,000,000 cells"),
        ({"grid": {"rho": {0.1, 0.2}}}, "must be a list, tuple, range or array"),
        ({"grid": {"rho": 0.1, "dim": [{}]}}, "'dim' goes to the sampler"),
        ({"grid": {"rho": 0.1, "method": ["a"]}}, "nothing takes the grid parameter 'method'"),
        ({"grid": {"rho": 0.1, "widths": [4]}, "tests": ["gmmd"]}, "nothing takes .* 'widths'"),
    ],
)
def test_bad_sweeps_are_refused(arguments, message):
    usual = {"tests": TESTS, "sampler": SAMPLER, "grid": {"rho": [0.1]}, "n": 8, "n_runs": 2}
    with pytest.raises(ValueError, match=message):
        power_sweep(0, **{**usual, **arguments})
