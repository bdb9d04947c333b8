"""Bounds against their definitions, evaluated by brute force."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize
from stretches import lone_mean_upper, lone_std_upper

from leakbound.stats import SD, Rows, betting, bound, leak_at_k, worst_of_k
from leakbound.stats.betting import USUAL, DrawBets, first_accepted, mean_upper, std_upper
from leakbound.stats.tail import berk_jones, dkw


@pytest.mark.parametrize("n", [1, 3, 17, 80])
@pytest.mark.parametrize("tests", [1, 32_768])
def test_a_bound_is_the_least_rejected(n: int, tests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(betting, "TESTS", tests)
    rng = np.random.default_rng(n)
    draws = np.stack(
        [rng.beta(1, 3, n), rng.integers(0, 2, n), np.zeros(n), np.ones(n), rng.random(n) * 0.1]
    )
    for alpha in (0.3, 0.01):
        for made, lone in ((mean_upper, lone_mean_upper), (std_upper, lone_std_upper)):
            low, high = np.transpose([lone(row, alpha) for row in draws.tolist()])
            bound = made(draws, alpha)
            assert (low - 1e-9 <= bound).all()
            assert (bound <= high + 1e-9).all()


@pytest.mark.parametrize(("bets", "together"), [(40, 2), (30, 3), (1, 80), (80, 1)])
def test_many_draws_share_a_bet(bets: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(betting, "BETS", bets)
    monkeypatch.setattr(betting, "PRODUCT", 7)
    rng = np.random.default_rng(bets)
    draws = np.stack([rng.beta(1, 3, 80), rng.integers(0, 2, 80), np.zeros(80), np.ones(80)])
    low, high = np.transpose([lone_mean_upper(row, 0.05, together) for row in draws.tolist()])
    bound = mean_upper(draws, 0.05)
    assert (low - 1e-9 <= bound).all()
    assert (bound <= high + 1e-9).all()
    low, high = np.transpose([lone_std_upper(row, 0.05) for row in draws.tolist()])
    assert ((low - 1e-9 <= std_upper(draws, 0.05)) & (std_upper(draws, 0.05) <= high + 1e-9)).all()


@pytest.mark.parametrize("guess", [-1.0, 0.3, 2.0])
def test_no_bound_depends_on_the_first_race(guess: float, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(2).beta(1, 3, (4, 50))
    usual = mean_upper(draws, 0.05), std_upper(draws, 0.05)
    monkeypatch.setattr(DrawBets, "guess", lambda rule, _: np.full(rule.rows, guess))
    assert (mean_upper(draws, 0.05) == usual[0]).all()
    assert (std_upper(draws, 0.05) == usual[1]).all()


def test_the_first_race_reaches_the_bound_of_usual_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second race over all draws takes as long as the first, however few its tests."""
    raced, run = [], betting._run
    monkeypatch.setattr(betting, "_run", lambda *given: raced.append(given) or run(*given))
    mean_upper(np.random.default_rng(2).beta(1, 3, (24, 1024)), 0.005)
    assert len(raced) == 1


def test_last_draw_counts() -> None:
    """One draw of 0: the bet of .9 wins at most ln(1 + .9 m/(1 - m)) on its only draw."""
    alpha, rule = 0.05, DrawBets.of(np.zeros((1, 1)), np.ones((1, 1)), USUAL)
    for ends, fall in (([0.999, 0.9, 0.5], 1), ([0.999, 0.99], 2)):
        count = first_accepted(rule, np.array(ends), alpha)[0]
        assert count == sum(1 + 0.9 * m / (1 - m) > 1 / alpha for m in ends) == fall


def test_the_scan_stops_at_the_first_accepted_mean() -> None:
    ends = np.array([0.9, 0.2, 0.8])
    draws = np.full((1, 30), 0.3)
    rule = DrawBets.of(draws, np.ones((1, 30)), USUAL)
    assert first_accepted(rule, ends, 0.1)[0] == 1


@pytest.mark.parametrize("k", [1, 2, 4, 5, 7])
def test_leak_at_k_is_the_mean_over_subsets(k: int) -> None:
    scores = np.array([0.3, 0.3, 0.0, 1.0, 0.7, 0.1, 0.7])
    subsets = [max(subset) for subset in combinations(scores, k)]
    assert leak_at_k(Rows.of(scores), k) == pytest.approx(np.mean(subsets), abs=1e-14)
    hits = scores >= 0.7
    subsets = [max(subset) for subset in combinations(hits, k)]
    assert leak_at_k(Rows.of_hits(hits.sum(), 7), k) == pytest.approx(np.mean(subsets), abs=1e-14)


def test_worst_of_k_is_unbiased_over_shuffles() -> None:
    scores = np.linspace(0, 1, 10) ** 2
    shuffles = [worst_of_k(Rows.of(scores), 3, seed=seed) for seed in range(600)]
    assert np.mean(shuffles) == pytest.approx(leak_at_k(Rows.of(scores), 3), abs=0.015)
    assert worst_of_k(Rows.of(scores), 10) == 1
    assert worst_of_k(Rows.of(scores), 1) == pytest.approx(scores.mean())


@pytest.mark.parametrize("seed", range(4))
def test_deviation_over_the_band_is_extreme(seed: int) -> None:
    """Random members of the band stay within the bounds, and numerical search attains them."""
    rng = np.random.default_rng(seed)
    scores, n, alpha = np.sort(rng.beta(0.6, 1 + seed, 40)), 40, 0.3
    table = dkw(n, alpha / 2)
    low, high = table, 1 - table[::-1]
    knots = np.concatenate([[0], scores, [1]])

    def variance(cdf: np.ndarray) -> float:
        cdf = np.maximum.accumulate(cdf)
        mean = np.diff(knots) @ (1 - cdf)
        return float(np.diff(knots**2) @ (1 - cdf) - mean**2)

    made = bound(Rows.of(scores), SD, confidence=1 - alpha, side="upper", method="paper")
    best = max(variance(np.clip(c, low, high)) for c in np.linspace(0, 1, 2001))
    assert made.upper == pytest.approx(math.sqrt(best), abs=1e-4)
    floor = bound(Rows.of(scores), SD, confidence=1 - alpha, side="lower", method="paper")
    for _ in range(200):
        member = np.clip(np.sort(rng.beta(*rng.uniform(0.2, 3, 2), n + 1)), low, high)
        assert floor.lower**2 - 1e-12 <= variance(member) <= made.upper**2 + 1e-12
    centred = minimize(
        lambda z: variance(low + (high - low) / (1 + np.exp(-z))),
        np.where(knots[1:] < scores.mean(), -3.0, 3.0),
        method="L-BFGS-B",
    )
    assert floor.lower == pytest.approx(math.sqrt(centred.fun), abs=0.02)


@pytest.mark.parametrize(("n", "alpha"), [(3, 0.2), (40, 0.1)])
def test_berk_jones_covers_exactly(n: int, alpha: float) -> None:
    trials = 40_000
    order = np.sort(np.random.default_rng(n).random((trials, n)), axis=1)
    misses = (order < berk_jones(n, alpha)[1:]).any(axis=1).mean()
    assert misses == pytest.approx(alpha, abs=4 * math.sqrt(alpha / trials))


def test_berk_jones_at_large_n_beats_dkw_in_the_tail() -> None:
    slack = [1 - band(1000, 0.01)[-1] for band in (berk_jones, dkw)]
    assert slack[0] < slack[1] / 5
