import numpy as np
import scipy.stats

from ntkmmd_jax._lib.ranks import normal_scores


def test_normal_scores_are_those_of_ranks():
    values = np.array([[3.0, 1], [1, 1], [2, 1], [2, 5]])
    ranks = scipy.stats.rankdata(values, axis=0)
    wanted = scipy.stats.norm.ppf((ranks - 0.5) / 4)
    np.testing.assert_allclose(normal_scores(values), wanted, atol=1e-6)
