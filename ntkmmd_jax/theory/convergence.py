"""How fast an error vanishes with the training time t: the slope of its logarithm."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.precision import pinned


def training_times(times: Any) -> jax.Array:
    """Check and convert training times: positive, one or more."""
    times = np.atleast_1d(np.asarray(times, float))
    if times.ndim != 1 or not len(times) or not (np.isfinite(times) & (times > 0)).all():
        raise ValueError(f"times must be positive and finite, one or more; got {times}")
    return jnp.asarray(times, jnp.result_type(float))


@pinned
def fitted_slope(times: jax.Array, errors: jax.Array) -> jax.Array:
    """The least-squares slope of log error against log t; NaN for fewer than two distinct times.

    An error of exactly 0 (relu, when no unit of any sample has crossed its kink) has no logarithm
    and is left out.
    """
    kept = errors > 0
    count = jnp.sum(kept, dtype=times.dtype)
    log_t = jnp.where(kept, jnp.log(times), 0)
    log_t = jnp.where(kept, log_t - log_t.sum() / count, 0)
    log_error = jnp.log(jnp.where(kept, errors, 1))
    return jnp.vdot(log_t, log_error) / jnp.vdot(log_t, log_t)
