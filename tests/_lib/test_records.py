"""Records as pytrees: rebuilt without checks, by name with them, otherwise as JAX's own."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax._lib.records import record, static


@record
class Ball:
    """A positive radius, and a number of axes."""

    radius: jax.Array | float
    centre: jax.Array | None = None
    axes: int = static(default=2)

    def __post_init__(self):
        if isinstance(self.radius, int | float) and not self.radius > 0:
            raise ValueError("radius must be positive")


METHODS = ("net", "ntk", "gmmd", "gmmd-lin", "hotelling", "c2st-l", "me", "scf")


@pytest.mark.parametrize("method", METHODS)
def test_rebuilding_runs_no_checks(method):
    test = ntk.make_test(method)
    zeroed = jax.tree.map(lambda leaf: leaf * 0, test)
    assert zeroed.level == 0  # by name this is refused
    with pytest.raises(ValueError, match="level"):
        dataclasses.replace(test, level=0.0)
    leaves, structure = jax.tree.flatten(test)
    jax.tree.unflatten(structure, [object()] * len(leaves))  # as JAX's own transformations do


def test_names_still_check():
    with pytest.raises(ValueError, match="radius"):
        Ball(-1.0)
    with pytest.raises(ValueError, match="radius"):
        dataclasses.replace(Ball(1.0), radius=-1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        jax.tree.map(lambda leaf: leaf, Ball(1.0)).radius = 2.0


def test_as_a_dataclass_of_jax():
    """Leaves, paths and structures are those that `register_dataclass` gives."""

    @dataclasses.dataclass(frozen=True)
    class Own:
        radius: float
        centre: jax.Array | None = None
        axes: int = dataclasses.field(default=2, metadata={"static": True})

    jax.tree_util.register_dataclass(Own)
    for arguments in ((1.0,), (1.0, jnp.ones(3)), (1.0, None, 5)):
        ours, theirs = Ball(*arguments), Own(*arguments)
        paths, expected = map(jax.tree_util.tree_leaves_with_path, (ours, theirs))
        assert [jax.tree_util.keystr(path) for path, _ in paths] == [
            jax.tree_util.keystr(path) for path, _ in expected
        ]
        assert all(leaf is other for (_, leaf), (_, other) in zip(paths, expected, strict=True))
        assert jax.tree.leaves(ours) == [leaf for _, leaf in paths]
    of = jax.tree.structure
    assert of(Ball(1.0)) == of(Ball(2.0)) and hash(of(Ball(1.0))) == hash(of(Ball(2.0)))
    assert of(Ball(1.0)) != of(Ball(1.0, axes=3)) and of(Ball(1.0)) != of(Ball(1.0, 0.0))
    by_path = jax.tree_util.tree_map_with_path(
        lambda path, _: jax.tree_util.keystr(path), Ball(1.0)
    )
    assert by_path.radius == ".radius" and by_path.centre is None and by_path.axes == 2
    filled = jax.tree.map(lambda leaf: leaf, Ball(1.0, None), is_leaf=lambda leaf: leaf is None)
    assert filled.centre is None
    assert pickle.loads(pickle.dumps(Ball(3.0))).radius == 3.0


def test_one_program_for_all_leaves_and_one_for_each_static():
    traces = []

    @jax.jit
    def volume(ball):
        traces.append(ball.axes)
        return dataclasses.replace(ball, radius=ball.radius**ball.axes)

    assert [float(volume(Ball(r)).radius) for r in (1.0, 2.0, 3.0)] == [1.0, 4.0, 9.0]
    assert float(volume(Ball(2.0, axes=3)).radius) == 8.0
    assert traces == [2, 3]


def test_a_test_through_jit_and_vmap():
    x, y = np.random.default_rng(0).normal(size=(2, 20, 3)).astype(np.float32)
    test = ntk.NTKMMD(network=ntk.mlp(8), n_permutations=39)
    levels = np.array([0.05, 0.5, 0.9], np.float32)
    many = jax.vmap(lambda level: dataclasses.replace(test, level=level))(levels)
    assert type(many) is ntk.NTKMMD and many.network == test.network
    results = jax.jit(jax.vmap(lambda test: test(0, x, y)))(many)
    for i, level in enumerate(levels):
        one = dataclasses.replace(test, level=float(level))(0, x, y)
        np.testing.assert_allclose(results.threshold[i], one.threshold, rtol=1e-5)
        assert results.reject[i] == one.reject
