import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax._lib.checks import positive, whole


@pytest.mark.parametrize("value", [2, 5, np.int32(3)])
def test_whole_numbers_pass(value):
    whole("window", value, 2)


@pytest.mark.parametrize("value", [1, -3, 2.0, "3", None, True, np.float32(4)])
def test_others_are_refused(value):
    with pytest.raises(ValueError, match="window must be a whole number of at least 2; got"):
        whole("window", value, 2)


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan"), np.float32(0)])
def test_positive_and_finite(value):
    with pytest.raises(ValueError, match="rate must be positive and finite; got"):
        positive("rate", value)
    positive("rate", 0.1)
    positive("rate", jnp.zeros(()))  # a leaf: checked by its maker
