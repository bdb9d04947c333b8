"""Pools of draws with unequal laws, numbers and weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.errors import InputError
from leakbound.stats.anytime import anytime_bets
from leakbound.stats.leakage import Leakage
from leakbound.stats.portfolio import Portfolio, mean_upper, weighted_mean_upper

PLAIN = Portfolio(np.array([0.3, 1.0]), np.array([0.6, 0.4]))
# Two questions with 4 and 2 draws, one of the second missing.
ROWS = Leakage.read([[0.0, 0.25, 0.5], [1.0, 0.0, 0.0]], [[1, 2, 1], [0, 1, 0]], [0, 1])


def wealth(m: float, scale: tuple[float, float]) -> float:
    """W(m) of ROWS as it is written, one draw at a time."""
    draws = [(x, scale[0]) for x in (0.0, 0.25, 0.25, 0.5)] + [(x, scale[1]) for x in (0.0, 1.0)]
    return sum(
        w * math.prod(1 - b * c * (x - m) / (1 - m) for x, c in draws)
        for b, w in zip(PLAIN.bets, PLAIN.weights, strict=True)
    )


@pytest.mark.parametrize(
    ("weights", "scale"),
    [((1, 1), (0.5, 1.0)), ((4, 2), (1.0, 1.0)), ((3, 0.5), (1.0, 1 / 3)), ((0, 7), (0.0, 1.0))],
)
def test_the_weighted_bound_is_the_root_of_the_wealth(
    weights: tuple[float, float], scale: tuple[float, float]
) -> None:
    upper = weighted_mean_upper(ROWS, np.array(weights), 0.6, PLAIN)
    assert 0 < upper < 1
    assert wealth(upper, scale) == pytest.approx(1 / 0.6)


def test_equal_numbers_and_weights_are_the_plain_pool() -> None:
    scores = np.random.default_rng(0).beta(1, 5, (5, 30))
    plain = mean_upper(Leakage.read(scores.ravel()), 0.05, anytime_bets())[0]
    pool = weighted_mean_upper(Leakage.read(scores), np.full(5, 3.0), 0.05, anytime_bets())
    assert pool == pytest.approx(plain, abs=1e-12)


def test_a_stake_that_is_lost_stays_lost() -> None:
    """However long the draws after a full leak stay clean, a bet of everything is 0."""
    everything = Portfolio(np.ones(1), np.ones(1))
    rows = Leakage.read([0.0, 1.0], [10**6, 1])
    assert mean_upper(rows, 0.5, everything)[0] == 1


@pytest.mark.parametrize("weights", [[1, -1], [1, np.nan], [1, np.inf], [0, 0], [1, 1, 1], [1]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match="`weights` must"):
        weighted_mean_upper(ROWS, np.array(weights), 0.1, PLAIN)


def test_the_stakes_add_up() -> None:
    portfolio = anytime_bets()
    assert portfolio.weights.sum() == pytest.approx(1)
    assert (portfolio.bets[0], portfolio.bets[15], portfolio.bets[16]) == (0.5**0.5, 2**-8, 1)
    assert portfolio.weights[:2] == pytest.approx([0.375, 0.125])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.thorough
def test_unequal_numbers_are_covered(weighted: bool) -> None:
    """The unscaled pool bounds the mean weighted by n_i, and covers almost never."""
    rng = np.random.default_rng(3)
    n = np.repeat([400, 20], 5)
    means = np.repeat([0.02, 0.6], 5)
    weights = np.arange(1.0, 11) if weighted else np.ones(10)
    truth = weights @ means / weights.sum()
    missed = unscaled = 0
    for _ in range(100):
        leaks = rng.binomial(n, means)
        rows = Leakage.read(np.tile([0.0, 1.0], (10, 1)), np.stack([n - leaks, leaks], axis=1))
        missed += weighted_mean_upper(rows, weights, 0.1, anytime_bets()) < truth
        unscaled += mean_upper(rows.pooled(), 0.1, anytime_bets())[0] < truth
    assert missed <= binom.ppf(1 - 1e-4, 100, 0.1)
    assert unscaled > 95
