"""The fused test: its members against second routes, its level, and what it says."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.bins import Bins
from ntkmmd_jax.measure import signed_measure
from ntkmmd_jax.twosample.evidence import Pool
from ntkmmd_jax.twosample.members import Seen
from ntkmmd_jax.twosample.soft_maximum import fused
from tests.conftest import LONG, binomial_band, rejection_rate

SMALL = (ntk.Scale(0.25), ntk.Scale(0.5, law="cauchy", times=(0.0, 8.0)), ntk.Tangent(ntk.mlp(8)))


@pytest.fixture(scope="module")
def samples():
    x = jax.random.normal(jax.random.key(0), (30, 2))
    return x, 1.5 * jax.random.normal(jax.random.key(1), (21, 2)) + 0.7


def small(**options):
    return ntk.FusedNTK(SMALL, **{"n_permutations": 99, **options})


MEMBERS = {
    "gaussian": ntk.Scale(0.3, times=(0.0, 8.0, 1024.0)),
    "laplace": ntk.Scale(0.6, law="cauchy", times=(8.0,)),
    "network": ntk.Tangent(ntk.mlp(8)),
    "several initialisations": ntk.Tangent(ntk.mlp(8), initializations=3),
    "network at times": ntk.Tangent(ntk.mlp(64, activation="relu"), times=(0.0, 64.0)),
    "few parameters at times": ntk.Tangent(ntk.fourier(32), times=(0.0, 64.0)),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_every_labelling_against_a_single_measure(samples, name):
    """T of a row of the pool, bins and rest included, is T of the points with those labels."""
    member, sizes = MEMBERS[name], (30, 21)
    bins = Bins(*sizes, 4, 7, 5)
    relabelling = Pool(40).relabel(jax.random.key(3), samples, bins=bins)
    placed = relabelling.placed(jnp.concatenate(samples))
    prepared = member.prepare(jax.random.key(4), Seen(placed, placed[::2]))
    values = prepared.labelled(relabelling, placed, signed_measure(*samples))[0]
    assert values.shape == (41, len(member.names)) and (values > 0).all()
    for b in (0, 7, 40):
        labels = np.concatenate([np.repeat(relabelling.labels[b], 4), bins.rest > 0])
        order = np.argsort(~labels, kind="stable")
        measure = signed_measure(placed[order[:30]], placed[order[30:]])
        v = prepared.moved(measure)
        np.testing.assert_allclose(values[b], prepared.statistics(v), rtol=2e-3)
        weighed = prepared.weighed(prepared.table(measure.points), measure.weights)
        np.testing.assert_allclose(weighed, prepared.statistics(v), rtol=2e-3)
        # The witness integrates to T: Σ_t share_t T(t) = Σ w_i g(z_i).
        shares = jnp.arange(1.0, 1 + len(member.names))
        witness = prepared.witness(v, shares, (2,))
        np.testing.assert_allclose(
            jnp.vdot(measure.weights, witness(measure.points)), shares @ values[b], rtol=2e-3
        )


def test_moments_are_those_of_labellings(samples):
    """Mean of T over the pool, (1/n_X + 1/n_Y) Σ a, to Monte Carlo error."""
    relabelling = Pool(4000).relabel(jax.random.key(3), samples)
    placed = relabelling.placed(jnp.concatenate(samples))
    for member in (ntk.Scale(0.3, times=(0.0, 8.0, 1024.0)), ntk.Tangent(ntk.mlp(8))):
        prepared = member.prepare(jax.random.key(4), Seen(placed, placed))
        values = prepared.labelled(relabelling, placed, signed_measure(*samples))[0]
        expected = (1 / 30 + 1 / 21) * prepared.moments()[0] * 51 / 50  # without replacement
        np.testing.assert_allclose(values.mean(0), expected, rtol=0.03)


def test_one_statistic_by_three_routes(samples):
    """From the samples, from what each of them adds, and from a table of their points."""
    (x, y), test = samples, small()
    points = jnp.concatenate(samples)
    prepared = test.prepare(jax.random.key(3), points)
    expected = test.statistic(jax.random.key(4), prepared, x, y)
    parts = test.moved(prepared, x), test.moved(prepared, y)
    np.testing.assert_allclose(test.apart(prepared, *parts, 30, 21), expected, rtol=1e-3)
    weights = jnp.repeat(jnp.asarray([1 / 30, -1 / 21]), jnp.asarray([30, 21]))
    np.testing.assert_allclose(test.tabled(prepared, points)(weights, 30, 21), expected, rtol=1e-3)


def test_the_soft_maximum():
    scores = jnp.asarray([[0.0, 3.0, -1.0], [2.0, 2.0, 2.0]])
    np.testing.assert_allclose(fused(scores, 2.0)[1], 2.0, rtol=1e-6)
    np.testing.assert_allclose(fused(scores, 50.0)[0], 3.0, atol=0.03)


NULLS = {
    "equal": (lambda k, n: jax.random.normal(k, (n, 2)), 20, 20, None),
    "unequal, bins that divide nothing": (lambda k, n: jax.random.normal(k, (n, 2)), 37, 61, 17),
    "eight bins": (lambda k, n: jax.random.normal(k, (n, 2)), 33, 33, 8),
    "ties": (lambda k, n: jax.random.bernoulli(k, 0.4, (n, 2)).astype(jnp.float32), 20, 17, 12),
    "heavy tails": (lambda k, n: jax.random.cauchy(k, (n, 2)), 23, 20, None),
    "d = 1": (lambda k, n: jax.random.exponential(k, (n, 1)), 25, 20, 15),
    "d = 500": (lambda k, n: jax.random.normal(k, (n, 500)), 15, 20, None),
}


@pytest.mark.parametrize("case", NULLS)
def test_level(case):
    """At most the band's upper end; without ties, inside of the band. 2,000 replicas."""
    draw, n_x, n_y, bins = NULLS[case]

    def sampler(key, n_x, n_y):
        z = draw(key, n_x + n_y)
        return z[:n_x], z[n_x:]

    test = small(bins=bins, landmarks=16, shared_pool=True)
    if case == "d = 500":
        test = dataclasses.replace(test, members=SMALL[:1])
    rate = rejection_rate(test, sampler, n_x, n_y, n_runs=2000)
    band = binomial_band(0.05, 2000)
    assert rate < 0.05 + band
    assert rate > 0.05 - band or case == "ties"


