"""Deviation and ED of a coin, from the interval of p: coverage summed over all tallies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from leakbound.errors import InputError
from leakbound.stats import (
    expectation_deviation_bound,
    expectation_deviation_proportion_bound,
    proportion_bound,
    std_bound,
    std_proportion_bound,
)

N, ALPHA = 40, 0.1
HITS = np.arange(N + 1)
PEAK = (1 + 1 / np.sqrt(5)) / 2
P = np.concatenate([np.linspace(0, 1, 201), [PEAK - 1e-4, PEAK + 1e-4, 0.4999, 0.5001]])
CASES = {
    "std": (std_proportion_bound, lambda p: np.sqrt(p * (1 - p))),
    "ED": (expectation_deviation_proportion_bound, lambda p: p + 2 * np.sqrt(p * (1 - p))),
}


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
@pytest.mark.parametrize("name", CASES)
def test_no_p_is_missed_more_often_than_alpha(name: str, side: str) -> None:
    bound, f = CASES[name]
    made = bound(HITS, N, confidence=1 - ALPHA, side=side)
    truth = f(P)[:, None]
    missed = (made.lower > truth + 1e-12) | (made.upper < truth - 1e-12)
    chance = (binom.pmf(HITS, N, P[:, None]) * missed).sum(axis=1)
    assert chance.max() <= ALPHA
    assert chance.max() > ALPHA / 4  # and not by being wide


def test_half_a_deviation_may_be_added_and_none() -> None:
    whole, half, none = (
        expectation_deviation_proportion_bound(4, 40, rho=rho).upper for rho in (1.0, 0.5, 0.0)
    )
    assert none == proportion_bound(4, 40, side="both").upper
    assert none < half < whole  # type: ignore[operator]


@pytest.mark.parametrize("name", CASES)
def test_ends_are_the_extremes_over_the_interval(name: str) -> None:
    """Against a fine grid of p inside the Clopper-Pearson interval, computed apart."""
    bound, f = CASES[name]
    for hits in (0, 3, 20, 33, 40):
        low = beta.ppf(ALPHA / 2, hits, N - hits + 1) if hits else 0.0
        high = beta.isf(ALPHA / 2, hits + 1, N - hits) if hits < N else 1.0
        inside = f(np.linspace(low, high, 20_001))
        made = bound(hits, N, confidence=1 - ALPHA, side="both")
        assert made.upper == pytest.approx(inside.max(), abs=1e-7)
        assert made.lower == pytest.approx(inside.min(), abs=1e-12)
        assert made.value == pytest.approx(f(hits / N))
        assert (made.confidence, made.seed) == (1 - ALPHA, None)


def test_it_is_narrower_than_betting_on_the_same_coins() -> None:
    """3 to 25 %, at n = 1,024; and one draw of either kind moves it by little."""
    for hits in (0, 10, 100, 512):
        counts = [1024 - hits, hits]
        ours = std_proportion_bound(hits, 1024, side="both")
        bets = std_bound([0.0, 1.0], counts, side="both")
        assert ours.upper - ours.lower < bets.upper - bets.lower
        ours = expectation_deviation_proportion_bound(hits, 1024)
        assert ours.upper < expectation_deviation_bound([0.0, 1.0], counts).upper


def test_missing_draws_may_have_leaked_or_not() -> None:
    for bound, f in CASES.values():
        gone = bound(2, 30, missing=5, side="both")
        for leaks in range(6):
            known = bound(2 + leaks, 30, side="both")
            assert gone.upper >= known.upper - 1e-12
            assert gone.lower <= known.lower + 1e-12
        assert gone.value == pytest.approx(f(2 / 25))


def test_wrong_use_is_refused() -> None:
    with pytest.raises(InputError, match="must exceed"):
        std_proportion_bound(1, 10, confidence=0.4, side="lower")
    with pytest.raises(InputError, match="rho"):
        expectation_deviation_proportion_bound(1, 10, rho=-1)
