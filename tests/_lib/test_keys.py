"""Keys from seeds: those of JAX, without a program."""

import jax
import numpy as np
import pytest

from ntkmmd_jax._lib.keys import as_key

SEEDS = (0, 1, -1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 + 5, -(2**40) - 3, 2**63 - 1, -(2**63))


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_the_key_of_a_seed_is_that_of_jax(x64, implementation):
    with jax.enable_x64(x64), jax.default_prng_impl(implementation):
        for seed in SEEDS:
            assert as_key(seed) == jax.random.key(seed)
            assert as_key(np.int64(seed)).dtype == jax.random.key(seed).dtype


def test_traced_or_not():
    """Within a program of the user, too."""
    drawn = jax.jit(lambda: jax.random.bits(as_key(-7), (3,)))()
    np.testing.assert_array_equal(drawn, jax.random.bits(jax.random.key(-7), (3,)))
