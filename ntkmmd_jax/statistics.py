"""The statistics: squared MMD, symmetric and asymmetric, from scores and from the kernel matrix.

T̂_NTK = Σ_ij w_i K(z_i, z_j) w_j = Σ_i w_i g(z_i)           one measure (biased; or unbiased)
T̂_a   = Σ_ij w'_i K(z'_i, z_j) w_j = Σ_i w'_i g(z'_i)       test measure w', training measure w
"""

import jax
import jax.numpy as jnp


def mean_gap(scores: jax.Array, weights: jax.Array) -> jax.Array:
    """Σ w_i g(z_i): the mean score on x minus that on y. T̂_net and T̂_a,net if g is trained."""
    return jnp.vdot(weights, scores)


def mmd2(kernel: jax.Array, weights: jax.Array) -> jax.Array:
    """wᵀ K w, the biased squared MMD, for weights (n,) or a batch of them (b, n)."""
    return asymmetric_mmd2(kernel, weights, weights)


def asymmetric_mmd2(kernel: jax.Array, test: jax.Array, train: jax.Array) -> jax.Array:
    """w'ᵀ K w of test weights (…, n') and training weights (…, n) with K (n', n)."""
    return jnp.sum((test @ kernel) * train, axis=-1)


def unbiased_mmd2(kernel: jax.Array, labels: jax.Array) -> jax.Array:
    """The unbiased squared MMD: without the diagonal, normalised by 1/n(n−1).

    Args:
        kernel: K of the pooled sample, shape (n, n).
        labels: True on x and False on y, shape (..., n).
    """
    x = labels.astype(kernel.dtype)
    y = 1 - x
    n_x, n_y = x.sum(-1), y.sum(-1)
    diagonal, columns = jnp.diagonal(kernel), kernel.sum(0)
    xx = asymmetric_mmd2(kernel, x, x)
    xy = x @ columns - xx
    yy = columns.sum() - xx - 2 * xy
    return (
        (xx - x @ diagonal) / (n_x * (n_x - 1))
        + (yy - y @ diagonal) / (n_y * (n_y - 1))
        - 2 * xy / (n_x * n_y)
    )
