"""Warnings name the line of the caller, from wherever inside they come."""

import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import changepoint

FRAMES = np.random.default_rng(0).normal(size=(120, 2))
FAR = 1e6 + FRAMES  # a rounding error of 3 % of its spread
ASKED = {
    "reference": lambda: changepoint.scan(0, FRAMES, reference=60, window=20, test="gmmd"),
    "detector": lambda: changepoint.Detector(0, FRAMES, window=40, test="gmmd"),
    "clock": lambda: changepoint.segment(np.c_[FRAMES, np.arange(120)], n_permutations=19),
    "cast": lambda: ntk.two_sample_test(FAR[:60], FAR[60:], key=0, method="gmmd"),
    "limit law": lambda: ntk.two_sample_test(
        FRAMES[:9], FRAMES[9:19], key=0, method="me", calibration="asymptotic"
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_warning_names_the_caller(name):
    with pytest.warns() as said:
        ASKED[name]()
    assert {one.filename for one in said} == {__file__}
