"""What a sweep asks of its sampler, before it starts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax.power import sampler as sampler_module
from ntkmmd_jax.power.sampler import check_draws, one_of_equals

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def check(sampler, sizes=(6, 5), **point):
    traced = {name: value for name, value in point.items() if isinstance(value, float)}
    fixed = tuple((name, value) for name, value in point.items() if name not in traced)
    return check_draws(KEY, sampler, sizes, fixed, traced)


def normals(key, n, dim=2):
    return jax.random.normal(key, (n, dim))


def test_the_shapes_are_those_that_a_test_sees():
    x, y = check(lambda key, n, m: (normals(key, n)[:, 0], jnp.ones((m, 1), int)))
    assert (x.shape, y.shape) == ((6, 1), (5, 1)) and x.dtype == y.dtype == jnp.float32


def test_discrete_data_pass():
    """Few values, a constant sample: laws all the same, even if draws are alike."""
    check(lambda key, n, m: (jnp.zeros((n, 1)), normals(key, m, 1)))
    check(lambda key, n, m: tuple(jax.random.bernoulli(key, 1e-6, (k, 1)) for k in (n, m)))
    check(lambda key, n, m: tuple(jax.random.bernoulli(key, 0.5, (k, 1)) for k in (n, m)))


def numpy_inside(key, n_x, n_y):
    return RNG.normal(size=(n_x, 2)), RNG.normal(size=(n_y, 2))


def numpy_in_y(key, n_x, n_y):
    return normals(key, n_x), jnp.asarray(RNG.normal(size=(n_y, 2)))


def seeded_by_the_key(key, n_x, n_y):
    return (np.random.default_rng(key).normal(size=(n_x, 2)),) * 2


def numpy_on_a_tracer(key, n_x, n_y):
    return np.asarray(normals(key, n_x)), normals(key, n_y)


def branching(key, n_x, n_y, *, rho):
    return (normals(key, n_x), normals(key, n_y)) if rho > 0 else None


def nan_below_zero(key, n_x, n_y, *, rho):
    return normals(key, n_x), jnp.sqrt(rho) * normals(key, n_y)


@pytest.mark.parametrize(
    ("sampler", "point", "message"),
    [
        (numpy_inside, {}, "same x for every key, without parameters: .* by jax.random"),
        (numpy_in_y, {}, "same y for every key"),
        (seeded_by_the_key, {}, "cannot be traced: it must be pure JAX"),
        (numpy_on_a_tracer, {}, "cannot be traced: it must be pure JAX"),
        (branching, {"rho": 0.1}, "cannot be traced"),
        (ntk.datasets.covariance_shift, {"rho": 0.1, "dim": 2.0}, "must be a whole number"),
        (ntk.datasets.covariance_shift, {"rho": 0.1, "dim": 0}, r"x is empty: shape \(6, 0\)"),
        (ntk.datasets.covariance_shift, {"dim": 2}, "missing a required argument: 'rho'"),
        (ntk.datasets.covariance_shift, {"rho": "a", "dim": 2}, "the sampler fails .* rho = a"),
        (nan_below_zero, {"rho": -1.0}, "NaN or infinite values in y, at rho = -1.0"),
        (lambda key, n: normals(key, n), {}, "too many positional arguments"),
        (lambda key, n, m: normals(key, n), {}, "must return a pair"),
        (lambda key, n, m: (normals(key, n),) * 3, {}, "it returned 3 things"),
        (lambda key, n, m: (normals(key, m), normals(key, n)), {}, r"x of shape \(5, 2\)"),
        (lambda key, n, m: (normals(key, n), normals(key, m, 3)), {}, "different features"),
        (lambda key, n, m: (normals(key, n).astype(complex), normals(key, m)), {}, "real numbers"),
        (lambda key, n, m: (["a"] * n, normals(key, m)), {}, "not a valid JAX type"),
    ],
)
def test_bad_samplers_are_refused(sampler, point, message):
    with pytest.raises(ValueError, match=message):
        check(sampler, **point)


def test_a_sweep_checks_every_cell_before_it_starts(tmp_path):
    path = tmp_path / "sweep.jsonl"
    options = {"n": 6, "n_runs": 2, "progress": False, "checkpoint": path}
    with pytest.raises(ValueError, match=r"in y, at rho = -1\.0"):
        ntk.power_sweep(0, ["gmmd"], nan_below_zero, {"rho": [1.0, -1.0]}, **options)
    with pytest.raises(TypeError, match="sampler must be a function"):
        ntk.power_sweep(0, ["gmmd"], "covariance_shift", {"rho": [1.0]}, **options)
    assert not path.exists()


def test_a_repeated_sweep_pays_once():
    traced = []

    def sampler(key, n_x, n_y, *, scale):
        traced.append(scale)
        return scale * normals(key, n_x), normals(key, n_y)

    before = sampler_module._look._cache_size()
    check(sampler, scale=1.0)
    seen = sampler_module._checked.cache_info()
    check(sampler, scale=1.0)
    assert sampler_module._checked.cache_info().hits == seen.hits + 1
    check(sampler, scale=2.0)
    assert sampler_module._look._cache_size() == before + 1  # one program for all floats
    assert len(traced) == 1


def moved(key, n_x, n_y, *, by, scale=1.0):
    k_x, k_y = jax.random.split(key)
    return normals(k_x, n_x), scale * normals(k_y, n_y) + jnp.asarray(by)


def test_equal_partials_are_one_program():
    """Three sweeps in a loop, each with a partial of its own, compile what one does."""
    compiled = []

    def listen(event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    counts = []
    for _ in range(3):
        sampler = functools.partial(moved, by=np.array([0.0, 3.0], np.float32))
        options = {"n": 6, "n_runs": 4, "progress": False}
        table = ntk.power_sweep(0, ["hotelling"], sampler, {"scale": [1.0, 2.0]}, **options)
        counts.append((len(compiled), [row.rejections for row in table.rows]))
    jax.monitoring.unregister_event_duration_listener(listen)
    assert counts[0][0] > 0 and counts == [counts[0]] * 3


def test_which_partials_are_equal():
    by = np.array([0.0, 3.0], np.float32)
    first = one_of_equals(functools.partial(moved, by=by, scale=2.0))
    assert one_of_equals(functools.partial(moved, scale=2.0, by=by.copy())) is first
    others = [
        functools.partial(moved, by=by, scale=2),  # a whole number may fix a shape
        functools.partial(moved, by=by, scale=np.float32(2)),
        functools.partial(moved, by=by),
        functools.partial(moved, by=by + 1, scale=2.0),
        functools.partial(moved, by=jnp.asarray(by), scale=2.0),
        functools.partial(moved, by=tuple(by.tolist()), scale=2.0),
        functools.partial(nan_below_zero, by=by, scale=2.0),
    ]
    kept = [one_of_equals(other) for other in others]
    assert len({id(sampler) for sampler in (first, *kept)}) == 8
    signed = [one_of_equals(functools.partial(moved, by=zero)) for zero in (0.0, -0.0)]
    assert signed[0] is not signed[1]
    by += 1  # what was traced stays as it was
    assert first.keywords["by"].tolist() == [0.0, 3.0]
    assert one_of_equals(moved) is moved


def test_partials_of_what_cannot_be_hashed_are_told_apart():
    class Unhashable:
        __hash__ = None

    one = functools.partial(moved, by=Unhashable())
    assert one_of_equals(one) is one
