"""Means over questions hold for questions that are not alike, where simpler bounds do not."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.stats import (
    mean_bound,
    mean_leak_at_k_over_questions,
    mean_over_questions,
    proportion_bound,
    proportion_over_questions,
    rounds,
)
from leakbound.stats.estimate import Side
from leakbound.stats.mean_over_questions import hoeffding_upper
from leakbound.stats.proportion import tally

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


HALF = np.repeat([0.0, 1.0], 12)
LAWS = {
    "half": HALF,
    "alike": np.full(24, 0.02),
    "one leaks": np.append(np.zeros(23), 0.3),
    "steps": np.linspace(0, 1, 24),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [8, pytest.param(40, marks=pytest.mark.thorough)])
def test_coins_of_unlike_questions_are_covered(law: str, n: int) -> None:
    p, rng = LAWS[law], np.random.default_rng([14, n])
    missed = {"upper": 0, "lower": 0}
    for seed, hits in enumerate(rng.binomial(n, p, (4 * TRIALS, 24))):
        for side in ("upper", "lower"):
            made = proportion_over_questions(hits, n, confidence=0.9, side=side, seed=seed)
            missed[side] += not made.lower <= p.mean() <= made.upper
    allowed = int(binom.ppf(1 - 1e-4, 4 * TRIALS, 0.1))
    assert max(missed.values()) <= allowed


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_each_of_the_two_bounds_has_its_share_of_alpha(law: str, confidence: float) -> None:
    """Neither at all of it: the lesser of two bounds fails as often as both together."""
    alpha, rows = 1 - confidence, None
    for seed, hits in enumerate(np.random.default_rng(15).binomial(64, LAWS[law], (3, 24))):
        made = proportion_over_questions(hits, 64, confidence=confidence, seed=seed)
        rows = tally(hits, np.full(24, 64), 0).ordered(seed)
        pooled = float(hoeffding_upper(rows, 0.9 * alpha))
        betting = rounds.mean_upper(rows, np.ones(24), 0.1 * alpha)
        assert made.upper == pytest.approx(min(pooled, betting), abs=1e-12)
        assert (betting < pooled) == (law == "half")
    assert made.method.endswith(
        "Hoeffding's form, at 0.9 of alpha, or betting in rounds at the rest"
    )


def test_questions_that_always_or_never_leak_cost_next_to_nothing() -> None:
    """The headline of 24 questions in 1,024 draws: .0165 wide by the pooled form alone."""
    hits = 1024 * HALF.astype(int)
    made = proportion_over_questions(hits, 1024, side="both", seed=0)
    assert made.upper - made.lower < 0.002
    rows = tally(hits, np.full(24, 1024), 0)
    assert 2 * (float(hoeffding_upper(rows, 0.005)) - 0.5) > 0.016
    at_k = mean_leak_at_k_over_questions(
        np.repeat(HALF[:, None], 1024, 1), 32, binary=True, side="both", seed=0
    )
    assert at_k.upper - at_k.lower < 0.03


@pytest.mark.parametrize("confidence", [0.9, pytest.param(0.95, marks=pytest.mark.thorough), 0.99])
@pytest.mark.parametrize("side", ["upper", pytest.param("both", marks=pytest.mark.thorough)])
def test_where_questions_are_alike_the_split_costs_at_most_a_twentieth(
    confidence: float, side: Side
) -> None:
    """Of the distance between an end and the value, for any number of leaks."""
    alpha = (1 - confidence) / (2 if side == "both" else 1)
    for questions, n in ((2, 8), (24, 64), (400, 256)):
        total = questions * n
        for leaks in {0, 1, 5, total // 50, total // 2, total - 1}:
            hits = np.full(questions, leaks // questions)
            hits[: leaks % questions] += 1
            rows = tally(hits, np.full(questions, n), 0)
            before = float(hoeffding_upper(rows, alpha)) - leaks / total
            made = proportion_over_questions(hits, n, confidence=confidence, side=side, seed=1)
            assert made.upper - leaks / total <= 1.05 * before


def test_one_question_and_few_draws_keep_all_of_alpha() -> None:
    alone = proportion_over_questions([3], 100, seed=0)
    assert alone.upper == proportion_bound(3, 100).upper
    few = proportion_over_questions([1, 0], 7)
    rows = tally(np.array([1, 0]), np.array([7, 7]), 0)
    assert few.upper == pytest.approx(float(hoeffding_upper(rows, 0.01)), abs=1e-12)
    assert (alone.method, few.method) == ("Clopper-Pearson, Hoeffding's form",) * 2


def test_more_draws_than_rounds_should_meet_are_pooled_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their number is fixed before any is made, so that this is no choice by what they say."""
    monkeypatch.setattr(sys.modules[hoeffding_upper.__module__], "MOST_MET", 80)
    either, pooled = (proportion_over_questions([n, 0], n, seed=0) for n in (40, 41))
    assert "rounds" in either.method
    assert pooled.method == "Clopper-Pearson, Hoeffding's form"
    rows = tally(np.array([41, 0]), np.array([41, 41]), 0)
    assert pooled.upper == pytest.approx(float(hoeffding_upper(rows, 0.01)), abs=1e-12)


@pytest.mark.parametrize("leaks", [0, 3, 40])
def test_rounds_begin_at_the_least_candidate_that_is_not_below_the_pooled_bound(
    leaks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lower, and what lies between it and the bound would be passed over untested."""
    seen = []

    def spy(
        rows: object, weights: object, alpha: float, grid: Callable[[int], np.ndarray]
    ) -> float:
        seen.append((alpha, grid(1000)))
        return 1.0

    monkeypatch.setattr(rounds, "mean_upper", spy)
    made = proportion_over_questions([leaks, leaks], 40, confidence=0.9, seed=0)
    ((alpha, candidates),) = seen
    assert alpha == pytest.approx(0.01)
    every = rounds.arcsine(1000)
    if leaks == 40:
        assert len(candidates) == len(every)
    else:
        assert candidates[0] >= made.upper > candidates[1]
        assert candidates.tolist() == every[-len(candidates) :].tolist()


def test_a_candidate_at_the_pooled_bound_itself_is_where_rounds_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = proportion_over_questions([3, 3], 40, seed=0).upper
    seen = []

    def spy(_: object, __: object, ___: float, grid: Callable[[int], np.ndarray]) -> float:
        seen.append(grid(4).tolist())
        return 1.0

    monkeypatch.setattr(rounds, "mean_upper", spy)
    monkeypatch.setattr(rounds, "arcsine", lambda number: np.array([0.9, at + 1e-3, at, 1e-3]))
    assert proportion_over_questions([3, 3], 40, seed=0).upper == at
    assert seen == [[at, 1e-3]]
