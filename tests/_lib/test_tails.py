"""Laws as they are kept in results, against scipy's; through JSON and back."""

import json

import numpy as np
import pytest
import scipy.stats

from ntkmmd_jax._lib.tails import (
    BoundTail,
    ChiSquaredTail,
    FTail,
    NormalTail,
    Tail,
    WeightedTail,
)

T = np.linspace(0.05, 12, 40)
LAWS = {
    "normal": (NormalTail(0.5, 2.0), scipy.stats.norm(0.5, 2).sf),
    "chi2": (ChiSquaredTail(5), scipy.stats.chi2(5).sf),
    "F": (FTail(3, 40), lambda t: scipy.stats.f(3, 36).sf(t * 36 / (38 * 3))),
    "weighted": (
        WeightedTail(np.full(4, 0.5), 0.25),
        lambda t: scipy.stats.chi2(4).sf(2 * t + 0.5),
    ),
    "bound": (BoundTail(1.0, 3.0, 0.2), lambda t: bound(t)),
}


def bound(t):
    return np.clip(4 * np.exp(-(np.maximum((t - 1) / 3, 0) ** 2)), 0.2, 1)


@pytest.mark.parametrize("name", LAWS)
def test_tails(name):
    law, exact = LAWS[name]
    np.testing.assert_allclose(law(T), exact(T), rtol=2e-5, atol=1e-6)  # float32
    assert float(law(T[3])) == pytest.approx(exact(T[3]), rel=2e-5)


@pytest.mark.parametrize("name", LAWS)
def test_through_json_and_back(name):
    law = LAWS[name][0]
    again = Tail.from_dict(json.loads(json.dumps(law.to_dict())))
    assert type(again) is type(law) and again.label == law.label and again.low == law.low
    np.testing.assert_array_equal(again(T), law(T))


@pytest.mark.parametrize("name", LAWS)
def test_pictures_begin_where_nothing_lies_below(name):
    law = LAWS[name][0]
    assert float(law(law.low)) > 0.9999
