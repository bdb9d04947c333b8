"""Bounds that are valid at any number of looks: stakes, anytime bounds, watched questions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom
from stretches import early

from leakbound.stats import Estimate, Rows, Stopped, bound, every_question, worst_watched
from leakbound.stats.anytime import anytime_bets
from leakbound.stats.portfolio import Portfolio, mean_upper, weighted_mean_upper

PLAIN = Portfolio(np.array([0.3, 1.0]), np.array([0.6, 0.4]))
# Two questions with 4 and 2 draws, one of the second missing.
ROWS = Rows.of([[0.0, 0.25, 0.5], [1.0, 0.0, 0.0]], [[1, 2, 1], [0, 1, 0]], [0, 1])


def wealth(m: float, scale: tuple[float, float]) -> float:
    """Compute W(m) of ROWS by its formula, one draw at a time."""
    draws = [(x, scale[0]) for x in (0.0, 0.25, 0.25, 0.5)] + [(x, scale[1]) for x in (0.0, 1.0)]
    return sum(
        w * math.prod(1 - b * c * (x - m) / (1 - m) for x, c in draws)
        for b, w in zip(PLAIN.bets, PLAIN.weights, strict=True)
    )


@pytest.mark.parametrize(
    ("weights", "scale"),
    [((1, 1), (0.5, 1.0)), ((4, 2), (1.0, 1.0)), ((3, 0.5), (1.0, 1 / 3)), ((0, 7), (0.0, 1.0))],
)
def test_the_bound_is_the_wealths_root(
    weights: tuple[float, float], scale: tuple[float, float]
) -> None:
    upper = weighted_mean_upper(ROWS, np.array(weights), 0.6, PLAIN)
    assert 0 < upper < 1
    assert wealth(upper, scale) == pytest.approx(1 / 0.6)


def test_a_lost_stake_stays_lost() -> None:
    """A bet of everything stays at 0 after a full leak, however many clean draws follow."""
    everything = Portfolio(np.ones(1), np.ones(1))
    rows = Rows.of([0.0, 1.0], [10**6, 1])
    assert mean_upper(rows, 0.5, everything)[0] == 1


def test_the_stakes_add_up() -> None:
    portfolio = anytime_bets()
    assert portfolio.weights.sum() == pytest.approx(1)
    assert (portfolio.bets[0], portfolio.bets[15], portfolio.bets[16]) == (0.5**0.5, 2**-8, 1)
    assert portfolio.weights[:2] == pytest.approx([0.375, 0.125])


ALPHA = 0.1
ALLOWED = int(binom.ppf(1 - 1e-4, 400, ALPHA))  # misses of 400; more: once in 10,000 such tests


def misses_when_peeking(
    draws: np.ndarray, truth: float, bound: Callable[..., Estimate], side: str
) -> int:
    """Rows of `draws` (trials, n) in which some look, one after every draw, excludes the truth."""
    values = np.unique(draws)
    tallies = np.cumsum(draws[:, :, None] == values, axis=1)
    states, place = np.unique(tallies.reshape(-1, len(values)), axis=0, return_inverse=True)
    scores = np.broadcast_to(values, states.shape)
    seen = bound(scores, states, confidence=1 - ALPHA, side=side)
    excluded = (seen.upper < truth) | (seen.lower > truth)
    return int(excluded[place].reshape(draws.shape).any(axis=1).sum())


def of_hits(made: Callable[..., Estimate]) -> Callable[..., Estimate]:
    return lambda scores, counts, **how: made(Rows.of_hits(counts[:, 1], counts.sum(axis=1)), **how)


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("p", [0.03, 0.4])
@pytest.mark.thorough
def test_peeking_after_every_draw_is_free_for_any_time_bounds_only(p: float, side: str) -> None:
    draws = (np.random.default_rng(1).random((400, 200)) < p) * 1.0
    assert misses_when_peeking(draws, p, of_hits(early), side) <= ALLOWED
    assert misses_when_peeking(draws, p, of_hits(bound), side) > ALLOWED


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_peeking_at_a_mean(side: str) -> None:
    draws = np.random.default_rng(2).choice([0.0, 0.5, 1.0], (400, 50), p=[0.7, 0.2, 0.1])

    def mean(scores: np.ndarray, counts: np.ndarray, **how: object) -> Estimate:
        return early(Rows.of(scores, counts), **how)

    assert misses_when_peeking(draws, 0.2, mean, side) <= ALLOWED


# (hits, n, side, bound at alpha = .005): roots by mpmath with 50 digits, K_n by quadrature.
FAR = [
    (0, 10**7, "upper", 6.3431541964065262e-7),
    (1, 10**7, "upper", 9.4874795491007112e-7),
    (10**4, 10**7, "upper", 0.0010446704766574805),
    (5 * 10**6, 10**7, "upper", 0.50080283916967503),
    (10**7 - 5, 10**7, "upper", 0.99999998755628308),
    (1, 10**7, "lower", 4.4603130457742552e-14),
    (10**4, 10**7, "lower", 0.00094884125560156869),
    (3, 10**5, "lower", 2.5798023383972376e-7),
]


@pytest.mark.parametrize(("hits", "n", "side", "value"), FAR)
def test_bounds_in_the_far_tails(hits: int, n: int, side: str, value: float) -> None:
    made = early(Rows.of_hits(hits, n), side=side, confidence=0.995)
    assert getattr(made, side) == pytest.approx(value, rel=1e-8, abs=0)


@pytest.mark.parametrize("n", [1, 50, 10**4, 10**7])
def test_bounds_are_sound_for_any_count(n: int) -> None:
    hits = np.unique(np.geomspace(1, n, 40).astype(int))
    hits = np.unique(np.concatenate([[0], hits, n - hits]))
    made = early(Rows.of_hits(hits, n))
    fixed = bound(Rows.of_hits(hits, n))
    assert np.isfinite(made.lower).all()
    assert np.isfinite(made.upper).all()
    assert (np.diff(made.upper) >= 0).all()
    assert (np.diff(made.lower) >= 0).all()
    assert (made.lower <= fixed.lower).all()
    assert (made.upper >= fixed.upper).all()
    assert (made.upper[-1], made.lower[0]) == (1, 0)
    width = np.sqrt((hits + 1) * (n - hits + 1) / (n + 2)) / n
    assert (made.upper - made.value <= 12 * width + 16 / n).all()


HITS, N = np.array([0, 3, 40]), np.array([64, 64, 64])
BOUND = partial(bound, Stopped(Rows.of_hits(HITS, N), 128))


def test_every_side_of_every_question_has_its_part_of_alpha() -> None:
    got = every_question(BOUND, 10, confidence=0.9, independent=False)
    by_hand = early(Rows.of_hits(HITS, N), confidence=1 - 0.1 / 10 / 2)
    np.testing.assert_allclose(got.lower, by_hand.lower, rtol=0, atol=1e-12)
    np.testing.assert_allclose(got.upper, by_hand.upper, rtol=0, atol=1e-12)
    assert (got.confidence, got.about.jointly, got.side) == (0.9, True, "both")
    assert got.method == f"{BOUND(confidence=0.9).method}, Bonferroni over 10"
    usual = every_question(BOUND, 10, independent=False)
    assert (usual.confidence, usual.side) == (0.99, "both")
    np.testing.assert_array_equal(usual.upper, BOUND(confidence=0.999).upper)


def test_the_worst_is_between_the_largest_lower_and_upper_bounds() -> None:
    got = every_question(BOUND, 10, confidence=0.9, independent=False)
    worst = worst_watched(got)
    assert (worst.value, worst.n, worst.missing) == (40 / 64, 192, 0)
    assert (worst.lower, worst.upper) == (got.lower[2], got.upper[2])  # type: ignore[index]
    assert worst.about.estimand == "leak probability, largest of 3"
    assert worst.about.jointly is False
    assert (worst.confidence, worst.side, worst.method) == (0.9, "both", got.method)


def test_fewer_questions_may_be_drawn_than_there_are() -> None:
    assert len(np.asarray(every_question(BOUND, 3, independent=False).upper)) == 3
    alone = every_question(partial(bound, Stopped(Rows.of_hits(3, 64), 128)), 1)
    assert worst_watched(alone).about.over == 1
