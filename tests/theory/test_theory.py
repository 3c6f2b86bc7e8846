"""Theorems, moments and drift: against cases computed by hand, and in simulation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import theory
from ntkmmd_jax.kernels import gaussian_kernel
from tests.conftest import rejection_rate

GIVEN = {"balance": 0.25, "nu": 0.04, "level": 0.05}
CN = 0.25 * 10_000


def test_thresholds_by_hand():
    full = theory.FULL.guarantee(10_000, **GIVEN)
    root = math.sqrt(0.04 / CN)
    first = math.sqrt(8 * math.log(80))
    assert full.threshold == pytest.approx(4 * first * root, rel=1e-6)
    symmetric = theory.SYMMETRIC.guarantee(10_000, **GIVEN)
    assert symmetric.threshold == pytest.approx(4 / CN + 4 * first * root, rel=1e-6)
    test_only = theory.TEST_ONLY.guarantee(10_000, **GIVEN, gamma=0.1)
    held_out, event = math.sqrt(4 * math.log(80)), math.sqrt(4 * math.log(80))
    expected = 4 * (math.sqrt(1.1) * held_out + event) * root
    assert test_only.threshold == pytest.approx(expected, rel=1e-6)
    assert full.probability == 1 and test_only.probability == pytest.approx(0.9)


def test_conditions_are_data():
    good = theory.SYMMETRIC.guarantee(10_000, **GIVEN, delta=0.5)
    assert good.valid and all(good.conditions.values()) and len(good.conditions) == 3
    small = theory.SYMMETRIC.guarantee(40, **GIVEN, delta=0.5)  # λ_1 = 5.9 > 3 √(0.04 · 10) = 1.9
    assert not small.valid and small.power == 0
    weak = theory.SYMMETRIC.guarantee(10_000, **GIVEN, delta=0.003)  # 8/δ = 2667 > cn
    assert weak.valid and not weak.conditions["n > 8 / (c δ_K)"] and weak.power == 0
    early = theory.TEST_ONLY.guarantee(10_000, **GIVEN)  # (λ_(1)/0.004)² = 1.3e6 > 8 cn
    assert not early.valid


@pytest.mark.parametrize(
    ("theorem", "by_hand"),
    [
        (theory.SYMMETRIC, lambda a, b: 0.04 / 0.2**2 * (8 * (a + b)) ** 2 / 0.25),
        (theory.FULL, lambda a, b: 0.04 / 0.2**2 * (4 * (a + b)) ** 2 / 0.25),
    ],
)
def test_sample_sizes_by_hand_and_back(theorem, by_hand):
    first, second = math.sqrt(8 * math.log(80)), math.sqrt(8 * math.log(theorem.misses / 0.2))
    n = theorem.sample_size(0.8, delta=0.2, **GIVEN)
    assert n == math.floor(by_hand(first, second)) + 1
    assert theorem.guarantee(n, **GIVEN, delta=0.2).power >= 0.8
    assert theorem.guarantee(n - 2, **GIVEN, delta=0.2).power < 0.8


def test_sample_size_of_test_only_bootstrap():
    n = theory.TEST_ONLY.sample_size(0.8, delta=0.2, **GIVEN, gamma=0.1)
    event = math.sqrt(4 * math.log(80))
    assert n == math.floor((event / 0.004) ** 2 / 8 / 0.25) + 1  # here this condition rules
    assert theory.TEST_ONLY.guarantee(n, **GIVEN, gamma=0.1, delta=0.2).power >= 0.8


@pytest.mark.parametrize("theorem", [theory.SYMMETRIC, theory.TEST_ONLY, theory.FULL])
def test_pvalue_inverts_the_threshold(theorem):
    for level in (0.5, 0.05, 1e-4):
        threshold = theorem.threshold(CN, 0.3, level)
        assert float(theorem.pvalue(threshold, CN, 0.3)) == pytest.approx(level, rel=1e-3)
    assert float(theorem.pvalue(0.0, CN, 0.3)) == 1
    # Beyond λ = 3 √(ν c n) the bound says no more.
    assert float(theorem.pvalue(100.0, 10, 0.3)) == pytest.approx(
        min(1, 4 * math.exp(-9 * 0.3 * 10 / theorem.exponent)), rel=1e-4
    )


def test_bad_constants_are_refused():
    assert theory.balance(50, 151) == pytest.approx(49 / 201)
    assert theory.balance(25, 25, 75, 76) == pytest.approx(25 / 201)
    with pytest.raises(ValueError, match="balance takes"):
        theory.balance(50)
    with pytest.raises(ValueError, match="nu must lie in"):
        theory.FULL.guarantee(100, balance=0.2, nu=1.5)
    with pytest.raises(ValueError, match="delta must be positive"):
        theory.FULL.sample_size(0.9, delta=0.0, balance=0.2, nu=0.5)


def kernel(a, b):
    return 2.0 * gaussian_kernel(a, b, 1.0)


@pytest.mark.parametrize("tile", [4, 1024])
def test_moments_against_plain_sums(monkeypatch, tile):
    monkeypatch.setattr("ntkmmd_jax.theory.moments._TILE", tile)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(11, 2)), rng.normal(size=(7, 2)) + 0.5
    moments = theory.kernel_moments(kernel, x, y)
    k = lambda a, b: np.exp(-0.5 * ((a[:, None] - b) ** 2).sum(-1))  # noqa: E731
    off = lambda m: m[~np.eye(len(m), dtype=bool)]  # noqa: E731
    kxx, kxy, kyy = k(x, x), k(x, y), k(y, y)
    assert float(moments.scale) == pytest.approx(2.0)
    np.testing.assert_allclose(moments.nu_pp.value, np.mean(off(kxx) ** 2), rtol=1e-5)
    np.testing.assert_allclose(moments.nu_pq.value, np.mean(kxy**2), rtol=1e-5)
    np.testing.assert_allclose(moments.nu_qq.value, np.mean(off(kyy) ** 2), rtol=1e-5)
    delta = off(kxx).mean() + off(kyy).mean() - 2 * kxy.mean()
    np.testing.assert_allclose(moments.delta.value, delta, rtol=1e-4)
    rows = (kxx**2).sum(1) - 1
    np.testing.assert_allclose(
        moments.nu_pp.error, 2 * np.std(rows / 10, ddof=1) / np.sqrt(11), rtol=1e-4
    )


def test_moments_are_unbiased_with_honest_errors():
    """On 400 draws, each mean is the truth, and the errors are the spread."""

    @jax.jit
    @jax.vmap
    def draw(key):
        z = jax.random.normal(key, (80, 1))
        return theory.kernel_moments(gaussian_one, z[:40], 2 * z[40:])

    def gaussian_one(a, b):
        return gaussian_kernel(a, b, 1.0)

    m = draw(jax.random.split(jax.random.key(1), 400))
    # z − z' ~ N(0, v): E exp(−(z−z')²/2) = (1 + v)^−½, and its square has E = (1 + 2v)^−½.
    delta = 3**-0.5 + 9**-0.5 - 2 * 6**-0.5
    for found, truth in (
        (m.nu_pp, 5**-0.5),
        (m.nu_pq, 11**-0.5),
        (m.nu_qq, 17**-0.5),
        (m.delta, delta),
    ):
        spread = float(jnp.std(found.value))
        assert abs(float(found.value.mean()) - truth) < 4 * spread / 20
        assert float(jnp.mean(found.error)) == pytest.approx(spread, rel=0.2)


def test_theory_is_conservative_under_h0():
    def sampler(key, n_x, n_y):
        z = jax.random.normal(key, (n_x + n_y, 2))
        return z[:n_x], z[n_x:]

    for fraction in (0.5, None):
        test = ntk.NTKMMD(network=ntk.mlp(16), calibration="theory", train_fraction=fraction)
        assert rejection_rate(test, sampler, 40, 30, n_runs=300, batch=50) == 0


def test_the_guaranteed_power_is_reached():
    """At the theorem's n, a test of two separate clusters rejects at least as often as promised."""
    clusters = jnp.asarray([[3.0, 0.0], [-3.0, 0.0]])

    def sampler(key, n_x, n_y):
        z = 0.3 * jax.random.normal(key, (n_x + n_y, 2))
        return z[:n_x] + clusters[0], z[n_x:] + clusters[1]

    network = ntk.mlp(64, activation="tanh")
    x, y = sampler(jax.random.key(0), 400, 400)
    params = network.init(jax.random.key(1), x)
    moments = theory.kernel_moments(theory.ntk(network, params), x, y)
    given = {"balance": 0.45, "nu": float(moments.bound()), "delta": float(moments.delta.value)}
    n = theory.SYMMETRIC.sample_size(0.8, **given)
    guarantee = theory.SYMMETRIC.guarantee(n, **given)
    assert guarantee.power >= 0.8 and n < 100_000

    @jax.jit
    def rejected(key):
        half = n // 2
        measure = ntk.signed_measure(*sampler(key, half, half))
        scores = ntk.exact_witness(network, params, measure)(measure.points)
        return jnp.vdot(scores, measure.weights) / moments.scale > guarantee.threshold

    assert np.mean([rejected(key) for key in jax.random.split(jax.random.key(2), 20)]) >= 0.8


