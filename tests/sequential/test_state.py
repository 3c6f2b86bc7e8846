"""The stream: in any batches, saved and resumed, the same to the bit; bad input loses nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import sequential
from ntkmmd_jax.sequential import Exact, Ridge, Trained, Watch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4)).astype(np.float32)
Y = (RNG.normal(size=(150, 4)) + 0.9).astype(np.float32)
MIXED = (Exact(ntk.mlp(8)), Ridge(ntk.fourier(16)), Trained(ntk.mlp(8)))


@pytest.fixture(scope="module")
def begun():
    return sequential.init(0, MIXED, features=4)


@pytest.fixture(scope="module")
def whole(begun):
    return sequential.step(begun, X, Y)


def same(a, b):
    raw = [jax.random.key_data(s.key) for s in (a, b)]
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    others = [(p, q) for p, q in pairs if not jnp.issubdtype(p.dtype, jax.dtypes.prng_key)]
    return (raw[0] == raw[1]).all() and all(bool(jnp.array_equal(p, q)) for p, q in others)


@pytest.mark.parametrize("cuts", [[1, 2, 31, 32, 33, 100], [75], [64, 128]])
def test_batches_of_any_size_are_the_same_to_the_bit(begun, whole, cuts, tmp_path):
    state, paths = begun, []
    for a, b in zip([0, *cuts], [*cuts, 150], strict=True):
        state, report = sequential.step(state, X[a:b], Y[a:b])
        paths.append(report.path)
        state.save(tmp_path / "state.npz")  # killed, and resumed
        state = sequential.load(tmp_path / "state.npz")
    assert same(state, whole[0])
    np.testing.assert_array_equal(np.concatenate(paths), whole[1].path)


def test_the_report_says_what_the_path_says(whole):
    state, report = whole
    assert report.n == 150 and report.path.shape == (150,)
    assert (report.path[:31] == 0).all() and report.path[31] != 0  # those that waited
    assert report.log_wealth == report.path[-1] == state.log_wealth
    assert report.peak >= report.path.max()
    assert report.pvalue == pytest.approx(np.exp(-float(report.peak)))
    assert report.reject and report.pvalue <= 0.05
    assert state.report().reject


def test_a_single_pair_and_lists_are_taken(begun):
    assert sequential.init(0, MIXED, X).features == begun.features == (4,)
    one, report = sequential.step(begun, X[0], Y[0])
    many, _ = sequential.step(begun, X[:1].tolist(), Y[:1].tolist())
    assert same(one, many) and report.path.shape == (1,)


def test_units_make_no_difference(begun, whole):
    """Standard coordinates, fixed from the first pairs without their labels."""
    moved = sequential.step(begun, 1000 * X + 5000, 1000 * Y + 5000)[1]
    np.testing.assert_allclose(moved.path, whole[1].path, atol=0.05)


def test_ties_are_no_evidence(begun):
    constant = np.full((150, 4), 3.3, np.float32)
    assert (sequential.step(begun, constant, constant)[1].path == 0).all()


def test_blocks_of_unequal_size():
    network = Ridge(ntk.fourier(16))
    many = RNG.normal(size=(300, 4)).astype(np.float32)
    state = sequential.init(0, network, features=4, block=(1, 3), warmup=16)
    assert sequential.step(state, X[:100] + 1, many)[1].reject
    state = sequential.init(0, network, features=4, block=(3, 1), warmup=16)
    state, report = sequential.step(state, many, X[:100] + 1)
    assert report.reject and report.n == 100
    with pytest.raises(ValueError, match=r"blocks \(3, 1\); got 4 and 1"):
        sequential.step(state, X[:4], Y[:1])


def test_it_is_jittable(begun, whole):
    state, report = jax.jit(sequential.step)(begun, X, Y)
    np.testing.assert_allclose(report.path, whole[1].path, atol=1e-3)
    assert jax.tree.structure(state) == jax.tree.structure(whole[0])


def test_its_size_stays(begun, whole):
    shapes = [jax.tree.map(lambda leaf: leaf.shape, state) for state in (begun, whole[0])]
    assert jax.tree.leaves(shapes[0]) == jax.tree.leaves(shapes[1])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.full((2, 4), np.nan), Y[:2], "x has NaN"),
        (X[:2], np.full((2, 4), np.inf), "y has NaN or infinite"),
        (X[:2, :3], Y[:2], "samples of shape"),
        (X[:3], Y[:2], "as many points of x as of y; got 3 and 2"),
        (np.zeros((0, 4)), np.zeros((0, 4)), "empty"),
        (["a"], ["b"], "real numbers"),
    ],
)
def test_bad_input_is_refused(begun, x, y, message):
    with pytest.raises(ValueError, match=message):
        sequential.step(begun, x, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs the shape of one point"),
        ({"features": 3, "block": (2, 3)}, "one of them 1"),
        ({"features": 3, "warmup": -1}, "warmup"),
        ({"features": 3, "level": 2.0}, "level"),
    ],
)
def test_options_that_are_none_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sequential.init(0, Exact(ntk.mlp(4)), **options)


def test_a_training_that_diverges_is_an_error():
    wild = Trained(ntk.mlp(4), loss="linear", optimizer=optax.sgd(1e38))
    state = sequential.init(0, wild, features=4, warmup=0)
    with pytest.raises(ValueError, match="diverges; take a smaller"):
        sequential.step(state, X, Y)


def test_functions_of_ones_own_come_back_by_hand(tmp_path):
    pair = (lambda key, x: {"w": jnp.ones(x.shape[1])}, lambda p, x: jnp.tanh(x @ p["w"]))
    state, _ = sequential.step(sequential.init(0, pair, features=4, warmup=8), X[:20], Y[:20])
    path = state.save(tmp_path / "own.npz")
    with pytest.raises(ValueError, match="network of your own"):
        sequential.load(path)
    assert same(sequential.load(path, network=pair), state)
    with pytest.raises(ValueError, match="of a test with"):
        sequential.load(path, network=Ridge())


def test_a_torn_file_is_refused(whole, tmp_path):
    path = whole[0].save(tmp_path / "state.npz")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="not a whole file"):
        sequential.load(path)


class TestWatch:
    """The object: streams that do not come in step."""

    def test_what_has_no_partner_waits(self, whole, tmp_path):
        watch = Watch(0, MIXED)
        watch.update(X[:40])
        assert watch.waiting == (40, 0)
        report = watch.update(X[40:60], Y[:90])
        assert watch.waiting == (0, 30) and report.n == 60
        watch.save(tmp_path / "watch.npz")
        watch = Watch.load(tmp_path / "watch.npz")
        report = watch.update(x=X[60:], y=Y[90:])
        assert report.log_wealth == whole[1].log_wealth and watch.waiting == (0, 0)
        assert watch.wealth.logs.shape == (90, 1)
        watch.wealth.plot()

    def test_an_error_leaves_all_as_it_was(self):
        watch = Watch(0, MIXED, features=4)
        watch.update(X[:3], Y[:2])
        for bad in ({"x": X[:2, :2]}, {"y": np.full(4, np.nan)}, {}):
            with pytest.raises(ValueError):
                watch.update(**bad)
        assert watch.waiting == (1, 0) and watch.state.n == 2

    def test_before_the_first_point(self, tmp_path):
        with pytest.raises(ValueError, match="nothing has been seen"):
            Watch(0).save(tmp_path / "no.npz")
        with pytest.raises(ValueError, match="nothing has been seen"):
            _ = Watch(0).wealth
