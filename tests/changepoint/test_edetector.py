"""The e-detector: a promise on its run length, a queue of frames used once, and files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.changepoint import edetector
from ntkmmd_jax.sequential import Exact, Ridge

LEARNERS = (Ridge(ntk.fourier(16), ridges=(0.3,), memory=50), Exact(ntk.mlp(8), memory=50))
RNG = np.random.default_rng(0)
REFERENCE = RNG.normal(size=(120, 3)).astype(np.float32)
FRAMES = RNG.normal(size=(200, 3)).astype(np.float32)
FRAMES[100:] += 2


@pytest.fixture(scope="module")
def begun():
    return edetector.init(0, REFERENCE, LEARNERS, arl=1000)


@pytest.fixture(scope="module")
def found(begun):
    return edetector.step(begun, FRAMES)


def test_it_finds_a_change_and_no_other(found):
    assert 100 <= found[1].first_alarm < 160
    assert np.asarray(found[1].events).sum() >= 1


def test_batches_and_files_make_no_difference(begun, found, tmp_path):
    state, alarms = begun, []
    for a, b in ((0, 100), (100, 200)):
        state, report = edetector.step(state, FRAMES[a:b])
        alarms.append(report.alarms)
        state = edetector.load(state.save(tmp_path / "state.npz"))
    np.testing.assert_array_equal(np.concatenate(alarms), found[1].alarms)
    np.testing.assert_array_equal(state.evidence, found[0].evidence)


def test_frames_of_the_queue_are_used_once():
    """The queue, replayed by hand: every second frame joins once it is down to its reserve."""
    reference = np.arange(12.0)[:, None] - 100
    state = edetector.init(0, reference, Exact(ntk.mlp(4)), warmup=4, reserve=3)
    waiting, used = list(np.asarray(state.queue[:, 0])), []
    for i in range(30):
        first = float(state.queue[state.first, 0])
        state, report = edetector.step(state, np.array([float(i)]))
        value = float(state.standard(jnp.asarray([[float(i)]]))[0, 0])
        if bool(report.looked[0]):
            assert waiting.pop(0) == pytest.approx(first)
            used.append(first)
        else:
            waiting.append(value)
        assert int(state.left) == len(waiting) >= 3
    assert len(set(np.round(used, 4))) == len(used) and 15 <= len(used) < 30


def test_run_lengths_are_at_least_what_was_asked_for():
    """Without a change: at A = 20 the mean run, cut off at 100 frames, is above 20."""

    @jax.jit
    def run(key):
        k_reference, k_frames, k_state = jax.random.split(key, 3)
        reference, frames = (jax.random.normal(k, (100, 3)) for k in (k_reference, k_frames))
        standard = edetector.standard_of(k_state, reference[:20])
        about = (LEARNERS, edetector.ONS(), standard, standard(reference[20:]), 20.0, 40, 0)
        _, report = jax.lax.scan(edetector.take_frame, edetector._start(k_state, *about), frames)
        return jnp.where(report.alarms.any(), jnp.argmax(report.alarms) + 1, 100)

    lengths = jax.lax.map(run, jax.random.split(jax.random.key(0), 300), batch_size=50)
    assert lengths.mean() > 20 + 4 * lengths.std() / np.sqrt(300)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arl": 1.0}, "arl must exceed 1"),
        ({"reserve": 500}, "reserve must be below"),
        ({"warmup": 118}, "leave fewer than 4"),
    ],
)
def test_options_that_are_none_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        edetector.init(0, REFERENCE, LEARNERS, **options)


def test_bad_frames_are_refused(begun):
    with pytest.raises(ValueError, match="frames of shape"):
        edetector.step(begun, np.zeros((2, 5)))
    with pytest.raises(ValueError, match="needs 8 frames"):
        edetector.init(0, REFERENCE[:5], LEARNERS)
