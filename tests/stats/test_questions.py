"""Statements derived from each question's bound, and joint claims."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom
from stretches import early

from leakbound.errors import InputError
from leakbound.stats import (
    LEAKAGE,
    SD,
    Rows,
    Stopped,
    bound,
    clean_questions,
    ed,
    every_question,
    joint,
    leak_at,
    leaking_questions,
    p_value,
    tail,
    worst_question,
)

RNG = np.random.default_rng(0)
SCORES = RNG.beta(1, 5, (6, 80))
PAPER = partial(bound, Rows.of(SCORES), method="paper", side="upper")
X = [0.0, 0.2, 0.5, 1.0]
TALLY = partial(bound, Rows.of_hits([0, 1, 4, 40], [100, 100, 100, 100]), side="upper")


def test_worst_question_splits_alpha_below_only() -> None:
    worst = worst_question(PAPER, 6, confidence=0.95, side="upper")
    assert worst.upper == PAPER(confidence=0.95).upper.max()
    assert worst.lower == 0
    low = worst_question(PAPER, 6, confidence=0.95, side="lower")
    assert low.lower == PAPER(confidence=1 - 0.05 / 6, side="lower").lower.max()
    assert low.upper == 1
    both = worst_question(PAPER, 6, confidence=0.9)
    assert both.upper == pytest.approx(worst.upper)
    assert both.lower == pytest.approx(low.lower)
    assert (both.confidence, both.side, both.n) == (0.9, "both", 480)
    assert both.value == SCORES.mean(axis=1).max()


def test_worst_question_keeps_further_axes() -> None:
    worst = worst_question(partial(bound, Rows.of(SCORES), leak_at([1, 8])), 6)
    assert worst.upper.shape == (2,)


def test_leaking_questions_is_the_formula() -> None:
    alpha, each = 0.1, 0.05
    fails = int(binom.ppf(1 - alpha, 4, each))
    how = {"confidence": 1 - alpha, "each_confidence": 1 - each}
    made = leaking_questions(TALLY, 4, [0.0, 0.05, 0.3], side="upper", **how)
    upper = TALLY(confidence=1 - each).upper
    want = [min(4, (upper > x).sum() + fails) for x in (0.0, 0.05, 0.3)]
    assert made.upper.tolist() == want
    assert made.lower.tolist() == [0, 0, 0]
    assert made.value.tolist() == [3, 1, 1]
    assert "at 95 % each, at most 1 fail" in made.method
    below = leaking_questions(TALLY, 4, 0.02, side="lower", **how)
    lower = TALLY(confidence=1 - each, side="lower").lower
    assert below.lower == max(0, (lower > 0.02).sum() - fails)
    assert (below.upper, below.n) == (4, 400)
    both = leaking_questions(TALLY, 4, 0.02, side="upper", **how | {"each_confidence": 0.9999})
    assert both.upper == (TALLY(confidence=0.9999).upper > 0.02).sum()
    split = leaking_questions(TALLY, 4, 0.02, confidence=1 - 2 * alpha, each_confidence=1 - each)
    assert (split.lower, split.upper) == (
        below.lower,
        leaking_questions(TALLY, 4, 0.02, side="upper", **how).upper,
    )


def test_questions_are_counted_at_most_once_and_never_below_none() -> None:
    made = leaking_questions(TALLY, 4, [-1.0, 2.0], each_confidence=0.5)
    assert made.upper[0] == 4
    assert made.lower[1] == 0


@pytest.mark.parametrize(("n", "each"), [(50, "99 %"), (400, "99.75 %"), (1_024, "99.9 %")])
def test_each_question_of_a_count_gets_one_over_n(n: int, each: str) -> None:
    rows = Rows.of_hits([0, 1], [n, 2 * n])
    made = bound(rows, LEAKAGE.above(0.1))
    assert f"at {each} each" in made.method
    own = leaking_questions(partial(bound, rows), 2, 0.1, each_confidence=float(each[:-2]) / 100)
    assert made.upper == own.upper
    stopped = bound(Stopped(rows, 2 * n), LEAKAGE.above(0.1))  # n follows from the scores
    assert "at 99.9 % each" in stopped.method


COIN = np.tile([0.0, 1.0], (3, 1))


def test_a_question_without_draws_has_trivial_bounds_among_others() -> None:
    counts = [[5, 2], [0, 0], [1, 1]]
    rows = Rows.of(COIN, counts, [1, 0, 0], binary=True, empty=True)
    for quantity, most in ((LEAKAGE, 1.0), (leak_at([2, 9]), 1.0), (SD, 0.5)):
        made = bound(rows, quantity)
        want = bound(Rows.of(COIN[:2], [[5, 2], [1, 1]], [1, 0], binary=True), quantity)
        np.testing.assert_array_equal(np.delete(made.upper, 1, axis=0), want.upper)
        np.testing.assert_array_equal(np.delete(made.lower, 1, axis=0), want.lower)
        assert np.all(np.ravel(made.lower[1]) == 0)
        assert np.all(np.ravel(made.upper[1]) == most)
        assert np.isnan(np.ravel(made.value[1])).all()
    assert (made.n.tolist(), made.missing.tolist()) == ([8, 0, 2], [1, 0, 0])
    graded = Rows.of(COIN * 0.7, counts, empty=True)
    for quantity in (LEAKAGE, tail(X), leak_at(2), ed()):
        made = bound(graded, quantity, seed=[7, 8, 9])
        assert np.all(np.ravel(made.lower[1]) == 0)
        assert np.all(np.ravel(made.upper[1]) >= 1)
        assert np.isnan(np.ravel(made.value[1])).all()
        assert not np.isnan(np.ravel(made.upper)).any()


def test_the_worst_is_one_of_all_also_of_those_without_draws() -> None:
    rows = Rows.of(COIN, [[10, 30], [0, 0], [38, 2]], binary=True, empty=True)
    made = bound(rows, LEAKAGE.worst(), side="lower")
    assert made.lower == bound(Rows.of_hits(30, 40), side="lower", confidence=1 - 0.01 / 3).lower
    assert (bound(rows, LEAKAGE.worst()).upper, made.value) == (1, 0.75)
    assert bound(rows, LEAKAGE.above(0.9)).upper >= 1


def test_error_rates_add_up() -> None:
    parts = [bound(Rows.of_hits(hits, 100), confidence=0.997) for hits in (0, 4, 9)]
    claim = joint(*parts, confidence=0.99)
    assert claim.estimates == tuple(parts)
    assert claim.confidence == pytest.approx(0.991)
    assert joint(*[bound(Rows.of_hits(0, 9), confidence=1 - 0.01 / 7)] * 7).confidence == (
        pytest.approx(0.99)
    )


@pytest.mark.parametrize(
    ("estimates", "message"),
    [
        (3, "3 estimates at 99 % are jointly valid only at 97 %. Compute each at 99.667 %."),
        (400, "400 estimates at 99 % are jointly valid only at 0 %. Compute each at 99.99750 %."),
    ],
)
def test_a_claim_that_costs_too_much_is_refused_with_the_fix(estimates: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        joint(*[bound(Rows.of_hits(0, 9))] * estimates)
    assert str(caught.value) == message
    each = float(message.split()[-2]) / 100
    joint(*[bound(Rows.of_hits(0, 9), confidence=each)] * estimates)


def test_each_question_is_a_claim_unless_they_were_bound_jointly() -> None:
    made = partial(bound, Rows.of_hits([0, 3, 5], [50, 50, 50]))
    with pytest.raises(InputError, match="3 estimates"):
        joint(made(confidence=0.99))
    every = every_question(made, 3, confidence=0.995)
    assert joint(every, bound(Rows.of_hits(0, 9), confidence=0.995)).confidence == (
        pytest.approx(0.99)
    )


@pytest.mark.parametrize("independent", [True, False])
def test_every_question_splits_its_alpha(independent: bool) -> None:
    share = 1 - 0.9 ** (1 / 4) if independent else 0.1 / 4
    for side in ("upper", "lower", "both"):
        every = every_question(TALLY, 4, confidence=0.9, side=side, independent=independent)
        alone = TALLY(confidence=1 - share, side=side)
        np.testing.assert_allclose(every.upper, alone.upper, rtol=1e-12)
        np.testing.assert_allclose(every.lower, alone.lower, rtol=1e-12)
        assert (every.confidence, every.side) == (0.9, side)
    assert every.method == f"Clopper-Pearson, {'Sidak' if independent else 'Bonferroni'} over 4"
    assert every.about.jointly
    assert every.target == "each of these questions, jointly, under this decoding"


def closed_test(p: np.ndarray, alpha: float) -> np.ndarray:
    """Holm as a closed test: i is proved if every set of hypotheses with i in it is rejected."""
    sets = [np.array(s) for size in range(1, len(p) + 1) for s in combinations(range(len(p)), size)]
    falls = [p[s].min() <= alpha / len(s) for s in sets]
    return np.array(
        [all(f for s, f in zip(sets, falls, strict=True) if i in s) for i in range(len(p))]
    )


@pytest.mark.parametrize("seed", range(8))
def test_holm_is_the_closed_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.3, 2, 6).round(2)
    for alpha in (0.01, 0.2):
        clean = clean_questions(0.1, p, confidence=1 - alpha)
        np.testing.assert_array_equal(clean.holds, closed_test(p, alpha))
    assert (clean.limit, clean.confidence, clean.method) == (0.1, 0.8, "Holm")
    np.testing.assert_array_equal(clean.p_values, p)


def test_a_p_value_at_its_threshold_counts() -> None:
    assert clean_questions(0.1, [0.5, 0.25], confidence=0.5).holds.tolist() == [True, True]
    assert clean_questions(0.1, [0.3, 0.26, 0.9], confidence=0.5).holds.tolist() == [False] * 3


def test_the_proportion_p_value_is_the_binomial_tail() -> None:
    hits, n = np.arange(31), 30
    p = p_value(Rows.of_hits(hits, n), 0.3)
    np.testing.assert_allclose(p, binom.cdf(hits, 30, 0.3), rtol=1e-10)
    assert p_value(Rows.of_hits(30, 30), 0.3) == 1
    assert isinstance(p_value(Rows.of_hits(0, 30), 0.3), float)
    assert p_value(Rows.of_hits(1, 30, 2), 0.3) == p_value(Rows.of_hits(3, 30), 0.3)
    np.testing.assert_array_equal(
        p_value(Rows.of_hits(2, 30, [0, 1]), 0.3), p_value(Rows.of_hits([2, 3], 30), 0.3)
    )
    for alpha in (0.3, 0.01):
        upper = bound(Rows.of_hits(hits, np.full(31, n)), confidence=1 - alpha, side="upper").upper
        np.testing.assert_array_equal(p <= alpha, upper <= 0.3)


def test_the_mean_p_value_is_dual_to_the_any_time_bound_and_rarely_small() -> None:
    rng = np.random.default_rng(5)
    scores = rng.beta(1, 4, (300, 60))
    p = p_value(Rows.of(scores), 0.2)
    for alpha in (0.3, 0.05):
        upper = early(Rows.of(scores), confidence=1 - alpha, side="upper").upper
        np.testing.assert_array_equal(p <= alpha, upper <= 0.2)
        assert (p <= alpha).sum() <= binom.ppf(1 - 1e-4, 300, alpha)
    assert (p_value(Rows.of(scores), 0.4) <= 0.05).mean() > 0.9
    missing = p_value(Rows.of(scores[0], missing=3), 0.4)
    assert missing == pytest.approx(p_value(Rows.of(np.append(scores[0], [1, 1, 1])), 0.4))
    assert p_value(Rows.of([0.2, 0.4], [3, 0]), 0.4) == p_value(Rows.of([0.2, 0.2, 0.2]), 0.4)
