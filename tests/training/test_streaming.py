import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax._lib.files import load_leaves, save_leaves
from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.networks import mlp
from ntkmmd_jax.training import streaming
from ntkmmd_jax.twosample.streamed import streamed_test
from ntkmmd_jax.witness import exact_witness

NETWORK = mlp(64)


@pytest.fixture(scope="module")
def setting(shifted):
    x, y = shifted
    params = NETWORK.init(jax.random.key(0), x)
    return x, y, params, exact_witness(NETWORK, params, signed_measure(x, y))


def batches(x, y, *, size_x=30, size_y=20):
    """Ragged batches; y runs out before x does."""
    starts = range(0, len(x), size_x)
    for i, start in enumerate(starts):
        part = y[i * size_y : (i + 1) * size_y]
        yield x[start : start + size_x], part if len(part) else None


def relative(a, b):
    return float(jnp.max(jnp.abs(a - b)) / jnp.max(jnp.abs(b)))


def test_the_stream_of_all_batches_is_the_exact_witness(setting):
    x, y, params, exact = setting
    stream = streaming.accumulate(streaming.init(NETWORK, params, 100), batches(x, y))
    assert (int(stream.n_x), int(stream.n_y)) == (130, 90)
    assert relative(stream.witness()(x), exact(x)) < 1e-5  # float32 sums in another order


def test_online_training_is_exact_up_to_t(setting):
    x, y, params, exact = setting
    errors = []
    for time in (0.2, 0.02):
        start = streaming.init(NETWORK, params, 100, time=time)
        witness = streaming.accumulate(start, batches(x, y)).witness()
        assert float(witness.time) == pytest.approx(time)
        errors.append(relative(witness(x), exact(x)))
    assert errors[0] < 0.05
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.2)  # O(t)


def test_resuming_gives_the_same_numbers(setting, tmp_path):
    x, y, params, _ = setting
    start = streaming.init(NETWORK, params, 100, time=0.1)
    whole = streaming.accumulate(start, batches(x, y))
    parts = list(batches(x, y))
    path = tmp_path / "stream.npz"
    streaming.accumulate(start, parts[:2]).save(path)
    resumed = streaming.accumulate(streaming.load(path), parts[2:])
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_file_is_enough_to_resume(setting, tmp_path):
    x, y, params, _ = setting
    stream = streaming.step(streaming.init(NETWORK, params, 100, time=0.1), x, y)
    path = stream.save(tmp_path / "stream.npz")
    loaded = streaming.load(path)
    assert (loaded.network, loaded.features) == (NETWORK, (100,))
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(stream), strict=True):
        np.testing.assert_array_equal(a, b)
    own = (lambda key, x: jnp.ones(x.shape[1]), lambda w, x: x @ w)
    path = streaming.init(own, jnp.ones(3), 3).save(tmp_path / "own.npz")
    with pytest.raises(ValueError, match="network of your own: load it with network="):
        streaming.load(path)
    np.testing.assert_array_equal(streaming.load(path, network=own).params, jnp.ones(3))


def test_a_stream_of_another_network_is_refused(setting, tmp_path):
    _, _, params, _ = setting
    path = streaming.init(NETWORK, params, 100).save(tmp_path / "stream.npz")
    with pytest.raises(ValueError, match=r"is of a stream with network .*softplus.*relu"):
        streaming.load(path, network=mlp(64, activation="relu"))  # of the same shapes


def test_names_of_earlier_versions_warn(setting, tmp_path):
    _, _, params, _ = setting
    path = streaming.init(NETWORK, params, 100).save(tmp_path / "stream.npz")
    with pytest.warns(DeprecationWarning, match="now streaming.init"):
        start = streaming.start(NETWORK, params, 100)
    with pytest.warns(DeprecationWarning, match="now streaming.step"):
        assert streaming.update is streaming.step
    with pytest.warns(DeprecationWarning, match=r"use streaming.load\(path\)"):
        assert start.load(path).network == NETWORK
    assert not hasattr(streaming, "stop")


def test_broken_states_are_refused(setting, tmp_path):
    _, _, params, _ = setting
    path = streaming.init(NETWORK, params, 100).save(tmp_path / "stream.npz")
    half = path.read_bytes()[: path.stat().st_size // 2]
    (tmp_path / "half.npz").write_bytes(half)
    with pytest.raises(ValueError, match="not a whole file of ours"):
        streaming.load(tmp_path / "half.npz")
    leaves, header = load_leaves(path, "WitnessStream")
    save_leaves(path, [leaf[None] for leaf in leaves], kind="WitnessStream", **header)
    with pytest.raises(ValueError, match=r"holds arrays of shapes .* expected"):
        streaming.load(path)


def test_bad_batches_leave_the_stream_alone(setting):
    x, y, params, _ = setting
    stream = streaming.step(streaming.init(NETWORK, params, 100), x, y)
    for bad, message in [
        (np.full((3, 100), np.nan), "NaN or infinite"),
        (np.ones((3, 7)), r"samples of shape \(7,\); the stream's are \(100,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            streaming.step(stream, bad, y)
    assert int(stream.n_x) == 130
    with pytest.raises(ValueError, match="no sample of y has been seen"):
        streaming.step(streaming.init(NETWORK, params, 100), x).witness()


def test_update_is_pure_and_jittable(setting):
    x, y, params, _ = setting
    start = streaming.init(NETWORK, params, 100)
    eager = streaming.step(start, x, y)
    jitted = jax.jit(streaming.step)(start, x, y)
    for a, b in zip(jax.tree.leaves(eager), jax.tree.leaves(jitted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_held_out_test(setting):
    x, y, params, _ = setting
    train = streaming.accumulate(streaming.init(NETWORK, params, 100), batches(x[:65], y[:45]))
    result = streamed_test(1, train.witness(), batches(x[65:], y[45:]))
    gap = result.witness(x[65:]).mean() - result.witness(y[45:]).mean()
    assert result.statistic == pytest.approx(float(gap), rel=1e-4)
    assert (result.n_x, result.n_y, len(result.null)) == (65, 45, 400)
    with pytest.raises(ValueError, match="both x and y are needed; got 65 and 0"):
        streamed_test(1, train.witness(), [(x[65:], None)])
