"""Any-time bounds hold at every look at once, in every corner of the counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from leakbound.stats import Estimate, mean_bound, proportion_bound
from leakbound.stats.anytime import log_evidence_above, log_evidence_below

ALPHA = 0.1
ALLOWED = int(binom.ppf(1 - 1e-4, 400, ALPHA))  # misses of 400; more once in 10,000 such tests


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


def of_hits(method: str) -> Callable[..., Estimate]:
    """`proportion_bound` on scores 0 and 1."""

    def bound(scores: np.ndarray, counts: np.ndarray, **kwargs: object) -> Estimate:
        return proportion_bound(counts[:, 1], counts.sum(axis=1), method=method, **kwargs)

    return bound


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("p", [0.03, 0.4])
@pytest.mark.thorough
def test_peeking_after_every_draw_is_free_for_any_time_bounds_only(p: float, side: str) -> None:
    draws = (np.random.default_rng(1).random((400, 200)) < p) * 1.0
    assert misses_when_peeking(draws, p, of_hits("any-time"), side) <= ALLOWED
    assert misses_when_peeking(draws, p, of_hits("clopper-pearson"), side) > ALLOWED


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_peeking_at_a_mean(side: str) -> None:
    draws = np.random.default_rng(2).choice([0.0, 0.5, 1.0], (400, 50), p=[0.7, 0.2, 0.1])

    bound = partial(mean_bound, method="any-time")
    assert misses_when_peeking(draws, 0.2, bound, side) <= ALLOWED


def test_the_evidence_is_the_average_likelihood_ratio() -> None:
    """K_n(p) by its definition, over q < p and over q > p."""
    for s, n, p in [(0, 5, 0.3), (2, 9, 0.4), (9, 9, 0.9), (7, 30, 0.1)]:

        def ratio(angle: float, s: int = s, n: int = n, p: float = p) -> float:
            q = math.sin(angle) ** 2  # Beta(1/2, 1/2) is uniform in this angle
            return (q / p) ** s * ((1 - q) / (1 - p)) ** (n - s)

        cut = math.asin(math.sqrt(p))
        tally = np.array([s]), np.array([n]), np.array([p])
        above = quad(ratio, 0, cut)[0] / cut
        below = quad(ratio, cut, math.pi / 2)[0] / (math.pi / 2 - cut)
        assert math.exp(log_evidence_above(*tally)[0]) == pytest.approx(above, rel=1e-9)
        assert math.exp(log_evidence_below(*tally)[0]) == pytest.approx(below, rel=1e-9)


# (hits, n, side, bound at alpha = .005): roots found by mpmath with 50 digits, K_n by quadrature.
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
    bound = proportion_bound(hits, n, method="any-time", side=side, confidence=0.995)
    assert getattr(bound, side) == pytest.approx(value, rel=1e-8, abs=0)


@pytest.mark.parametrize("n", [1, 50, 10**4, 10**7])
def test_bounds_are_sound_for_any_count(n: int) -> None:
    hits = np.unique(np.geomspace(1, n, 40).astype(int))
    hits = np.unique(np.concatenate([[0], hits, n - hits]))
    bound = proportion_bound(hits, n, method="any-time", side="both")
    fixed = proportion_bound(hits, n, side="both")
    assert np.isfinite(bound.lower).all()
    assert np.isfinite(bound.upper).all()
    assert (np.diff(bound.upper) >= 0).all()
    assert (np.diff(bound.lower) >= 0).all()
    assert (bound.lower <= fixed.lower).all()
    assert (bound.upper >= fixed.upper).all()
    assert (bound.upper[-1], bound.lower[0]) == (1, 0)
    width = np.sqrt((hits + 1) * (n - hits + 1) / (n + 2)) / n
    assert (bound.upper - bound.value <= 12 * width + 16 / n).all()
