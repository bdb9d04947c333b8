"""Statements made of each question's own bound."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.errors import InputError
from leakbound.stats import (
    BoundFunction,
    Estimate,
    each_query,
    every_question,
    leak_at_k_bound,
    leaking_questions,
    mean_bound,
    mean_over_stopped_questions,
    proportion_bound,
    survival_bound,
    worst_query,
    worst_question,
)

RNG = np.random.default_rng(0)
SCORES = RNG.beta(1, 5, (6, 80))
PAPER = partial(mean_bound, SCORES, method="paper")
QUERIED = np.array([[0.0, 0.0, 0.5, 1.0], [0.0, 0.25, 0.25, 0.25]])
X = [0.0, 0.2, 0.5, 1.0]
TALLY = partial(proportion_bound, [0, 1, 4, 40], [100, 100, 100, 100])


def allowed_misses(trials: int, alpha: float) -> int:
    """More than this happens once in 10,000 correct tests."""
    return int(binom.ppf(1 - 1e-4, trials, alpha))


def test_worst_question_splits_alpha_below_only() -> None:
    worst = worst_question(PAPER, 6, confidence=0.95)
    assert worst.upper == PAPER(confidence=0.95).upper.max()
    assert worst.lower == 0
    low = worst_question(PAPER, 6, confidence=0.95, side="lower")
    assert low.lower == PAPER(confidence=1 - 0.05 / 6, side="lower").lower.max()
    assert low.upper == 1
    both = worst_question(PAPER, 6, confidence=0.9, side="both")
    assert both.upper == pytest.approx(worst.upper)
    assert both.lower == pytest.approx(low.lower)
    assert (both.confidence, both.side, both.n) == (0.9, "both", 480)
    assert both.value == SCORES.mean(axis=1).max()


def test_worst_question_keeps_further_axes() -> None:
    worst = worst_question(partial(leak_at_k_bound, SCORES, [1, 8]), 6)
    assert worst.upper.shape == (2,)


def test_worst_question_wants_the_number_of_questions() -> None:
    with pytest.raises(InputError, match="got 5"):
        worst_question(PAPER, 5)


def test_leaking_questions_is_the_formula() -> None:
    alpha, each = 0.1, 0.05
    fails = int(binom.ppf(1 - alpha, 4, each))
    made = leaking_questions(
        TALLY, 4, [0.0, 0.05, 0.3], confidence=1 - alpha, each_confidence=1 - each
    )
    upper = TALLY(confidence=1 - each).upper
    want = [min(4, (upper > x).sum() + fails) for x in (0.0, 0.05, 0.3)]
    assert made.upper.tolist() == want
    assert made.lower.tolist() == [0, 0, 0]
    assert made.value.tolist() == [3, 1, 1]
    assert "at 95 % each, at most 1 fail" in made.method
    below = leaking_questions(
        TALLY, 4, 0.02, confidence=1 - alpha, each_confidence=1 - each, side="lower"
    )
    lower = TALLY(confidence=1 - each, side="lower").lower
    assert below.lower == max(0, (lower > 0.02).sum() - fails)
    assert (below.upper, below.n) == (4, 400)
    both = leaking_questions(TALLY, 4, 0.02, confidence=1 - alpha, each_confidence=0.9999)
    assert both.upper == (TALLY(confidence=0.9999).upper > 0.02).sum()
    split = leaking_questions(
        TALLY, 4, 0.02, confidence=1 - 2 * alpha, each_confidence=1 - each, side="both"
    )
    assert (split.lower, split.upper) == (
        below.lower,
        leaking_questions(TALLY, 4, 0.02, confidence=1 - alpha, each_confidence=1 - each).upper,
    )


def test_questions_are_counted_at_most_once_and_never_below_none() -> None:
    made = leaking_questions(TALLY, 4, [-1.0, 2.0], each_confidence=0.5, side="both")
    assert made.upper[0] == 4
    assert made.lower[1] == 0


@pytest.mark.parametrize(("n", "each"), [(50, "99 %"), (400, "99.75 %"), (1_024, "99.9 %")])
def test_each_question_gets_one_over_n_unless_told(n: int, each: str) -> None:
    bound = partial(proportion_bound, [0, 1], [n, 2 * n])
    made = leaking_questions(bound, 2, 0.1)
    assert f"at {each} each" in made.method
    assert (
        made.upper == leaking_questions(bound, 2, 0.1, each_confidence=float(each[:-2]) / 100).upper
    )


def stopped(bound: BoundFunction) -> BoundFunction:
    """The same bound, as if a rule had ended the sampling."""

    def call(**how: object) -> Estimate:
        from dataclasses import replace

        return replace(bound(**how), stopping="any time")

    return call


def test_a_default_that_follows_from_n_is_refused_where_n_follows_from_scores() -> None:
    with pytest.raises(InputError, match="each_confidence"):
        leaking_questions(stopped(TALLY), 4, 0.1)
    assert leaking_questions(stopped(TALLY), 4, 0.1, each_confidence=0.999).stopping == "any time"


def test_a_count_needs_one_number_a_question() -> None:
    with pytest.raises(InputError, match="one x or one k"):
        leaking_questions(partial(leak_at_k_bound, SCORES, [1, 2]), 6, 0.1)
    with pytest.raises(InputError, match="`x`"):
        leaking_questions(TALLY, 4, np.nan)
    for statement in (worst_question, every_question, mean_over_stopped_questions):
        with pytest.raises(InputError, match="got 5"):
            statement(TALLY, 5)
        with pytest.raises(InputError, match="at least 1"):
            statement(TALLY, 0)


def test_leaking_questions_are_counted_for_every_x_at_once() -> None:
    """All 40 leak alike, so that all lie above an x just below: without the failures that
    are added, the count misses almost always."""
    rng = np.random.default_rng(2)
    p, x = 0.2, np.array([0.0, 0.1, 0.1999, 0.2, 0.5])
    truth = np.where(x < p, 40, 0)
    missed = {"upper": 0, "lower": 0, "bare": 0}
    for hits in rng.binomial(100, p, (200, 40)):
        bound = partial(proportion_bound, hits, 100)
        how = {"confidence": 0.9, "each_confidence": 0.9}
        for side in ("upper", "lower"):
            made = leaking_questions(bound, 40, x, side=side, **how)
            missed[side] += bool(((truth > made.upper) | (truth < made.lower)).any())
        bare = (bound(confidence=0.9, side="upper").upper[:, None] > x).sum(axis=0)
        missed["bare"] += bool((truth > bare).any())
    allowed = allowed_misses(200, 0.1)
    assert missed["upper"] <= allowed
    assert missed["lower"] <= allowed
    assert missed["bare"] > 150


def test_questions_that_were_seen_to_leak_are_a_certain_count_at_0() -> None:
    """One leak of 8 draws says little of p, and that it is not 0."""
    bound = partial(proportion_bound, [1, 0, 1, 8], 8)
    made = leaking_questions(bound, 4, [0.0, 0.001], side="both", seen=3)
    assert made.lower.tolist() == [3, leaking_questions(bound, 4, 0.001, side="both").lower]
    assert made.lower[1] < 3
    assert leaking_questions(bound, 4, 0.0, side="upper", seen=3).lower == 0


def test_each_query_has_its_own_bound_and_nothing_where_nothing_was_drawn() -> None:
    outputs = [8, 0, 2]
    bound = partial(proportion_bound, [3, 1], [8, 2], missing=[1, 0])
    made = each_query(bound, outputs, side="both")
    want = bound(confidence=0.99, side="both")
    assert made.upper.tolist() == [want.upper[0], 1, want.upper[1]]
    assert made.lower.tolist() == [want.lower[0], 0, want.lower[1]]
    assert made.n.tolist() == outputs
    assert made.missing.tolist() == [1, 0, 0]
    keyed = each_query(partial(mean_bound, QUERIED, method="betting", seed=[7, 9]), [4, 0, 4])
    assert keyed.seed.tolist() == [7, 0, 9]  # type: ignore[union-attr]
    assert np.isnan(made.value[1])
    assert not np.isnan(made.value[[0, 2]]).any()
    tails = each_query(partial(survival_bound, QUERIED, X), [4, 4, 0])
    assert tails.upper.shape == (3, 4)
    assert tails.upper[2].tolist() == [1, 1, 1, 1]


def test_the_worst_query_is_one_of_all() -> None:
    bound = partial(proportion_bound, [30, 2], [40, 40])
    made = worst_query(bound, [40, 0, 40], side="lower")
    assert made.lower == proportion_bound(30, 40, side="lower", confidence=1 - 0.01 / 3).lower
    assert worst_query(bound, [40, 0, 40]).upper == 1
    full = worst_query(bound, [40, 40], side="both")
    want = worst_question(bound, 2, side="both")
    assert (full.lower, full.upper, full.value) == (want.lower, want.upper, 0.75)
    assert full.target == "the worst of these 2 queries under this decoding"


@pytest.mark.parametrize("outputs", [[], [0, 0], [[8, 2]], [8, 3], [8, 2, 1], [-1, 2], 8])
def test_bounds_and_outputs_must_fit(outputs: Any) -> None:
    with pytest.raises(InputError, match="outputs"):
        each_query(partial(proportion_bound, [3, 1], [8, 2]), outputs)
