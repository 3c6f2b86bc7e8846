"""The convolutional network and its layers, as flax modules.

A layer is z = c·(h W) + b with W ~ N(0, s²) and b = 0, s and c as in `fully_connected`.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen

from ntkmmd_jax._lib.normals import normal
from ntkmmd_jax.networks.activations import Activation, activation_fn
from ntkmmd_jax.networks.fully_connected import layer_scales, readout_scales


def normal_init(std: float) -> Callable[[jax.Array, tuple[int, ...]], jax.Array]:
    """An initializer of weights ~ N(0, s²)."""
    return lambda key, shape: std * normal(key, shape)


class Layer(linen.Module):
    """An affine layer z = c·(h W) + b with W ~ N(0, s²), b = 0 (see `layer_scales`)."""

    features: int
    initialization: str
    position: str = "hidden"  # first, hidden or readout
    kernel_shape: tuple[int, ...] | None = None  # of a convolution

    @linen.compact
    def __call__(self, h: jax.Array) -> jax.Array:
        """Map (n, ..., fan_in) to (n, ..., features)."""
        window = self.kernel_shape or ()
        shape = (*window, h.shape[-1], self.features)
        fan_in = functools.reduce(lambda a, b: a * b, shape[:-1])
        std, scale = layer_scales(self.initialization, self.position, fan_in)
        kernel = self.param("kernel", normal_init(std), shape)
        bias = self.param("bias", linen.initializers.zeros, (self.features,))
        z = convolved(h, kernel) if window else h @ kernel
        return scale * z + bias


def convolved(images: jax.Array, kernel: jax.Array) -> jax.Array:
    """The convolution of images (n, h, w, c) with a kernel (a, b, c, d), without padding.

    Of one image, as when training with batch size 1, by a matrix product over its patches: on a CPU
    five times as fast, and over many networks a batched product and no grouped convolution.
    """
    if len(images) > 1:
        dims = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(images, kernel, (1, 1), "VALID", dimension_numbers=dims)
    a, b, _, d = kernel.shape
    h, w = images.shape[1] - a + 1, images.shape[2] - b + 1
    patches = [images[:, i : i + h, j : j + w] for i in range(a) for j in range(b)]
    return jnp.concatenate(patches, axis=-1) @ kernel.reshape(-1, d)


def max_pooled(images: jax.Array) -> jax.Array:
    """The maximum over 2×2 pixels of images (n, h, w, c); a last odd row or column is dropped.

    Two maxima of halves: the gradient of a window's maximum is slow on a CPU. Equal maxima share
    the gradient.
    """
    n, h, w, c = images.shape
    rows = images[:, : h // 2 * 2, : w // 2 * 2].reshape(n, h // 2, 2, w // 2 * 2, c)
    halves = jnp.maximum(rows[:, :, 0], rows[:, :, 1]).reshape(n, h // 2, w // 2, 2, c)
    return jnp.maximum(halves[:, :, :, 0], halves[:, :, :, 1])


class Readout(linen.Module):
    """The last layer f = c·Σ_k a_k h_k, without a bias: p̂ − q̂ has mass 0 and would not see it."""

    initialization: str

    @linen.compact
    def __call__(self, h: jax.Array) -> jax.Array:
        """Map (n, m) to (n,)."""
        m = h.shape[-1]
        std, scale = readout_scales(self.initialization, m)
        return scale * (h @ self.param("kernel", normal_init(std), (m,)))


class ConvNet(linen.Module):
    """conv 5×5 − relu − maxpool 2×2 per entry of `channels`; a hidden layer; a readout."""

    channels: tuple[int, ...]
    width: int
    activation: Activation
    initialization: str

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map images (n, h, w) or (n, h, w, c) to (n,)."""
        if x.ndim not in (3, 4):
            raise ValueError(f"convnet takes images (n, h, w) or (n, h, w, c); got shape {x.shape}")
        sigma = activation_fn(self.activation)
        h = x[..., None] if x.ndim == 3 else x
        for i, channels in enumerate(self.channels):
            position = "first" if i == 0 else "hidden"
            name = f"conv_{i + 1}"
            if min(h.shape[1:3]) < 6:
                raise ValueError(
                    f"images of shape {x.shape[1:]} are too small for {name} and pooling"
                )
            h = sigma(Layer(channels, self.initialization, position, (5, 5), name=name)(h))
            h = max_pooled(h)
        h = h.reshape(h.shape[0], -1)
        h = sigma(Layer(self.width, self.initialization, name="layer_1")(h))
        return Readout(self.initialization, name="readout")(h)
