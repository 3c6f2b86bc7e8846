"""The fully connected network against the same one as a flax module."""

import flax
import jax
import numpy as np
import pytest
from flax import linen

from ntkmmd_jax.networks.fully_connected import MLP
from ntkmmd_jax.networks.layers import Layer, Readout


class InFlax(linen.Module):
    """Layers of these widths, and a readout."""

    widths: tuple[int, ...]
    initialization: str

    @linen.compact
    def __call__(self, x):
        h = x.reshape(x.shape[0], -1)
        for i, width in enumerate(self.widths):
            position = "hidden" if i else "first"
            h = jax.nn.softplus(
                Layer(width, self.initialization, position, name=f"layer_{i + 1}")(h)
            )
        return Readout(self.initialization, name="readout")(h)


@pytest.fixture(params=[False, True])
def separator(request):
    before = flax.config.flax_fix_rng_separator
    flax.config.update("flax_fix_rng_separator", request.param)
    yield
    flax.config.update("flax_fix_rng_separator", before)


@pytest.mark.usefixtures("separator")
@pytest.mark.parametrize("initialization", ["paper", "he", "lecun", "ntk"])
def test_weights_and_values_are_those_of_flax(initialization):
    """To the bit: a key gives the weights that it gave before."""
    x, key = np.random.default_rng(0).normal(size=(5, 3, 2)).astype(np.float32), jax.random.key(4)
    ours, flaxs = MLP((6, 4), "softplus", initialization), InFlax((6, 4), initialization)
    params = ours.init(key, x)
    jax.tree.map(np.testing.assert_array_equal, params, flaxs.init(key, x))
    np.testing.assert_array_equal(ours.apply(params, x), flaxs.apply(params, x))
