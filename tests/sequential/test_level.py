"""Rejected at any time: at most α under H0; and the check catches a bettor that cheats."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkmmd_jax as ntk
from ntkmmd_jax import datasets
from ntkmmd_jax.sequential import AGRAPA, ONS, Exact, Ridge, Trained, bettor

N, RUNS, LEVEL = 200, 1000, 0.05
MOST = LEVEL + 4 * np.sqrt(LEVEL * (1 - LEVEL) / RUNS)
LEARNERS = (
    Exact(ntk.mlp(8)),
    Trained(ntk.mlp(8), learning_rate=0.03),
    Ridge(ntk.fourier(16), ridges=(0.1, 1.0)),
)
LAWS = {
    "gaussian": lambda key: tuple(jax.random.normal(key, (2, N, 2))),
    "heavy tails": lambda key: tuple(jax.random.t(key, 1.5, (2, N, 2))),
    "discrete": lambda key: tuple(jax.random.bernoulli(key, 0.1, (2, N, 2)).astype(jnp.float32)),
    "blobs": lambda key: datasets.blobs(key, N, N, strength=0.0),
}


@functools.partial(jax.jit, static_argnames=("learners", "bet"))
def peaks(keys, x, y, learners, bet):
    """The largest log W of every witness, and of their mean, in every replica: (runs, k + 1)."""
    test = ntk.BettingTest(network=learners, bet=bet, standardize=True)

    def one(given):
        wealth = test(*given).wealth
        return jnp.append(wealth.logs.max(0), wealth.peak)

    return jax.lax.map(one, (keys, x, y), batch_size=50)


def rejected(law, learners=LEARNERS, bet=None, runs=RUNS):
    """The share of replicas in which W ever reached 1/α, of every witness and of their mean."""
    keys = jax.random.split(jax.random.key(3), runs)
    x, y = jax.jit(jax.vmap(LAWS.get(law, law)))(keys)
    found = peaks(jax.random.split(jax.random.key(4), runs), x, y, learners, bet or ONS())
    return np.mean(np.asarray(found) >= -np.log(LEVEL), axis=0)


@pytest.mark.parametrize("law", LAWS)
def test_at_most_alpha_at_any_time(law):
    rates = rejected(law)
    assert rates.shape == (5,) and (rates <= MOST).all()


def test_of_the_other_bet():
    assert (rejected("gaussian", bet=AGRAPA()) <= MOST).all()


def drawn(n_x, n_y, shift):
    def law(key):
        k_x, k_y = jax.random.split(key)
        return jax.random.normal(k_x, (n_x, 2)) + shift, jax.random.normal(k_y, (n_y, 2))

    return law


def test_of_unequal_sizes_and_the_larger_sample_counts():
    """Against 3 points of y, one of x says more than against 1."""
    learners = LEARNERS[:1]
    assert (rejected(drawn(60, 180, 0.0), learners) <= MOST).all()
    few, many = (rejected(drawn(60, n, 0.5), learners, runs=300)[-1] for n in (60, 180))
    assert many > few + 0.1


def test_the_check_can_fail(monkeypatch):
    """A scale that looks at the pair it is used on, small where that pays, is caught."""
    fair = bettor.payoff

    def cheating(block, gaps, scale):
        lucky = gaps[:, block.place] > 0
        return fair(block, gaps, scale * jnp.where(lucky, 0.5, 2.0))

    monkeypatch.setattr(bettor, "payoff", cheating)
    # A witness of its own, lest the fair one's program be taken for it.
    assert rejected("gaussian", (Exact(ntk.mlp(5)),), runs=200)[-1] > MOST