@pytest.fixture(scope="module")
def samples():
    return ntk.datasets.covariance_shift(jax.random.key(4), 40, 30, rho=0.5, dim=5)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kernel_drift_is_of_first_order(samples, seed):
    drift = theory.kernel_drift(seed, *samples, network=ntk.mlp(64))
    assert 0.9 < float(drift.order) < 1.1
    assert "fitted order" in repr(drift)


def test_kernel_drift_is_the_change_of_the_kernel(samples):
    network = ntk.mlp(64)
    drift = theory.kernel_drift(0, *samples, network=network, times=[1.0])
    k_init, k_train = jax.random.split(jax.random.key(0))
    params = network.init(k_init, samples[0])
    witness = ntk.trained_witness(
        k_train, network, params, ntk.signed_measure(*samples), ntk.SGD(1.0)
    )
    points = jnp.concatenate([samples[0][:32], samples[1][:32]])
    before, after = (ntk.empirical_ntk(network, at, points) for at in (params, witness.params_at()))
    assert float(drift.drift[0]) == pytest.approx(float(jnp.abs(after - before).max()), rel=1e-2)


def test_kernel_drift_across_kinks(samples):
    """relu: against the kernels in float64, from the same θ0 and the same trained velocity."""
    network, times = ntk.mlp(16, activation="relu"), [1.0, 1e-1, 1e-2]
    drift = theory.kernel_drift(0, *samples, network=network, times=times)
    k_init, k_train = jax.random.split(jax.random.key(0))
    params, measure = network.init(k_init, samples[0]), ntk.signed_measure(*samples)
    points = np.concatenate([samples[0][:32], samples[1][:32]]).astype(np.float64)
    layer, readout = params["params"]["layer_1"], params["params"]["readout"]["kernel"]
    u, gram = points @ np.float64(layer["kernel"]), points @ points.T + 1

    def kernel(u):
        active = (u > 0) * np.float64(readout)
        return gram * (active @ active.T)

    for time, found in zip(times, drift.drift, strict=True):
        v = ntk.trained_witness(k_train, network, params, measure, ntk.SGD(time)).velocity
        v = {name: np.float64(leaf) for name, leaf in v["params"]["layer_1"].items()}
        after = kernel(u + time * (points @ v["kernel"] + v["bias"]))
        expected = np.abs(after - kernel(u)).max()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_lemma_constants_of_the_two_layer_network(samples):
    """|∇f|² = K(x, x), and D²f is block diagonal: its norm is max_k |a_k σ''(u_k)| (|x|² + 1)."""
    network, x = ntk.mlp(16), samples[0]
    params = network.init(jax.random.key(0), x)
    found = theory.lemma_constants(network, params, x, radius=0.5)
    layer, a = params["params"]["layer_1"], params["params"]["readout"]["kernel"]
    s = jax.nn.sigmoid(x @ layer["kernel"])
    reach = jnp.sum(x**2, axis=1) + 1
    hessian = jnp.max(jnp.abs(a) * s * (1 - s) * reach[:, None])
    gradient = jnp.sqrt(jnp.max(jnp.diagonal(ntk.empirical_ntk(network, params, x))))
    assert float(found.gradient) == pytest.approx(float(gradient), rel=1e-4)
    assert float(found.hessian) == pytest.approx(float(hessian), rel=1e-3)
    assert float(found.constant) == pytest.approx(
        4 * float(hessian) * float(gradient) ** 2, rel=1e-2
    )
    assert float(found.time) == pytest.approx(0.25 / float(gradient), rel=1e-4)


def test_the_lemmas_bound_holds(samples):
    network = ntk.mlp(64)
    params = network.init(jax.random.split(jax.random.key(0))[0], samples[0])
    found = theory.lemma_constants(network, params, jnp.concatenate(samples))
    times = np.asarray([0.9, 0.1, 0.01]) * float(found.time)
    drift = theory.kernel_drift(0, *samples, network=network, times=times)
    assert (np.asarray(drift.drift) <= float(found.constant) * times).all()
    compared = ntk.compare(0, *samples, network=network, times=times)
    error = np.asarray(compared.relative_error) * abs(float(compared.t_ntk))
    assert (error <= 2 * float(found.constant) * times).all()


def test_sgd_stays_within_its_bound(samples):
    x, y = samples
    found = theory.sgd_displacement(0, x[:30], y, network=ntk.mlp(32), every=5)
    assert found.counts.tolist() == list(range(5, 61, 5))
    assert (np.asarray(found.distance) <= np.asarray(found.bound)).all()
    # The samples are of equal size: the bound is 2 L_f α k/n, a line through 0.
    np.testing.assert_allclose(
        np.asarray(found.bound) / found.counts, found.bound[-1] / 60, rtol=1e-5
    )
    assert float(found.distance[-1]) > 0
