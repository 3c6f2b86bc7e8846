import numpy as np
import pytest
import scipy.optimize

from ntkmmd_jax.changepoint import score, score_alarms


def test_by_hand():
    found = score([98, 150, 203], [100, 200, 250, 280], margin=5, n=300)
    assert found.pairs == ((98, 100), (203, 200)) and found.errors == [-2, 3]
    assert (found.precision, found.recall) == (2 / 3, 2 / 4)
    assert found.f1 == pytest.approx(2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))


def test_covering_by_hand():
    """Segments [0, 100), [100, 300) by [0, 150), [150, 300): Jaccard 100/150 and 150/200."""
    assert score([150], [100], n=300).covering == pytest.approx((100 * 2 / 3 + 200 * 3 / 4) / 300)
    assert score([100], [100], n=300).covering == 1
    assert score([], [100], n=300).covering == pytest.approx((100 / 3 + 200 * 2 / 3) / 300)
    assert score([100], [100]).covering is None


def test_nothing_found_and_nothing_true():
    empty = score([], [], n=10)
    assert (empty.f1, empty.precision, empty.recall, empty.covering) == (1, 1, 1, 1)
    assert score([5], [], n=10).f1 == 0 and score([5], [], n=10).recall == 1
    assert score([], [5], n=10).f1 == 0 and score([], [5], n=10).precision == 1


def test_pairs_are_as_many_as_can_be():
    """Against the assignment problem."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        found, true = (np.unique(rng.integers(1, 60, size=rng.integers(0, 12))) for _ in range(2))
        near = (np.abs(found[:, None] - true) <= 4).astype(int)
        rows, columns = scipy.optimize.linear_sum_assignment(near, maximize=True)
        assert len(score(found, true, margin=4).pairs) == near[rows, columns].sum()


def test_one_found_change_is_right_for_one_true_only():
    assert score([100], [98, 102], margin=5).recall == 0.5
    assert score([98, 102], [100], margin=5).precision == 0.5


def test_alarms_and_their_delays():
    found = score_alarms([40, 103, 110, 240], [100, 200, 300])
    assert found.delays == (4, 41, None) and found.false_alarms == 1 and found.missed == 1
    strict = score_alarms([40, 103, 110, 240], [100, 200, 300], within=20)
    assert strict.delays == (4, None, None) and strict.false_alarms == 2
    assert score_alarms([100], [100]).delays == (1,)  # as in `run_lengths`


@pytest.mark.parametrize(
    ("found", "true", "options", "message"),
    [
        ([10.5], [10], {}, "found changes are whole frames"),
        ([10, 10], [10], {}, "found changes: some come twice"),
        ([10], [0], {}, "true changes lie from 1"),
        ([10], [5], {"n": 10}, "found changes lie from 1 to before 10"),
        ([10], [5], {"margin": -1}, "margin must be a whole number"),
    ],
)
def test_what_cannot_be_a_change_is_refused(found, true, options, message):
    with pytest.raises(ValueError, match=message):
        score(found, true, **options)
