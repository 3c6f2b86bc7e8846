"""The asymptotic null law of the symmetric statistic: a weighted sum of χ² variables.

Under H0, T̂_NTK ≈ Σ_k a_k χ²_1 with a_k = (1/n_X + 1/n_Y) λ̃_k, where λ̃_k are the eigenvalues of
the centred kernel in L²(p), estimated by those of HKH/n on the pooled sample (Gretton et al. 2009,
2012). Tail and quantile of such a sum are in `_lib/laws.py`.
"""

import jax
import jax.numpy as jnp

from ntkmmd_jax.calibration import centred


def asymptotic_weights(kernel: jax.Array, n_x: int, n_y: int) -> jax.Array:
    """The a_k, ascending, from the kernel matrix of the pooled sample; shape (n,).

    Args:
        kernel: K of all points, shape (n, n).
        n_x: Samples of p.
        n_y: Samples of q.
    """
    return centred_weights(centred(kernel), n_x, n_y)


def centred_weights(kernel: jax.Array, n_x: int, n_y: int) -> jax.Array:
    """The a_k from a kernel matrix that is centred already."""
    eigenvalues = jnp.linalg.eigvalsh(kernel) / (n_x + n_y)
    return (1 / n_x + 1 / n_y) * jnp.maximum(eigenvalues, 0)
