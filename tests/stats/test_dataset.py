"""Statements over questions, beside a control, and what an estimate says of itself."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest

from residua.errors import InputError
from residua.stats import (
    Estimate,
    clean_samples_for,
    excess,
    expectation_deviation_bound,
    leak_at_k,
    leak_at_k_bound,
    leak_at_k_proportion_bound,
    mean_bound,
    mean_over_questions,
    proportion_bound,
    proportion_over_questions,
    samples_for,
    std_bound,
    survival_bound,
    worst_question,
)

RNG = np.random.default_rng(0)
SCORES = RNG.beta(1, 5, (6, 80))
PAPER = partial(mean_bound, SCORES, method="paper")


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


def test_mean_over_questions_is_the_pool() -> None:
    pooled = mean_bound(SCORES.ravel(), method="portfolio", side="both")
    over = mean_over_questions(SCORES, side="both")
    assert (over.lower, over.upper) == pytest.approx((pooled.lower, pooled.upper), abs=1e-12)
    assert over.n == 480
    assert over.upper < mean_bound(SCORES).upper.mean()


def test_pools_refuse_unequal_numbers() -> None:
    with pytest.raises(InputError, match="same number"):
        mean_over_questions([[0.1, 0.2], [0.3, 0.4]], [[1, 1], [2, 1]])
    with pytest.raises(InputError, match="same number"):
        proportion_over_questions([1, 1], [10, 11])


def test_proportion_over_questions_counts_missing_against_the_claim() -> None:
    plain = proportion_over_questions([1, 3, 0], [50, 50, 50], side="both")
    assert plain.value == pytest.approx(4 / 150)
    missing = proportion_over_questions([1, 3, 0], [50, 50, 50], missing=[2, 0, 0], side="both")
    assert missing.upper == proportion_over_questions([3, 3, 0], [50, 50, 50], side="both").upper
    assert missing.lower == plain.lower
    assert (missing.n, missing.missing) == (150, 2)
    assert missing.value == pytest.approx(4 / 148)


def test_excess_takes_opposite_ends_and_adds_errors() -> None:
    upper = proportion_bound(10, 100, confidence=0.995)
    lower = proportion_bound(4, 100, confidence=0.995, side="lower")
    joint = excess(upper, lower)
    assert joint.upper == upper.upper - lower.lower
    assert joint.lower == -1
    assert (joint.side, joint.value) == ("upper", pytest.approx(0.06))
    assert joint.confidence == pytest.approx(0.99)
    reverse = excess(lower, upper)
    assert (reverse.side, reverse.lower) == ("lower", lower.lower - upper.upper)
    both = [proportion_bound(hits, 100, side="both") for hits in (10, 4)]
    assert excess(*both).side == "both"
    assert excess(*both).lower == both[0].lower - both[1].upper


def test_excess_refuses_what_does_not_belong_together() -> None:
    with pytest.raises(InputError, match="one quantity"):
        excess(proportion_bound(1, 9), mean_bound([0.1], side="lower"))
    with pytest.raises(InputError, match="opposite"):
        excess(proportion_bound(1, 9), proportion_bound(1, 9))


def test_proportions_of_questions() -> None:
    bound = proportion_bound([0, 5, 10], 10, missing=[2, 0, 0])
    assert bound.value.tolist() == [0, 0.5, 1]
    assert bound.upper[0] == proportion_bound(2, 10).upper
    assert bound.upper[2] == 1
    ks = leak_at_k_proportion_bound([0, 5, 10], 10, [1, 4, 20])
    assert ks.upper.shape == ks.value.shape == (3, 3)
    assert np.isnan(ks.value[:, 2]).all()
    np.testing.assert_allclose(ks.upper[:, 0], proportion_bound([0, 5, 10], 10).upper)


@pytest.mark.parametrize(
    ("hits", "n", "missing", "message"),
    [(3, 2, 0, "exceed"), (1, 2, 2, "exceed"), (0, 0, 0, "at least 1"), (0.5, 2, 0, "whole"),
     ([1, 2], [3, 4, 5], 0, "one a question"), ([[1]], 2, 0, "1-D")],
)  # fmt: skip
def test_impossible_tallies_are_refused(
    hits: object, n: object, missing: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        proportion_bound(hits, n, missing=missing)


def test_tiny_probabilities_keep_their_digits() -> None:
    bound = leak_at_k_proportion_bound(0, 10**12, 10, confidence=0.95)
    p = -math.expm1(math.log(0.05) / 10**12)
    assert bound.upper == pytest.approx(-math.expm1(10 * math.log1p(-p)), rel=1e-9, abs=0)


def test_shapes_of_tails_and_leak_at_k() -> None:
    assert isinstance(survival_bound(SCORES[0], 0.5).upper, float)
    assert survival_bound(SCORES[0], [0.5, 1.0]).upper.tolist()[1] == 0
    assert survival_bound(SCORES, 0.5).upper.shape == (6,)
    assert survival_bound(SCORES, [0.1, 0.5, 2.0]).upper.shape == (6, 3)
    assert leak_at_k_bound(SCORES, [1, 2]).value.shape == (6, 2)
    assert leak_at_k(SCORES, [1, 2]).shape == (6, 2)
    assert leak_at_k(SCORES[0], 80) == pytest.approx(SCORES[0].max())


def test_a_score_equal_to_x_is_not_above_it() -> None:
    assert survival_bound([0.0, 0.5, 0.5, 1.0], 0.5).value == 0.25


def test_leak_at_k_refuses_k_beyond_n_and_spans_missing_draws() -> None:
    with pytest.raises(InputError, match="k = 5 for n = 4"):
        leak_at_k([0.0, 0.2, 0.4], 5, missing=1)
    low, high = leak_at_k([0.0, 0.2, 0.4], 2, missing=1)
    assert low == pytest.approx(leak_at_k([0.0, 0.2, 0.4, 0.0], 2))
    assert high == pytest.approx(leak_at_k([0.0, 0.2, 0.4, 1.0], 2))
    with pytest.raises(InputError, match="`k`"):
        leak_at_k([0.1], 0)


def test_planning() -> None:
    assert samples_for(0.05) == 922
    assert clean_samples_for(0.02) == math.ceil(math.log(0.01) / math.log(0.98)) == 228
    assert proportion_bound(0, clean_samples_for(0.02)).upper <= 0.02
    assert proportion_bound(0, clean_samples_for(0.02) - 1).upper > 0.02
    for wrong in (0, 1, -0.1):
        with pytest.raises(InputError):
            samples_for(wrong)
        with pytest.raises(InputError):
            clean_samples_for(wrong)


def test_an_estimate_goes_into_json() -> None:
    bound = leak_at_k_bound(SCORES[:2], [1, 99])
    plain = json.loads(json.dumps(bound.to_dict()))
    assert plain["value"][0][1] is None
    assert plain["upper"][1][0] == bound.upper[1, 0]
    assert plain["n"] == [80, 80]
    assert set(plain) == set(Estimate.__dataclass_fields__)


def test_mean_and_deviation_share_alpha() -> None:
    parts = [
        bound(SCORES, confidence=0.95, method="paper", side=side)
        for bound in (mean_bound, std_bound)
        for side in ("upper", "lower")
    ]
    upper = expectation_deviation_bound(SCORES, confidence=0.9, method="paper", rho=1.5)
    np.testing.assert_allclose(upper.upper, parts[0].upper + 1.5 * parts[2].upper)
    lower = expectation_deviation_bound(
        SCORES, confidence=0.9, method="paper", rho=1.5, side="lower"
    )
    np.testing.assert_allclose(lower.lower, parts[1].lower + 1.5 * parts[3].lower)
    with pytest.raises(InputError, match="rho"):
        expectation_deviation_bound(SCORES, rho=-1)