@pytest.mark.parametrize("bins", [8, 16, None])
def test_level_of_the_symmetric_test_on_bins(bins):
    def sampler(key, n_x, n_y):
        return jnp.split(jax.random.normal(key, (n_x + n_y, 3)), [n_x])

    test = ntk.NTKMMD(ntk.mlp(8), train_fraction=None, bins=bins, n_permutations=99)
    rate = rejection_rate(test, sampler, 41, 30, n_runs=2000)
    assert abs(rate - 0.05) < binomial_band(0.05, 2000)


def test_what_spoke(samples):
    """The table of members is in the result, its JSON and its file; the loudest comes first."""
    found = ntk.two_sample_test(*samples, method=small())
    assert found.members.names == small().names and len(found.members.names) == 6
    rows = found.members.rows()
    assert [row["zscore"] for row in rows] == sorted((r["zscore"] for r in rows), reverse=True)
    assert found.to_dict()["members"] == rows
    assert all(0 < row["pvalue"] <= 1 for row in rows)
    assert rows[0]["member"] in str(found.members)


def test_saved_and_loaded(samples, tmp_path):
    found = ntk.two_sample_test(*samples, method=small())
    again = ntk.TwoSampleResult.load(found.save(tmp_path / "result.npz"))
    np.testing.assert_array_equal(again.witness(samples[0]), found.witness(samples[0]))
    assert again.members.rows() == found.members.rows()


