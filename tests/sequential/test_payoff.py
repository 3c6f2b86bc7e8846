"""Payoffs and bets: fair by enumeration, and as their formulas say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkmmd_jax.sequential.bets import AGRAPA, ONS
from ntkmmd_jax.sequential.payoff import Block, gaps, mean_square, payoff, placed

RNG = np.random.default_rng(0)


def block(c, place, sign=1.0, size=None):
    points = jnp.zeros((c + 1, 1))
    return Block(points, jnp.asarray(place), jnp.asarray(sign), jnp.asarray(size or c))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_of_a_pair_it_is_tanh(sign):
    scores = jnp.asarray(RNG.normal(size=(3, 2)), jnp.float32)
    scale = jnp.asarray([0.5, 1.0, 3.0])
    for place in (0, 1):
        one = block(1, place, sign)
        s = gaps(one, scores)
        expected = sign * (scores[:, place] - scores[:, 1 - place])
        np.testing.assert_allclose(s[:, place], expected, rtol=1e-6)
        np.testing.assert_allclose(payoff(one, s, scale), np.tanh(expected / scale), rtol=2e-6)
        np.testing.assert_allclose(mean_square(one, s), expected**2, rtol=1e-6)


@pytest.mark.parametrize(("c", "size"), [(4, 4), (4, 2), (1, 1)])
def test_as_the_formula_says_and_fair_over_places(c, size):
    """F = exp(s_0 / ŝ) / mean_i exp(s_i / ŝ) − 1 of the points that are there; its mean is 0."""
    scores = RNG.normal(size=(2, c + 1))
    scale, found = np.array([0.7, 2.0]), []
    for place in range(size + 1):
        one = block(c, place, -1.0, size)
        g = scores[:, : size + 1]
        others = (g.sum(1, keepdims=True) - g) / size
        exponents = np.exp(-(g - others) / scale[:, None])
        expected = exponents[:, place] / exponents.mean(1) - 1
        s = gaps(one, jnp.asarray(scores, jnp.float32))
        found.append(payoff(one, s, jnp.asarray(scale, jnp.float32)))
        np.testing.assert_allclose(found[-1], expected, rtol=3e-6, atol=1e-6)
    np.testing.assert_allclose(np.mean(found, axis=0), 0, atol=1e-6)


def test_padding_has_no_weight_and_no_say():
    one = block(3, 1, size=2)
    np.testing.assert_allclose(one.weights, [-0.5, 1, -0.5, 0])
    loud = jnp.asarray([[0.0, 1.0, 2.0, 1e30]])
    np.testing.assert_allclose(gaps(one, loud), [[-1.5, 0.0, 1.5, 0.0]])


def test_without_a_scale_nothing_is_paid():
    assert payoff(block(1, 0), jnp.asarray([[3.0, -3.0]]), jnp.zeros(1)) == 0


def test_the_one_that_stands_alone_takes_its_place():
    points = jnp.arange(4.0)[:, None]
    for place in range(4):
        moved = placed(points, jnp.asarray(place))
        assert moved[place] == 0 and sorted(moved[:, 0].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("bet", [ONS(), AGRAPA(), ONS(most=0.9)])
def test_bets_are_those_of_a_plain_loop(bet):
    payoffs = np.tanh(np.random.default_rng(5).normal(size=300) + 2)
    state, found = bet.init(1), []
    fraction, curvature, total = 0.0, 1.0, 0.0
    for paid in payoffs:
        found.append(float(bet.fraction(state)[0]))
        state = bet.after(state, jnp.asarray([paid], jnp.float32))
        expected = fraction if isinstance(bet, ONS) else np.clip(total / curvature, 0, bet.most)
        assert found[-1] == pytest.approx(expected, abs=2e-5)
        if isinstance(bet, ONS):
            z = paid / (1 + fraction * paid)
            curvature += z**2
            fraction = np.clip(fraction + 2 / (2 - np.log(3)) * z / curvature, 0, bet.most)
        else:
            total, curvature = total + paid, curvature + paid**2
    assert min(found) >= 0 and max(found) == pytest.approx(bet.most)


@pytest.mark.parametrize("most", [0.0, 1.0, -1.0])
def test_a_bet_of_all_or_nothing_is_refused(most):
    with pytest.raises(ValueError, match="must lie in"):
        ONS(most=most)


def test_everything_is_traceable():
    run = jax.jit(lambda g: payoff(block(2, 1), gaps(block(2, 1), g), jnp.ones(1)))
    assert run(jnp.ones((1, 3))) == 0
