"""Means over questions hold for questions that are not alike, where simpler bounds do not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.stats import (
    mean_bound,
    mean_leak_at_k_over_questions,
    mean_over_questions,
    proportion_bound,
    proportion_over_questions,
)

TRIALS = 40
ALLOWED = int(binom.ppf(1 - 1e-4, TRIALS, 0.1))  # more happen once in 10,000 correct tests


def law_of_the_sum(p: np.ndarray) -> np.ndarray:
    """P(S = s), S the number of leaks in one draw of each question."""
    law = np.ones(1)
    for each in p:
        law = np.convolve(law, [1 - each, each])
    return law


def chance_of_a_miss(p: np.ndarray, alpha: float) -> dict[str, float]:
    """Exactly, over every outcome: of an upper and a lower bound, and of the plain pool."""
    n, law, missed = len(p), law_of_the_sum(p), dict.fromkeys(("upper", "lower", "plain"), 0.0)
    for s in range(n + 1):
        hits = (np.arange(n) < s).astype(int)
        for side in ("upper", "lower"):
            made = proportion_over_questions(hits, 1, confidence=1 - alpha, side=side)
            if not made.lower - 1e-12 <= p.mean() <= made.upper + 1e-12:
                missed[side] += law[s]
        if proportion_bound(s, n, confidence=1 - alpha).upper < p.mean():
            missed["plain"] += law[s]
    return missed


def test_plain_clopper_pearson_misses_where_hoeffding_holds() -> None:
    """All questions leak for certain, but for one that leaks with probability .33."""
    p = np.append(np.ones(11), 0.33)
    assert chance_of_a_miss(p, 0.5)["plain"] == pytest.approx(0.67)
    for law in (p, 1 - p, np.linspace(0, 1, 12), np.full(12, 0.3)):
        for alpha in (0.5, 0.1):
            missed = chance_of_a_miss(law, alpha)
            assert missed["upper"] <= alpha
            assert missed["lower"] <= alpha


@pytest.mark.parametrize("binary", [True, False])
def test_unequal_numbers_are_covered_and_the_unscaled_pool_is_not(binary: bool) -> None:
    """The question that leaks most was asked least."""
    rng = np.random.default_rng(11)
    n, p = np.array([20, 60, 300]), np.array([0.6, 0.2, 0.02])
    counted = np.arange(300) < n[:, None]
    missed = {"upper": 0, "lower": 0, "unscaled": 0}
    for _ in range(TRIALS):
        scores = rng.random((3, 300)) < p[:, None]
        if not binary:
            scores = scores * rng.random((3, 300))
        truth = p.mean() if binary else p.mean() / 2
        for side in ("upper", "lower"):
            if binary:
                hits = (scores & counted).sum(axis=1)
                made = proportion_over_questions(hits, n, confidence=0.9, side=side)
            else:
                made = mean_over_questions(scores, counted, confidence=0.9, side=side)
            missed[side] += not made.lower <= truth <= made.upper
        pool = mean_bound(scores[counted].ravel(), method="portfolio", confidence=0.9)
        missed["unscaled"] += pool.upper < truth
    assert missed["upper"] <= ALLOWED
    assert missed["lower"] <= ALLOWED
    assert missed["unscaled"] > 0.9 * TRIALS


def test_weighted_means_are_covered() -> None:
    rng = np.random.default_rng(12)
    p, weights = np.array([0.7, 0.3, 0.1, 0.0]), np.array([4.0, 0.5, 1.0, 0.0])
    truth = p @ weights / weights.sum()
    missed = 0
    for hits in rng.binomial(50, p, (TRIALS, 4)):
        made = proportion_over_questions(hits, 50, weights=weights, confidence=0.9, side="both")
        missed += not made.lower <= truth <= made.upper
    assert missed <= ALLOWED


@pytest.mark.parametrize("binary", [True, False])
def test_mean_leak_at_k_is_covered_and_sorted_blocks_are_not(binary: bool) -> None:
    rng = np.random.default_rng(13)
    k, n, p = 5, 43, np.linspace(0, 0.3, 12)
    truth = np.mean(1 - (1 - p) ** k)
    missed = {"upper": 0, "lower": 0, "sorted": 0}
    for seed in range(TRIALS):
        scores = np.sort(rng.random((12, n)) < p[:, None], axis=1) * 1.0
        for side in ("upper", "lower"):
            made = mean_leak_at_k_over_questions(
                scores, k, confidence=0.9, side=side, seed=seed, binary=binary
            )
            missed[side] += not made.lower <= truth <= made.upper
        blocks = scores[:, : n // k * k].reshape(12, -1, k).max(axis=2)
        missed["sorted"] += mean_over_questions(blocks, confidence=0.9).upper < truth
    assert missed["upper"] <= ALLOWED
    assert missed["lower"] <= ALLOWED
    assert missed["sorted"] > 0.9 * TRIALS


def test_pooled_blocks_are_far_tighter_than_a_bound_of_each_question() -> None:
    """N = n = 200, k = 32: .028 above the truth, where bounding each question leaves .67."""
    rng = np.random.default_rng(14)
    scores = (rng.random((200, 200)) < 0.001) * 1.0
    truth = 1 - 0.999**32
    made = mean_leak_at_k_over_questions(scores, 32, binary=True)
    assert made.upper - truth < 0.04
