"""Difference quotients across kinks, against plain ones in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

from ntkmmd_jax._lib.quotient import has_kinks, quadrature, quotient, remainder
from ntkmmd_jax.networks.activations import softplus

X = np.random.default_rng(0).normal(size=(6, 4, 4)).astype(np.float32)
AT, DIRECTION = (
    np.random.default_rng(seed).normal(size=(4, 4)).astype(np.float32) for seed in (1, 2)
)
TIMES = np.float32([1.0, 1e-2, 1e-4])


@jax.custom_jvp
def folded(u, mask):
    return jnp.where(mask, jnp.abs(u), u)


@folded.defjvp
def folded_jvp(primals, tangents):
    (u, mask), (du, _) = primals, tangents
    return folded(u, mask), jnp.where(mask, jnp.sign(u) * du, du)


def pooled(u):
    return linen.max_pool(u[..., None], (2, 2), (2, 2), padding="SAME")


FUNCTIONS = {
    "relu": jax.nn.relu,
    "leaky_relu": jax.nn.leaky_relu,
    "elu": jax.nn.elu,
    "relu6": lambda u: jax.nn.relu6(6 * u),
    "clip": lambda u: jnp.clip(u, -0.3, 0.4),
    "minimum and product": lambda u: jnp.minimum(u, 0.5 * u[:1]).prod(-1),
    "max over axes": lambda u: u.max(-1) - u.min((0, 1)),
    "argmax": lambda u: jnp.take_along_axis(u, jnp.argmax(u**2, -1, keepdims=True), -1),
    "steps": lambda u: jnp.tanh(jnp.sign(u)) + jnp.floor(u) + (u > 0.1).astype(u.dtype),
    "softplus after max": lambda u: softplus(jnp.maximum(u, u[::-1])),
    "softmax after relu": lambda u: jax.nn.softmax(jax.nn.relu(u)),
    "normalised relu": lambda u: (lambda h: h / jnp.sqrt(1 + (h**2).sum(-1)))(
        jax.nn.relu(u).sum(0)
    ),
    "custom": lambda u: folded(u, np.arange(4) > 1),
    "remat and vmap": lambda u: jax.vmap(jax.checkpoint(lambda row: jax.nn.relu(row).sum()))(u),
    "pool": pooled,
    "gradient of a pool": lambda u: jax.grad(lambda u: (pooled(u) ** 2).sum())(u),
    "gradient of a max": lambda u: jax.grad(lambda u: (u.max(-1) * u.max(1)).sum())(u),
    "gradient of relu": lambda u: jax.grad(lambda u: (jax.nn.relu(u) ** 2).sum())(u),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_the_plain_quotient(name):
    """q and r at all times at once: under jit, vmap and a traced t."""

    def function(theta, x=X):
        return FUNCTIONS[name](x @ theta)

    assert has_kinks(function, AT)
    both = jax.jit(
        jax.vmap(
            lambda t: (quotient(function, AT, DIRECTION, t), remainder(function, AT, DIRECTION, t))
        )
    )
    q, r = (np.asarray(part, np.float64) for part in both(TIMES))
    with jax.enable_x64(True):
        at, v, x = (jnp.asarray(leaf, jnp.float64) for leaf in (AT, DIRECTION, X))

        @jax.jit
        def plain(t):
            slope = jax.jvp(lambda theta: function(theta, x), (at,), (v,))[1]
            expected = (function(at + t * v, x) - function(at, x)) / t
            return expected, expected - slope

        expected, rest = map(np.asarray, jax.vmap(plain)(np.float64(TIMES)))
    for i in range(len(TIMES)):
        scale = np.abs(expected[i]).max()
        np.testing.assert_allclose(q[i], expected[i], atol=1e-5 * scale)
        np.testing.assert_allclose(r[i], rest[i], atol=1e-5 * scale)


def test_the_remainder_does_not_cancel():
    """Of (relu(u) + 1)² with no kink on the way, r = t (du)² of the active ones, to 1e-5 of it."""
    u, du = jnp.float32([0.7, -0.4, 1.3]), jnp.float32([0.3, 0.2, -0.9])
    r = remainder(lambda u: (jax.nn.relu(u) + 1) ** 2, u, du, 1e-6)
    np.testing.assert_allclose(r, 1e-6 * np.float64([0.3, 0, 0.9]) ** 2, rtol=1e-5)


def test_ties():
    """From a tie the larger one is followed; JAX's derivative there is 0 of relu, 1/2 of max."""
    zero, du = jnp.zeros(2), jnp.float32([0.3, -0.2])
    np.testing.assert_array_equal(quotient(jax.nn.relu, zero, du, 1e-3), np.float32([0.3, 0]))
    np.testing.assert_array_equal(remainder(jax.nn.relu, zero, du, 1e-3), np.float32([0.3, 0]))
    larger = lambda u: jnp.maximum(u, 0)  # noqa: E731
    np.testing.assert_array_equal(quotient(larger, zero, du, 1e-3), np.float32([0.3, 0]))
    np.testing.assert_array_equal(remainder(larger, zero, du, 1e-3), np.float32([0.15, 0.1]))
    np.testing.assert_array_equal(quotient(larger, zero, du, jnp.zeros(())), du / 2)


def test_a_small_change_beside_large_values():
    """100 and 100 + 1e-6 u are one number in float32, but the difference knows which is larger."""
    large, du = jnp.full(3, 100.0), jnp.float32([0.5, -0.5, 0])
    found = quotient(lambda u: jnp.maximum(u, 100.0), large, du, 1e-6)
    np.testing.assert_array_equal(found, np.float32([0.5, 0, 0]))


SMOOTH = "softplus gelu silu sigmoid tanh mish softmax log_softmax squareplus"
KINKED = "relu leaky_relu elu selu relu6 hard_tanh"


@pytest.mark.parametrize("name", f"{SMOOTH} {KINKED}".split())
def test_which_have_kinks(name):
    assert has_kinks(getattr(jax.nn, name), X) == (name in KINKED.split())


def test_only_what_moves_has_kinks():
    assert not has_kinks(softplus, X)
    assert not has_kinks(lambda u: jnp.where(X > 0, u, jnp.tanh(u)) + jnp.abs(X), AT[:1])
    assert not has_kinks(lambda u: jax.lax.scan(lambda c, _: (jnp.sin(c), None), u, length=2)[0], X)
    assert has_kinks(lambda u: jax.lax.scan(lambda c, _: (abs(c), None), u, length=2)[0], X)
    assert has_kinks(lambda u: jnp.where(u > 0, u, 2 * u), X)


def test_what_cannot_be_passed_is_said():
    function = lambda u: jnp.sort(u, axis=-1)  # noqa: E731
    with pytest.warns(UserWarning, match="cannot pass the primitive 'sort'"):
        found = quotient(function, AT, DIRECTION, 0.1)
    np.testing.assert_array_equal(found, quadrature.mean_slope(function, AT, DIRECTION, 0.1))
    with pytest.warns(UserWarning, match="off by some percent"):
        remainder(function, AT, DIRECTION, 0.1)
