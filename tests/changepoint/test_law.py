"""The law of T: rows against direct sums, moments against simulation, memory, levels, warnings."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint
from ntkmmd_jax.changepoint.by_rows import of_level
from ntkmmd_jax.changepoint.dependence import dependence
from ntkmmd_jax.changepoint.detector import jitted_step
from ntkmmd_jax.changepoint.law import World, stream_draws
from ntkmmd_jax.changepoint.rows import Memory, grown, rows_of, seen
from ntkmmd_jax.changepoint.runs import first_alarms, threshold_for
from ntkmmd_jax.changepoint.threshold import OF_CUSUM, given, warn_if_doubtful
from tests.changepoint.conftest import EXACT, TESTS, swinging
from tests.conftest import LONG

KERNELS = {"two layers": EXACT, "deep": ntk.NTKMMD(network=ntk.mlp((4, 4))), "gmmd": TESTS["gmmd"]}


@pytest.mark.parametrize("name", KERNELS)
def test_rows_give_windows_of_all_lengths(name):
    """Against the test's own statistic of reference and window (float error)."""
    x = jax.random.normal(jax.random.key(0), (40, 3))
    test = KERNELS[name].for_pairs()
    prepared = test.prepare(jax.random.key(1), x)
    rows, reference, frames = rows_of(test, prepared, 8), x[:24], x[24:]

    @jax.jit
    def sums_of(rows, reference, frames):
        memory = Memory.of(rows, reference, 5, 24)
        sums = memory.sums
        for block in jnp.split(frames, 2):
            memory, added = seen(rows, memory, block)
            sums = jax.lax.scan(lambda sums, row: (grown(sums, row), None), sums, added)[0]
            codes, gaps = jnp.roll(memory.codes, -8, axis=0), jnp.roll(memory.gaps, -8)
            memory = Memory(memory.mean, memory.offset, codes, gaps, sums)
        return sums

    sums = sums_of(rows, reference, frames)
    for length in (1, 5):
        expected = test.statistic(jax.random.key(2), prepared, reference, frames[-length:])
        assert float(sums[length - 1]) / length**2 == pytest.approx(float(expected), rel=2e-4)


def autoregression(key, n, d, rho):
    noise = jax.random.normal(key, (n, d))

    def take(x, e):
        return rho * x + (1 - rho**2) ** 0.5 * e, x

    return jax.lax.scan(take, noise[0], jnp.roll(noise, -1, axis=0))[1]


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_memory_of_an_autoregression(rho):
    """V = (1 + ρ)/(1 − ρ), and V_50, over 60 series: to 4 standard errors, beside 2 % of bias."""

    @jax.jit
    def found(key):
        x = autoregression(key, 600, 5, rho)
        x = x - x.mean(0)
        remembers = dependence(x @ x.T, 200)
        return remembers.time, 50 * remembers.mean(50) / 5, remembers.order, remembers.spread

    time, window, order, spread = jax.lax.map(found, jax.random.split(jax.random.key(0), 60))
    lags = np.arange(1, 50)
    expected = (1 + rho) / (1 - rho), 1 + 2 * np.sum((1 - lags / 50) * rho**lags)
    for values, true in zip((time, window), expected, strict=True):
        error = np.std(values) / np.sqrt(60)
        assert abs(np.mean(values) - true) < 4 * error + 0.02 * true
    assert np.median(order) == (rho > 0)
    assert np.mean(spread > 1) < 0.05


def episodes(key, n, d):
    """Independent frames of standard deviation 1.5 or .5, which changes at a twentieth of them."""
    k_noise, k_changes = jax.random.split(key)
    large = jnp.cumsum(jax.random.bernoulli(k_changes, 0.05, (n,))) % 2
    return (0.5 + large.astype(float))[:, None] * jax.random.normal(k_noise, (n, d))


def test_memory_of_a_spread():
    """9.9 frames: half of Var |x|² is that of the episodes, with ρ_h = .9^h; to 4 errors and 10 %.

    A linear kernel remembers 1 frame, and so all windows were taken for windows of such frames.
    """

    @jax.jit
    def found(key):
        x = episodes(key, 1000, 5)
        x = x - x.mean(0)
        remembers = dependence(x @ x.T, 200)
        return remembers.time, remembers.spread, remembers.slowest, remembers.block(100)

    time, spread, slowest, block = jax.lax.map(found, jax.random.split(jax.random.key(0), 60))
    assert np.median(time) < 1.2
    assert abs(np.mean(spread) - 9.9) < 4 * np.std(spread) / np.sqrt(60) + 0.99
    assert np.mean(slowest > 1) < 0.1  # by chance
    np.testing.assert_array_equal(block, np.ceil(4 * np.maximum(spread, slowest)))


