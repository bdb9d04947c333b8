"""Comparisons of models: proofs of leaks, gaps, mean and worst, several with one baseline."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from leakbound.stats import (
    LEAKAGE,
    BoundFunction,
    Estimate,
    Rows,
    bound,
    difference_over_questions,
    every_question,
    excess_of,
    excess_of_mean_and_worst,
    extraction_draws,
    gaps_over_questions,
    leak_at,
    proof_of_leak,
    tail,
    worst_question,
)


def required(bound: BoundFunction) -> BoundFunction:
    """Return the bound function with `confidence` and `side` as required arguments."""
    return lambda *, confidence, side: bound(confidence=confidence, side=side)


HITS, BASE, N = [30, 12, 6], [5, 2, 1], [60, 60, 60]
CONTROL = required(partial(bound, Rows.of_hits(BASE, N)))
EXCESS = required(partial(excess_of, partial(bound, Rows.of_hits(HITS, N)), CONTROL))
MEAN_CONTROL = required(partial(bound, Rows.of_hits(BASE, N), LEAKAGE.mean(), seed=1))
MEAN = required(
    partial(excess_of, partial(bound, Rows.of_hits(HITS, N), LEAKAGE.mean(), seed=1), MEAN_CONTROL)
)
MORE = partial(bound, Rows.of_hits([30, 2, 9], N))
FEWER = partial(bound, Rows.of_hits(BASE, N))


def test_mean_and_worst_share_one_alpha() -> None:
    each, mean = EXCESS, MEAN
    made = excess_of_mean_and_worst(mean, each, 3, confidence=0.9)
    worst = partial(worst_question, each, 3)
    average, largest = made.estimates
    assert average.lower == mean(confidence=0.975, side="lower").lower
    assert average.upper == mean(confidence=0.95, side="upper").upper
    assert largest.lower == worst(confidence=0.975, side="lower").lower
    assert largest.upper == worst(confidence=0.95, side="upper").upper
    assert {made.confidence, average.confidence, largest.confidence} == {0.9}
    assert (average.side, largest.side) == ("both", "both")
    assert (average.about.scope, largest.about.scope) == ("mean", "worst question")
    assert largest.about.over == 3


def test_the_worst_exceeds_no_less_than_the_mean_does() -> None:
    more = partial(bound, Rows.of_hits([9] * 40, [60] * 40))
    base = partial(bound, Rows.of_hits([1] * 40, [60] * 40))
    over = partial(bound, Rows.of_hits([9] * 40, [60] * 40), LEAKAGE.mean(), seed=1)
    other = partial(bound, Rows.of_hits([1] * 40, [60] * 40), LEAKAGE.mean(), seed=2)
    mean, each = partial(excess_of, over, other), partial(excess_of, more, base)
    average, worst = excess_of_mean_and_worst(mean, each, 40).estimates
    assert worst.lower == average.lower
    assert worst.method == average.method
    assert average.lower > worst_question(each, 40, confidence=0.9975, side="lower").lower


def test_the_largest_gap_and_the_count_use_joint_lower_bounds() -> None:
    made = gaps_over_questions(MORE, FEWER, 3, confidence=0.9)
    largest, count = made.estimates
    each = every_question(partial(excess_of, MORE, FEWER), 3, confidence=0.9, side="lower")
    lower = np.asarray(each.lower)
    assert (largest.lower, largest.upper) == (lower.max(), 1)
    assert (count.lower, count.value, count.upper) == ((lower > 0).sum(), 2, 3)
    assert largest.estimand == "gap in leak probability, largest of 3"
    assert count.estimand == "questions with gap in leak probability above 0"
    assert count.target.endswith(
        "under this decoding, relative to the question in its original wording"
    )
    assert not largest.about.jointly
    assert {made.confidence, largest.confidence, count.confidence} == {0.9}


@pytest.mark.parametrize("models", [1, 3])
def test_models_with_one_baseline_share_alpha(models: int) -> None:
    average, entries = difference_over_questions(
        MEAN, EXCESS, 3, models=models, confidence=0.9
    ).estimates
    share = 0.1 / models / 2
    mean = MEAN(confidence=1 - share, side="both")
    each = EXCESS(confidence=1 - share / 3, side="both")
    assert (average.lower, average.upper) == (mean.lower, mean.upper)
    np.testing.assert_allclose(entries.lower, each.lower, rtol=1e-12)
    np.testing.assert_allclose(entries.upper, each.upper, rtol=1e-12)
    for one in (average, entries):
        assert (one.side, one.about.jointly, one.confidence) == ("both", True, 0.9)
    assert entries.method.endswith("Bonferroni over 3")
    usual = difference_over_questions(None, EXCESS, 3)
    (alone,) = usual.estimates
    assert usual.confidence == alone.confidence == 0.99
    _, one = difference_over_questions(MEAN, EXCESS, 3, models=1).estimates
    np.testing.assert_array_equal(alone.lower, one.lower)


def test_questions_may_be_dependent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def spy(*given: Any, independent: bool, **how: Any) -> Estimate:
        seen.append(independent)
        return every_question(*given, independent=independent, **how)

    monkeypatch.setattr("leakbound.stats.comparing.every_question", spy)
    difference_over_questions(MEAN, EXCESS, 3)
    assert seen == [False]


def test_proof_of_leak() -> None:
    known = {
        tail(0.5): 0.1,
        tail(0.0): 0.3,
        LEAKAGE: 0.2,
        leak_at(3): 0.5 * (1 - 0.7**3) + 0.5 * (1 - 0.9**3),
    }
    for quantity, lower in known.items():
        made = proof_of_leak([0.1, 0.2], [1.0, 0.5], quantity)
        assert made.lower == pytest.approx(lower)
        assert (made.upper, made.confidence, made.side) == (1, 1.0, "lower")
        assert made.about.proved
        assert np.isnan(made.value)
    leaks = proof_of_leak([0.1, 0.2], [1.0, 1.0], binary=True)
    assert (leaks.estimand, leaks.lower) == ("proved leak probability", pytest.approx(0.3))


def chance_of(p: float, n: int) -> Fraction:
    return 1 - (1 - Fraction(p)) ** n


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("p", [0.5, 0.25, 0.1, 0.003])
def test_where_n_draws_have_just_the_chance_both_roundings_are_safe(p: float, n: int) -> None:
    """Check at and next to the chance of exactly n draws, where a quotient is a whole number."""
    for chance in (float(chance_of(p, n)) * (1 + ulp * 2.0**-53) for ulp in range(-4, 5)):
        enough, least = extraction_draws(p, chance), extraction_draws(p, chance, fewest=True)
        assert chance_of(p, int(enough)) >= Fraction(chance)
        assert least == 1 or chance_of(p, int(least) - 1) < Fraction(chance)
        assert enough - least in (0, 1)


def test_rare_leaks_rows_and_none() -> None:
    got = extraction_draws([[1e-12, 0.0], [1.0, 1e-300]])
    assert isinstance(got, np.ndarray)
    assert got[0, 0] == pytest.approx(math.log(2) * 1e12, rel=1e-9)
    assert got[0, 1] == math.inf
    assert got[1, 0] == 1
    assert got[1, 1] == pytest.approx(math.log(2) * 1e300, rel=1e-9)


def test_leak_at_that_k_is_at_least_the_chance() -> None:
    """The bound on leak@k for every k is (n, p)-discoverable extraction with n = k."""
    n = int(extraction_draws(3e-4, 0.5))
    proof = proof_of_leak([1e-4, 2e-4], [1.0, 1.0], leak_at([n, n - 2]))
    assert proof.lower[0] >= 0.5 > proof.lower[1]
