import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax._lib.tiles import even_size, in_batches, tile_by_tile, tiled


@pytest.mark.parametrize(("n", "size"), [(1, 1), (7, 3), (9, 3), (5, 8)])
def test_tiles_hold_all_and_are_filled_up(n, size):
    values = 1.0 + jnp.arange(2.0 * n).reshape(n, 2)
    tiles = np.asarray(tiled(values, size)).reshape(-1, 2)
    np.testing.assert_array_equal(tiles[:n], values)
    np.testing.assert_array_equal(tiles[n:], np.broadcast_to(values[0], tiles[n:].shape))
    assert np.all(np.asarray(tiled(values, size, fill=0)).reshape(-1, 2)[n:] == 0)


def test_even_tiles_are_as_few_as_can_be():
    for n in range(1, 60):
        for most in range(1, 20):
            size, few = even_size(n, most), -(-n // most)
            assert size <= most
            assert -(-n // size) == few
            assert few * size - n < few  # less than one missing in each


@pytest.mark.parametrize("n", [1, 4, 5, 13])
def test_tile_by_tile_is_the_function(n):
    x = jnp.arange(3.0 * n).reshape(n, 3)
    np.testing.assert_array_equal(tile_by_tile(lambda x: x.sum(1), x, 4), x.sum(1))
    np.testing.assert_array_equal(tile_by_tile(lambda x: 2 * x, x, 4), 2 * x)


@pytest.mark.parametrize("n", [1, 4, 5, 13])
def test_batches_are_of_one_size_and_the_function_is_made_once(n):
    """What is left over is no program of its own, beside which another would run."""
    keys, x = jax.random.split(jax.random.key(0), n), jnp.arange(3.0 * n).reshape(n, 3)
    shapes = []

    def function(row):
        shapes.append(row[1].shape)
        return {"uniform": jax.random.uniform(row[0]), "double": 2 * row[1]}

    found, made = in_batches(function, (keys, x), 4), len(shapes)
    np.testing.assert_array_equal(found["double"], 2 * x)
    np.testing.assert_array_equal(found["uniform"], jax.vmap(jax.random.uniform)(keys))
    assert made == 1