def test_episodes_are_told_of():
    """2,000 frames are enough if they are independent, not if they come in episodes."""
    options = {"window": 50, "test": "gmmd", "level": 0.05}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        changepoint.init(0, jax.random.normal(jax.random.key(0), (2000, 5)), **options)
    with pytest.warns(UserWarning, match="large or small together"):
        changepoint.init(0, episodes(jax.random.key(0), 2000, 5), **options)


@pytest.mark.parametrize("block", [None, 4])
def test_spread_of_windows_that_remember(block):
    """Var T_L for squares of frames, whose fourth cumulants grow with L.

    Without an excess of memory it is 13 % short at L = 10; with blocks of 4 frames, of which the
    excess did not grow beyond, 17 and 14 % at L = 10 and 20.
    """
    known, lengths = 1000, (10, 20, 40)

    @jax.jit
    def ratios(key):
        x = autoregression(key, 4000, 3, 0.5)
        frames = (x[:, :, None] * x[:, None, :]).reshape(-1, 9)
        frames = frames - frames[:known].mean(0)
        world = World.of(frames[:known] @ frames[:known].T, known, 40, block)
        total = jnp.cumsum(frames[known:], axis=0)
        spread = [jnp.std(jnp.sum((total[n:] - total[:-n]) ** 2, 1)) / n**2 for n in lengths]
        return jnp.stack(spread) / world.moments.spread[jnp.array(lengths) - 1]

    found = jax.lax.map(ratios, jax.random.split(jax.random.key(0), 40))
    error = np.std(found, axis=0) / np.sqrt(40)
    np.testing.assert_array_less(abs(np.mean(found, axis=0) - 1), 0.03 + 2 * error)


def test_resampled_streams_have_no_neighbours_by_chance():
    """Frames that come twice in a short window would have the tail of T_2 to themselves."""
    x = jax.random.normal(jax.random.key(0), (60, 400))
    x = x - x.mean(0)
    world = World.of(x @ x.T, 60, 4)
    options = {"window": 4, "shortest": 2, "horizon": 40, "draws": 400}
    z, _ = stream_draws(jax.random.key(1), world, **options)
    assert float(jnp.quantile(z[:, 3:], 0.99)) < 4  # 2.9; with frames that come twice it is 6.3


def replica(key, rho, level):
    """Whether T of a fresh window exceeds the threshold of a pool, by a linear kernel."""
    k_frames, k_null = jax.random.split(key)
    x = autoregression(k_frames, 500, 3, rho)
    pool = x[:400]
    gap = pool - pool.mean(0)
    world = World.of(gap @ gap.T, 400, 20)
    found = of_level(k_null, world, level, window=20, draws=199)
    means = x[400:].reshape(5, 20, 3).mean(1) - pool.mean(0)
    values = jnp.sum(means**2, 1)
    return jnp.mean(values > found.value), values, found.moments.mean[-1], found.moments.spread[-1]


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_level_and_moments(rho):
    """Over 200 pools, 5 windows each: level .1 to 4 errors; mean and spread of T to 5 and 8 %."""
    run = jax.jit(lambda keys: jax.lax.map(lambda key: replica(key, rho, 0.1), keys))
    run = run.lower(keys := jax.random.split(jax.random.key(3), 200)).compile(compiler_options=LONG)
    rates, values, mean, spread = run(keys)
    assert abs(np.mean(rates) - 0.1) < 4 * np.std(rates) / np.sqrt(200)
    assert np.mean(mean) == pytest.approx(np.mean(values), rel=0.05 + 4 * 0.8 / np.sqrt(1000))
    assert np.mean(spread) == pytest.approx(np.std(values), rel=0.08 + 4 * 1.2 / np.sqrt(1000))


def test_a_threshold_for_a_run_length():
    """Of independent looks, each above with probability p: ARL 1/p, to 4 errors of 2,000 runs."""
    values = np.random.default_rng(0).uniform(size=(2000, 100))
    looks = np.arange(1, 101)
    found = threshold_for(values, looks, 200.0)
    assert first_alarms(values, looks, found).mean >= 200
    assert 1 / (1 - found) == pytest.approx(200, rel=4 / np.sqrt(2000 * 0.4))


