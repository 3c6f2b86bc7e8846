"""The perturbed uniform density: against its integral over cells, by χ², with fixed signs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ntkmmd_jax import datasets
from ntkmmd_jax.datasets.perturbed import bumps

KEY = jax.random.key(4)
N = 60_000


def bump(t):
    """G as it is defined."""
    if -1 < t < -0.5:
        return np.exp(-1 / (1 - (4 * t + 3) ** 2))
    return -np.exp(-1 / (1 - (4 * t + 1) ** 2)) if -0.5 < t < 0 else 0.0


def perturbation(u, signs):
    """Σ_ν θ_ν Π_i e G(P u_i − ν_i), term by term."""
    p, d = len(signs), signs.ndim
    terms = (
        signs[nu] * np.prod([np.e * bump(p * u[i] - nu[i] - 1) for i in range(d)])
        for nu in np.ndindex(signs.shape)
    )
    return sum(terms)


@pytest.mark.parametrize(("p", "d"), [(2, 1), (3, 1), (2, 2), (3, 2)])
def test_bumps_are_those_of_the_definition(p, d):
    """In float64 by loops; an error of 1e-7 in t counts about 20 fold in G, 2·20·P·d at most."""
    rng = np.random.default_rng(0)
    u = np.concatenate([rng.uniform(size=(200, d)), np.zeros((1, d)), np.ones((1, d))])
    u = u.astype(np.float32)
    signs = rng.choice([-1.0, 1.0], (p,) * d).astype(np.float32)
    found = bumps(jnp.asarray(u), jnp.asarray(signs))
    np.testing.assert_allclose(found, [perturbation(z, signs) for z in u.astype(float)], atol=2e-5)
    assert 0.9 < np.abs(found).max() <= 1  # e G spans [−1, 1]


@pytest.mark.parametrize(("p", "d", "amplitude"), [(2, 1, 0.5), (3, 1, 1.0), (2, 2, 1.0)])
def test_draws_have_the_density(p, d, amplitude):
    """χ² of counts in a fine grid against the density, integrated; the key fixes the signs."""
    _, y = datasets.perturbed_uniform(
        KEY, 2, N, amplitude=amplitude, perturbations=p, dim=d
    )  # fmt: skip
    signs = jax.random.rademacher(jax.random.split(KEY, 4)[2], (p,) * d, dtype=jnp.float32)
    bins, fine = 12 * p // d, 8  # each bin integrated by the midpoints of 8 parts per coordinate
    points = (np.arange(bins * fine) + 0.5) / (bins * fine)
    grid = np.stack(np.meshgrid(*[points] * d, indexing="ij"), axis=-1).reshape(-1, d)
    density = 1 + amplitude * np.asarray(bumps(jnp.asarray(grid, jnp.float32), signs), float)
    assert density.min() > -1e-6
    np.testing.assert_allclose(density.mean(), 1, atol=1e-6)
    mass = density.reshape((bins, fine) * d).mean(axis=tuple(range(1, 2 * d, 2)))
    counts, _ = np.histogramdd(np.asarray(y, float), bins=bins, range=[(0, 1)] * d)
    found = scipy.stats.chisquare(counts.ravel(), N * mass.ravel() / mass.sum())
    assert 1e-5 < found.pvalue < 1 - 1e-5


def test_signs_are_drawn_anew_and_x_is_uniform():
    def halves(key):  # the gap between the quarters of the first cell has the sign of the bump
        x, y = datasets.perturbed_uniform(key, 400, 400, amplitude=1.0)
        return x, jnp.sum(y < 0.25) > jnp.sum((y >= 0.25) & (y < 0.5))

    x, first = jax.jit(jax.vmap(halves))(jax.random.split(KEY, 200))
    # Binomial(200, ½): outside of (65, 135) once in a million.
    assert 65 < int(first.sum()) < 135
    assert scipy.stats.kstest(np.ravel(x), "uniform").pvalue > 1e-5


def test_amplitude_zero_is_the_uniform_law():
    _, y = datasets.perturbed_uniform(KEY, 2, N, amplitude=0.0, perturbations=3, dim=2)
    for coordinate in np.asarray(y).T:
        assert scipy.stats.kstest(coordinate, "uniform").pvalue > 1e-5
    assert y.min() >= 0 and y.max() <= 1


def test_a_traced_amplitude_gives_the_same_numbers():
    draw = jax.jit(lambda a: datasets.perturbed_uniform(KEY, 5, 7, amplitude=a, dim=2))
    for one, other in zip(draw(0.7), datasets.perturbed_uniform(KEY, 5, 7, amplitude=0.7, dim=2),
                          strict=True):  # fmt: skip
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"amplitude": 1.2}, "amplitude must lie in"), ({"amplitude": 0.5, "dim": 0}, "dim must be"),
     ({"amplitude": 0.5, "perturbations": 1.5}, "perturbations must be a whole")],
)  # fmt: skip
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.perturbed_uniform(KEY, 5, 5, **options)
