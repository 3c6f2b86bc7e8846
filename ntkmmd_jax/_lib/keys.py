"""What may stand for a JAX key."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def check_seed(seed: Any) -> None:
    """Refuse a seed of more than 64 bits."""
    if not -(2**63) <= int(seed) < 2**63:
        raise ValueError(f"a seed is a whole number from -2^63 to 2^63 - 1; got {seed}")


def as_key(key: Any) -> jax.Array:
    """A typed JAX key from an int seed, a typed key, or an old-style uint32 key."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        check_seed(key)
        return _seeded(int(key))
    if isinstance(key, jax.Array):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.ndim == 0:
            return key
        if key.dtype == jnp.uint32 and key.shape == (2,):
            return jax.random.wrap_key_data(key)
    raise TypeError(f"key must be an int seed or one JAX key; got {key!r}")


def _seeded(seed: int) -> jax.Array:
    """`jax.random.key(seed)`; Threefry's, the two words of the seed, without a program."""
    config: Any = jax.config
    if config.jax_default_prng_impl != "threefry2x32" or config.jax_random_seed_offset:
        return jax.random.key(seed)
    high = seed >> 32 if config.jax_enable_x64 else 0  # ints of 32 bits have no more
    words: Any = np.array([high & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def host_random(key: jax.Array) -> np.random.Generator:
    """numpy's generator of a key: on the host, JAX's takes longer to compile than to draw."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))
