"""Features φ(x) of a pretrained network, batch by batch: an embedding of samples for any test."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkmmd_jax._lib.checks import whole
from ntkmmd_jax._lib.precision import jit
from ntkmmd_jax._lib.progress import track
from ntkmmd_jax.networks.modules import NetworkLike, as_network, is_module
from ntkmmd_jax.networks.network import Network


def embed(
    embedding: NetworkLike | Callable[[Any], Any],
    samples: Any,
    *,
    batch_size: int = 256,
    progress: bool = True,
) -> np.ndarray:
    """The features of samples, (n, ...) -> (n, ...), batch by batch, in the memory of the host.

    Every batch has the same size, the last one filled up, so that a network is compiled once.

    Args:
        embedding: A pretrained network, `from_flax(module, params=..., method=...)` or an nnx
            module; or any function from a batch of samples to a batch of features, which is called
            as it is: `jax.jit` yours if it can be.
        samples: Anything with a length and slices: an array, or one on disk (`np.memmap`).
        batch_size: Samples to embed at once.
        progress: Whether to show a bar, on a terminal.

    Example:
        >>> embed(lambda images: images.mean((1, 2)), np.ones((10, 8, 8, 3)), batch_size=4).shape
        (10, 3)
    """
    whole("batch_size", batch_size)
    n = len(samples)
    if n == 0:
        raise ValueError("there is no sample to embed")
    function = _function(embedding, samples)
    size, parts = min(batch_size, n), []
    for first in track(range(0, n, size), "embedding", show=progress):
        batch = np.asarray(samples[first : first + size])
        there = len(batch)
        # Filled up with a real sample: a made-up one may be where a network fails.
        batch = np.concatenate([batch, np.repeat(batch[:1], size - there, axis=0)])
        features = np.asarray(function(batch))
        if features.shape[:1] != (size,):
            raise ValueError(
                f"the embedding must give a row of features per sample: it gave shape "
                f"{features.shape} for {batch.shape}"
            )
        parts.append(features[:there])
    return np.concatenate(parts)


def _function(embedding: Any, samples: Any) -> Callable[[np.ndarray], Any]:
    """From a batch of samples to its features."""
    if not (isinstance(embedding, Network | tuple) or is_module(embedding)):
        if not callable(embedding):
            raise TypeError(f"an embedding is a network or a function; got {embedding!r}")
        return embedding
    network = as_network(embedding)
    if not network.pretrained:
        raise ValueError(
            "the network of an embedding must have weights: give them, as "
            "from_flax(module, params=...), or give an nnx module that has been trained"
        )
    params = network.init(jax.random.key(0), jnp.asarray(samples[:1]))
    apply = jit(network.apply)
    return lambda batch: apply(params, batch)
