"""Plans from pilots: against known powers, and against what cannot be planned."""

import json
import math
import subprocess
import sys
from statistics import NormalDist

import jax
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.plotting import canvas
from ntkmmd_jax.power.curve import GAMMA, Curve, fitted
from ntkmmd_jax.power.plan import PARTS, Subsamples

OPTIONS = {"progress": False, "devices": 1, "n_runs": 400}
SIZES = np.array([10.0, 20.0, 40.0, 80.0])


@pytest.fixture(scope="module")
def found():
    """A pilot of a mean shift of 1 in d = 4, and the size that Hotelling's test needs."""
    x, y = ntk.datasets.mean_shift(jax.random.key(5), 100, 110, delta=1.0, dim=4)
    return ntk.plan(x, y, test="hotelling", **OPTIONS)


def test_the_curve_and_its_inverse():
    curve = Curve(0.05, 0.1, 0.02)
    assert curve.power(0) == pytest.approx(0.05)
    for errors in (-1.0, 0.0, 2.0):
        assert curve.power(curve.size(0.8, errors), errors) == pytest.approx(0.8)
    assert curve.size(0.8, 2) < curve.size(0.8) < curve.size(0.8, -2)
    assert Curve(0.05, -0.1, 0.0).size(0.8) == math.inf
    assert curve.size(0.04) == 0


def test_a_curve_is_found_again():
    """From binomial counts of a known one: b to 4 of its errors, which are those of its repeats."""
    rng, slope = np.random.default_rng(0), 0.08
    rates = [NormalDist().cdf(NormalDist().inv_cdf(0.05) + slope * n**GAMMA) for n in SIZES]
    about = {"share": 2 / 3, "pilot": 10**9}  # so large that only replicas are at random
    curves = [
        fitted(0.05, SIZES, rng.binomial(50, rates, (PARTS, len(SIZES))), 50, **about)
        for _ in range(40)
    ]
    slopes = np.array([curve.slope for curve in curves])
    spread = slopes.std(ddof=1)
    assert abs(slopes.mean() - slope) < 4 * spread / np.sqrt(40)
    assert spread / 2 < np.median([curve.error for curve in curves]) < 3 * spread


@pytest.mark.parametrize("rejections", [0, 50])
def test_none_or_all_rejected(rejections):
    counts = np.full((PARTS, len(SIZES)), rejections)
    curve = fitted(0.05, SIZES, counts, 50, share=2 / 3, pilot=200)
    assert math.isfinite(curve.slope) and curve.error >= 200**-GAMMA
    assert curve.size(0.8) == math.inf if rejections == 0 else curve.size(0.8) < SIZES[0]


def test_subsamples_have_no_duplicates_and_stay_in_their_part():
    x = np.arange(30.0)[:, None]
    draw = Subsamples(jax.random.key(0), jax.numpy.asarray(x), jax.numpy.asarray(x + 100))
    seen: dict[float, set] = {0.0: set(), 1.0: set()}
    for part, points in seen.items():
        for seed in range(40):
            of_x, of_y = draw(jax.random.key(seed), 12, 9, part=part)
            assert len(np.unique(of_x)) == 12 and len(np.unique(of_y)) == 9
            assert of_x.max() < 30 and of_y.min() >= 100
            points.update(np.ravel(of_x).tolist())
    assert len(seen[0.0]) == len(seen[1.0]) == 20  # two thirds of 30
    assert seen[0.0] != seen[1.0]


def test_the_size_recommended_has_the_power(found):
    """Fresh data at the ends of the interval: the power .8 lies between."""
    assert found.n is not None and found.interval[0] < found.n < found.interval[1]
    ends = [max(math.floor(found.interval[0]), 8), min(math.ceil(found.interval[1]), 400)]
    grid = {"n": ends, "delta": [1.0], "dim": [4]}
    options = {"n_runs": 400, "devices": 1, "progress": False}
    table = ntk.power_sweep(3, ["hotelling"], ntk.datasets.mean_shift, grid, **options)
    assert table.rows[0].low < 0.8 < table.rows[1].high
    estimate, low, high = found.power(found.n)
    assert low < 0.8 <= estimate < high


def test_one_law_is_not_planned_for():
    x, y = ntk.datasets.mean_shift(jax.random.key(3), 60, 60, delta=0.0, dim=4)
    none = ntk.plan(x, y, test="hotelling", **OPTIONS)
    assert none.n is None and none.interval[1] == math.inf
    assert "no size up to 600 can be recommended: the pilot does not show" in repr(none)
    assert none.to_dict()["high"] is None
    canvas.plt.close(none.plot().figure)


def test_saved_loaded_and_drawn(found, tmp_path):
    again = ntk.Plan.load(found.save(tmp_path / "plan.json"))
    assert repr(again) == repr(found) and again.to_dict() == found.to_dict()
    assert f"n = {found.n} of each" in repr(found)
    ax = found.plot()
    assert f"n = {found.n} of each" in ax.get_legend_handles_labels()[1]
    canvas.plt.close(ax.figure)
    (tmp_path / "table.json").write_text(json.dumps({"rows": []}))
    with pytest.raises(ValueError, match="does not hold a whole plan"):
        ntk.Plan.load(tmp_path / "table.json")


X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"power": 1.0}, ValueError, r"power must lie between the level, 0.05, and 1; got 1.0"),
        ({"power": 0.04}, ValueError, "power must lie between the level"),
        ({"power": math.nan}, ValueError, "power must lie between the level"),
        ({"level": 2.0}, ValueError, "level must lie in"),
        ({"sizes": [10, 31]}, ValueError, r"half of the smaller pilot sample, 30: larger"),
        ({"sizes": []}, ValueError, "sizes must lie between"),
        ({"n_runs": 5}, ValueError, "n_runs must be a whole number of at least 20"),
        ({"test": "nett"}, ValueError, "did you mean 'net'"),
        ({"test": ntk.Hotelling(), "level": 0.1}, TypeError, "carries its own level"),
        ({"x": X[:19]}, ValueError, r"a pilot of 19 \+ 60 points is too small"),
        ({"x": X * np.nan}, ValueError, "x has NaN"),
        ({"x": X[:22], "test": ntk.NTKMMD(level=1e-7, n_permutations=10**7)}, ValueError, "too sm"),
    ],
)
def test_bad_input(options, error, message):
    options = {"x": X, "test": "hotelling", **options}
    with pytest.raises(error, match=message):
        ntk.plan(options.pop("x"), X, progress=False, **options)


def test_command_line(tmp_path):
    x, y = ntk.datasets.mean_shift(jax.random.key(5), 60, 60, delta=1.5, dim=3)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    command = [sys.executable, "-m", "ntkmmd_jax", "plan", "x.npy", "y.npy", "--method=hotelling"]
    command += ["--runs=100", "--size=10", "--size=30", "--json", "--plot=p.png", "--save=p.json"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert [row["point"]["n"] for row in report["rows"]] == [10, 30]
    assert report["low"] <= report["n"] and report["power"] == 0.8
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert ntk.Plan.load(tmp_path / "p.json").n == report["n"]