def test_short_references_are_told_of(series):
    """A warning with the frames that would do; a longer reference of the same law has none."""
    options = {"window": 12, "test": EXACT, "level": 0.02}
    with pytest.warns(UserWarning, match=r"which remember 1\.. frames .* about \d+0 frames would"):
        short = changepoint.init(0, series[:30], **options)
    frames = np.random.default_rng(1).normal(size=(400, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        long = changepoint.init(0, frames, **options)
        changepoint.init(0, frames, window=66, test="gmmd", level=0.05)
    with pytest.warns(UserWarning, match=r"5\.9 windows.* by a factor of 1\.. .* 408 frames would"):
        changepoint.init(0, frames, window=68, test="gmmd", level=0.05)
    cusum = {"test": EXACT, "drift": 0.5, "level": 0.05}  # of which 12 windows are asked
    with pytest.warns(UserWarning, match=r"11\.8 windows.* 408 frames would"):
        changepoint.init(0, frames, window=34, **cusum)
    of_halves = {"test": "hotelling", "arl": 200.0, "n_draws": 100}
    with pytest.warns(UserWarning, match=r"11\.8 windows.* \d{3} frames would"):
        changepoint.init(0, frames, window=34, **of_halves)
    remembering = dataclasses.replace(given(1.0, 34), block=np.int32(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_doubtful(remembering, 400, 34)
    with pytest.warns(UserWarning, match=r"600 frames would"):
        warn_if_doubtful(remembering, 400, 34, times=OF_CUSUM)
    width = [
        np.log(high / low) for low, high in (short.threshold_interval, long.threshold_interval)
    ]
    assert width[0] > 2 * width[1] > 0


@pytest.mark.filterwarnings("ignore:the reference is short")
def test_all_lengths_see_a_change_sooner(series):
    """Than half a window of 12 frames would be full of it; looks begin with the shortest."""
    options = {"window": 12, "shortest": 2, "stride": 1, "test": EXACT, "arl": 200.0}
    found = changepoint.scan(0, series, reference=50, n_draws=100, **options)
    assert found.times[0] == 51 and found.delay(60) <= 4
    assert found.false_alarms(60) == (0, 9)


@pytest.mark.filterwarnings("ignore:the reference is short")
def test_cusum_of_what_a_witness_gains(series):
    """W goes up after the change only, by what the witness has not seen."""
    options = {"window": 12, "stride": 4, "test": TESTS["net"], "drift": 0.5, "n_draws": 30}
    options["level"] = 0.05
    found = changepoint.scan(0, series, reference=40, **options)
    after = np.asarray(found.times) >= 72
    assert np.asarray(found.alarms)[after].all() and not np.asarray(found.alarms)[:2].any()
    assert (np.diff(np.asarray(found.statistics)[after]) > 0).all()


@pytest.mark.filterwarnings("ignore:the reference is short")
def test_level_of_a_cusum():
    """Over 60 references, 16 streams of 40 windows each: level .05 to 3 errors.

    Streams of one half of a reference against the other, begun at W = 0, had twice as many alarms.
    """
    small = ntk.NTKMMD(network=ntk.mlp(8))
    options = {"window": 16, "stride": 4, "test": small, "drift": 0.5, "level": 0.05}

    @jax.jit
    def rate(state, key):
        def one(key):
            k_frames, k_looks = jax.random.split(key)
            begun = dataclasses.replace(state, key=k_looks)
            _, report = jitted_step(begun, jax.random.normal(k_frames, (640, 2)), 640)
            return report.alarms.sum() / report.looked.sum()

        return jax.lax.map(one, jax.random.split(key, 16)).mean()

    rates = []
    for seed in range(60):
        k_reference, k_streams = jax.random.split(jax.random.key(seed))
        reference = jax.random.normal(k_reference, (400, 2))
        state = changepoint.init(seed, reference, n_draws=100, **options)
        rates.append(float(rate(state, k_streams)))
    assert abs(np.mean(rates) - 0.05) < 3 * np.std(rates) / np.sqrt(60)


def test_a_moving_reference():
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(200, 3)) + np.repeat([0, 4, 0], [60, 80, 60])[:, None]
    found = changepoint.contrast(0, frames, window=20, stride=4, test=EXACT)
    best = np.asarray(found.times)[np.argsort(-np.asarray(found.statistics))[:2]]
    assert sorted(best.tolist()) == [60, 140]
    assert found.area([60, 140], margin=8) > 0.99
    assert found.area([100], margin=8) < 0.5
    with pytest.raises(ValueError, match="0 of 41 looks are within 1 frames"):
        found.area([500], margin=1)
    with pytest.raises(ValueError, match="two windows of 120"):
        changepoint.contrast(0, frames, window=120)


@pytest.mark.filterwarnings("ignore:the reference is short")
def test_level_in_the_coordinates_of_a_reference():
    """24 references in d = 40: 400 looks each at windows that share no frame, wanted .05.

    The standard error between references is .007; without what frames after a reference spread
    more than its own, the rate is .076.
    """
    options = {"learning_rate": 0.01, "batch_size": None, "train_fraction": None}
    test, window = ntk.NetMMD(ntk.mlp(32), **options), 20

    @jax.jit(compiler_options=LONG)
    def rate(state, key):
        frames = jax.random.normal(key, (400 * window, 40))
        _, report = jitted_step(state, frames, len(frames))
        return report.alarms.sum() / report.looked.sum()

    rates = []
    for seed in range(24):
        k_reference, k_stream = jax.random.split(jax.random.key(seed))
        reference = jax.random.normal(k_reference, (200, 40))
        about = {"window": window, "stride": window, "test": test, "level": 0.05}
        rates.append(float(rate(changepoint.init(seed, reference, **about), k_stream)))
    assert abs(np.mean(rates) - 0.05) < 0.02  # 2.8 errors


@pytest.mark.parametrize("window", [60, 100, 150])
def test_a_series_that_swings(window):
    """Steps cancel in windows: no V_L is below 0, and no look of what went on before is an alarm.

    With lines between steps V_150 was −.003, and all looks were above the threshold of 100 frames.
    """
    frames = swinging(frequency=0.036, jitter=0.05, noise=0.2)
    with pytest.warns(UserWarning, match="the reference is short"):
        found = changepoint.scan(0, frames, reference=800, window=window, test=EXACT)
    assert found.threshold > 0 and not found.alarms.any()
    rows = rows_of(EXACT.for_pairs(), EXACT.prepare(jax.random.key(0), jnp.zeros((1, 4))), 8)
    known = dependence(rows.gram(jnp.asarray(frames[:800], jnp.float32)), 4 * window)
    assert (np.asarray(known.mean(np.arange(1, 2 * window))) > 0).all()
    assert float(known.time) > 20


@pytest.mark.filterwarnings("ignore:the reference is short")
def test_blocks_of_whole_periods():
    """They cancel, which windows of other lengths do not: half of the looks were in alarm."""
    rng = np.random.default_rng(1000)
    phase = 2 * np.pi * np.cumsum(0.02 * (1 + 0.05 * rng.normal(size=1600)))
    harmonics = np.arange(6)
    frames = np.sin((harmonics + 1) * phase[:, None] + harmonics)
    frames = frames + 0.2 * rng.normal(size=frames.shape)
    found = changepoint.scan(0, frames, reference=800, window=100, shortest=10, test=EXACT)
    assert not found.alarms.any()


def test_a_walk_is_not_taken_for_independent_frames():
    """Half of its correlation lasts so long that few steps are left to tell the order by."""
    for seed in range(30):
        walk = np.random.default_rng(seed).normal(size=(600, 1)).cumsum(0)
        x = jnp.asarray((walk - walk.mean()) / walk.std(), jnp.float32)
        found = dependence(x @ x.T, 50)
        assert found.order > 0 and found.block(600) > 100


def with_a_slow_one(key, n, d, rho):
    """Independent coordinates, the first of which is an autoregression."""
    x = jax.random.normal(key, (n, d))
    return x.at[:, :1].set(autoregression(jax.random.fold_in(key, 1), n, 1, rho))


@pytest.mark.parametrize(("d", "rho"), [(30, 0.9), (10, 0.9), (50, 0.95)])
def test_few_features_that_remember_longer_than_others(d, rho):
    """(1 + ρ)/(1 − ρ) of one coordinate of d, not its mean over all; to a factor of two.

    Blocks as long as the mean, 1.6 frames of d = 30, had 4 to 11 % of the looks in alarm for 1.
    """

    @jax.jit
    def found(key):
        x = with_a_slow_one(key, 2000, d, rho)
        x = x - x.mean(0)
        remembers = dependence(x @ x.T, 200)
        return remembers.time, remembers.slowest, remembers.block(1000)

    time, slowest, block = jax.lax.map(found, jax.random.split(jax.random.key(0), 20))
    expected = (1 + rho) / (1 - rho)
    error = np.std(time) / np.sqrt(20)
    assert abs(np.mean(time) - 1 - (expected - 1) / d) < 4 * error + 0.05
    assert 1 / 2 < np.median(slowest) / expected < 2
    np.testing.assert_array_equal(block, np.ceil(4 * slowest))


def test_a_slow_coordinate_is_told_of():
    with pytest.warns(UserWarning, match="some of their coordinates or features do"):
        frames = with_a_slow_one(jax.random.key(0), 2000, 30, 0.9)
        changepoint.init(0, frames, window=50, test="gmmd", level=0.05)
