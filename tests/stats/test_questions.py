"""Statements made of each question's own bound."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.errors import InputError
from leakbound.stats import (
    BoundFunction,
    Estimate,
    every_question,
    leak_at_k_bound,
    leaking_questions,
    mean_bound,
    mean_over_stopped_questions,
    proportion_bound,
    worst_question,
)

RNG = np.random.default_rng(0)
SCORES = RNG.beta(1, 5, (6, 80))
PAPER = partial(mean_bound, SCORES, method="paper")
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


@pytest.mark.parametrize("independent", [True, False])
def test_every_question_gives_each_its_share(independent: bool) -> None:
    share = 1 - 0.9 ** (1 / 4) if independent else 0.1 / 4
    for side in ("upper", "lower", "both"):
        every = every_question(TALLY, 4, confidence=0.9, side=side, independent=independent)
        alone = TALLY(confidence=1 - share, side=side)
        np.testing.assert_allclose(every.upper, alone.upper, rtol=1e-12)
        np.testing.assert_allclose(every.lower, alone.lower, rtol=1e-12)
        assert (every.confidence, every.side) == (0.9, side)
    assert every.method == f"Clopper-Pearson, {'Sidak' if independent else 'Bonferroni'} over 4"
    assert every.about.jointly
    assert every.target == "every one of these questions, jointly, under this decoding"


def test_every_question_holds_jointly() -> None:
    """Uncorrected, some interval of 30 misses in most trials."""
    rng = np.random.default_rng(1)
    p = np.linspace(0.05, 0.95, 30)
    missed = {"every": 0, "each": 0}
    for hits in rng.binomial(60, p, (300, 30)):
        bound = partial(proportion_bound, hits, 60)
        for name, made in (
            ("every", every_question(bound, 30, confidence=0.8, side="both")),
            ("each", bound(confidence=0.8, side="both")),
        ):
            missed[name] += bool(((p < made.lower) | (p > made.upper)).any())
    assert missed["every"] <= allowed_misses(300, 0.2) < missed["each"]


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


def test_mean_over_stopped_questions_is_the_formula() -> None:
    above, below = (int(binom.ppf(share, 4, 0.02)) / 4 for share in (0.975, 0.95))
    assert (above, below) == (0.25, 0.25)
    made = mean_over_stopped_questions(
        stopped(TALLY), 4, confidence=0.9, each_confidence=0.98, side="both"
    )
    ends = [TALLY(confidence=0.98, side=side) for side in ("upper", "lower")]
    assert made.upper == pytest.approx(ends[0].upper.mean() + above)
    assert made.upper < TALLY(confidence=0.975, side="upper").upper.max()
    assert made.lower == pytest.approx(max(0, ends[1].lower.mean() - below))
    assert made.value == pytest.approx(0.1125)
    assert (made.stopping, made.side, made.confidence) == ("any time", "both", 0.9)
    loose = mean_over_stopped_questions(TALLY, 4, each_confidence=0.01)
    assert (loose.lower, loose.upper) == (0, TALLY(confidence=0.995, side="upper").upper.max())


def test_the_mean_does_not_lie_above_the_worst_question() -> None:
    """Its largest bound has half of what may fail, so the mean is never looser than at that."""
    alike = partial(proportion_bound, [1, 0, 2, 1], [300] * 4)
    made = mean_over_stopped_questions(stopped(alike), 4, each_confidence=0.99)
    assert made.upper == alike(confidence=0.995, side="upper").upper.max()
    both = mean_over_stopped_questions(stopped(alike), 4, each_confidence=0.99, side="both")
    assert both.upper == alike(confidence=0.9975, side="upper").upper.max()
    alone = mean_over_stopped_questions(stopped(partial(proportion_bound, [1], [300])), 1)
    assert alone.upper == pytest.approx(
        proportion_bound(1, 300, confidence=0.99, side="upper").upper, rel=1e-6
    )


def test_mean_over_questions_whose_bounds_fail_often() -> None:
    """Bounds that each fail with probability .6: their mean alone misses most of the time."""
    rng = np.random.default_rng(3)
    p = np.linspace(0.1, 0.5, 40)
    missed = {"mean": 0, "bare": 0}
    for hits in rng.binomial(100, p, (100, 40)):
        bound = partial(proportion_bound, hits, 100)
        made = mean_over_stopped_questions(bound, 40, confidence=0.9, each_confidence=0.4)
        missed["mean"] += made.upper < p.mean()
        missed["bare"] += bound(confidence=0.2, side="upper").upper.mean() < p.mean()
    assert missed["mean"] <= allowed_misses(100, 0.1) < missed["bare"]


def test_questions_that_were_seen_to_leak_are_a_certain_count_at_0() -> None:
    """One leak of 8 draws says little of p, and that it is not 0."""
    bound = partial(proportion_bound, [1, 0, 1, 8], 8)
    made = leaking_questions(bound, 4, [0.0, 0.001], side="both", seen=3)
    assert made.lower.tolist() == [3, leaking_questions(bound, 4, 0.001, side="both").lower]
    assert made.lower[1] < 3
    assert leaking_questions(bound, 4, 0.0, side="upper", seen=3).lower == 0


@pytest.mark.parametrize("questions", [1, 24, 100, 400])
def test_the_mean_after_stopping_spends_what_the_number_of_questions_says(questions: int) -> None:
    """Its alpha' lets b bounds fail, b and alpha' such that more do with probability <= alpha."""
    rows = [0] * questions
    bound = partial(proportion_bound, rows, 314, method="any-time")
    made = mean_over_stopped_questions(bound, questions)
    each, fails = re.search(r"at ([\d.]+) % each, at most (\d+) fail", made.method).groups()
    share = 1 - float(each) / 100
    assert binom.sf(int(fails), questions, share) <= 0.01 + 1e-7
    assert binom.sf(int(fails), questions, 1.2 * share) > 0.01 / 2
    usual = mean_over_stopped_questions(bound, questions, each_confidence=0.999)
    assert made.upper <= usual.upper


def test_few_clean_questions_have_a_small_mean_after_stopping() -> None:
    """24 of them: at most .034 on both sides together, where .0693 was stated beside .0224."""
    bound = partial(proportion_bound, [0] * 24, 314, method="any-time")
    assert mean_over_stopped_questions(bound, 24, side="both").upper < 0.036