def test_members_of_a_users_own(samples):
    """Networks stand for their tangent kernels; a list does as well as a tuple."""
    network = (
        lambda key, x: jax.random.normal(key, (x.shape[1],)),
        lambda w, x: jnp.tanh(x @ w),
    )
    found = ntk.FusedNTK([ntk.mlp(8), network], n_permutations=99)(0, *samples)
    assert found.members.names == ("softplus mlp, t = 0", "network, t = 0")
    assert found.reject


def test_a_constant_member_says_nothing(samples):
    """It has z = 0 and a p-value of 1, and the others decide alone."""
    silent = (lambda key, x: jnp.ones(1), lambda w, x: jnp.full(len(x), 2.0) * w[0])
    alone = ntk.FusedNTK([ntk.mlp(8)], n_permutations=99)
    both = ntk.FusedNTK([ntk.mlp(8), silent], n_permutations=99)
    found = both(0, *samples)
    assert found.members.zscore[1] == 0 and found.members.pvalue[1] == 1
    assert found.reject == alone(0, *samples).reject
    with pytest.warns(UserWarning, match="rejects no labelling"):
        assert ntk.FusedNTK([silent], n_permutations=99)(0, *samples).pvalue == 1


def test_units_do_not_matter(samples):
    x, y = samples
    plain = ntk.two_sample_test(x, y, method=small())
    scale, offset = np.asarray([1000.0, 1e-3]), np.asarray([5.0, -2.0])
    other = ntk.two_sample_test(x * scale + offset, y * scale + offset, method=small())
    # In units of z; the longest time, 2^20, sees eigenvalues of 5e-7, and so rounding.
    np.testing.assert_allclose(other.null, plain.null, atol=0.1)
    assert abs(other.pvalue - plain.pvalue) <= 0.02


def test_the_verdict_hardly_depends_on_the_key(samples):
    x = jax.random.normal(jax.random.key(8), (20, 3))
    y = jax.random.normal(jax.random.key(9), (20, 3)) + 0.6
    run = jax.jit(jax.vmap(lambda k: ntk.FusedNTK()(k, x, y).pvalue), compiler_options=LONG)
    pvalues = run(jax.random.split(jax.random.key(0), 10))
    # By permutations alone, the standard deviation at p is √(p (1 − p) / 400).
    p = float(pvalues.mean())
    assert pvalues.std() < 3 * np.sqrt(p * (1 - p) / 400)


def test_power_where_scales_matter():
    """Blobs at n = 250: the kernel of the median distance stays near its level there."""
    tests = {"ntk-fuse": ntk.FusedNTK(n_permutations=99), "gmmd": ntk.GaussianMMD()}
    options = {"n": 250, "n_runs": 12, "progress": False}
    found = ntk.power_sweep(0, tests, ntk.datasets.blobs, {"strength": [1.0]}, **options)
    ours, median = found.rows
    assert ours.rejections >= 10 and median.rejections <= 5


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: ntk.FusedNTK(()), "the collection is empty"),
        (lambda: ntk.FusedNTK(landmarks=1), "landmarks must be a whole number"),
        (lambda: ntk.FusedNTK(sharpness=0.0), "sharpness must be positive"),
        (lambda: ntk.FusedNTK(bins=3), "bins must be a whole number of at least 4"),
        (lambda: ntk.Scale(1.5), "position must lie in"),
        (lambda: ntk.Scale(law="levy"), "unknown law 'levy'"),
        (lambda: ntk.Scale(times=()), "one at least"),
        (lambda: ntk.Scale(times=(-1.0,)), "times must be numbers between 0"),
        (lambda: ntk.Tangent(ntk.mlp(8), initializations=0), "initializations must be"),
    ],
)
def test_bad_options(build, said):
    with pytest.raises(ValueError, match=said):
        build()


def test_a_member_of_other_points(samples):
    """It says so before anything runs."""
    other = (lambda key, x: jnp.ones((5,)), lambda w, x: x @ w)
    with pytest.raises(ValueError, match="does not take samples of shape"):
        ntk.FusedNTK([ntk.mlp(8), other])(0, *samples)
