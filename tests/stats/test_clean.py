"""Which questions are proved clean."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.errors import InputError
from leakbound.stats import (
    clean_questions,
    mean_bound,
    mean_p_value,
    proportion_bound,
    proportion_p_value,
)


def closed_test(p: np.ndarray, alpha: float) -> np.ndarray:
    """Holm as a closed test: i is proved when every set of hypotheses with i in it falls."""
    sets = [np.array(s) for size in range(1, len(p) + 1) for s in combinations(range(len(p)), size)]
    falls = [p[s].min() <= alpha / len(s) for s in sets]
    return np.array(
        [all(f for s, f in zip(sets, falls, strict=True) if i in s) for i in range(len(p))]
    )


@pytest.mark.parametrize("seed", range(20))
def test_holm_is_the_closed_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.3, 2, 6).round(2)
    for alpha in (0.01, 0.2):
        clean = clean_questions(0.1, p, confidence=1 - alpha)
        np.testing.assert_array_equal(clean.holds, closed_test(p, alpha))
    assert (clean.limit, clean.confidence, clean.method) == (0.1, 0.8, "Holm")
    np.testing.assert_array_equal(clean.p_values, p)


def test_a_p_value_at_its_threshold_counts_and_a_gap_ends_the_list() -> None:
    assert clean_questions(0.1, [0.5, 0.25], confidence=0.5).holds.tolist() == [True, True]
    assert clean_questions(0.1, [0.3, 0.26, 0.9], confidence=0.5).holds.tolist() == [False] * 3


def test_no_question_that_leaks_more_is_called_clean() -> None:
    """20 questions leak at the limit, 10 are clean: uncorrected tests err in most trials."""
    rng = np.random.default_rng(4)
    p = np.where(np.arange(30) < 20, 0.1001, 0.001)
    wrong = {"holm": 0, "each": 0}
    for hits in rng.binomial(100, p, (300, 30)):
        values = proportion_p_value(hits, 100, 0.1)
        wrong["holm"] += clean_questions(0.1, values, confidence=0.8).holds[:20].any()
        wrong["each"] += (values[:20] <= 0.2).any()
    assert wrong["holm"] <= binom.ppf(1 - 1e-4, 300, 0.2) < wrong["each"]


def test_the_proportion_p_value_is_the_binomial_tail() -> None:
    hits, n = np.arange(31), 30
    p = proportion_p_value(hits, n, 0.3)
    np.testing.assert_allclose(p, binom.cdf(hits, 30, 0.3), rtol=1e-10)
    assert proportion_p_value(30, 30, 0.3) == 1
    assert isinstance(proportion_p_value(0, 30, 0.3), float)
    assert proportion_p_value(1, 30, 0.3, missing=2) == proportion_p_value(3, 30, 0.3)
    np.testing.assert_array_equal(
        proportion_p_value(2, 30, 0.3, missing=[0, 1]), proportion_p_value([2, 3], 30, 0.3)
    )
    for alpha in (0.3, 0.01):
        upper = proportion_bound(hits, np.full(31, n), confidence=1 - alpha).upper
        np.testing.assert_array_equal(p <= alpha, upper <= 0.3)


def test_the_mean_p_value_is_dual_to_the_any_time_bound_and_rarely_small() -> None:
    rng = np.random.default_rng(5)
    scores = rng.beta(1, 4, (300, 60))
    p = mean_p_value(scores, 0.2)
    for alpha in (0.3, 0.05):
        upper = mean_bound(scores, confidence=1 - alpha, method="any-time").upper
        np.testing.assert_array_equal(p <= alpha, upper <= 0.2)
        assert (p <= alpha).sum() <= binom.ppf(1 - 1e-4, 300, alpha)
    assert (mean_p_value(scores, 0.4) <= 0.05).mean() > 0.9
    missing = mean_p_value(scores[0], 0.4, missing=3)
    assert missing == pytest.approx(mean_p_value(np.append(scores[0], [1, 1, 1]), 0.4))
    assert mean_p_value([0.2, 0.4], 0.4, [3, 0]) == mean_p_value([0.2, 0.2, 0.2], 0.4)


@pytest.mark.parametrize("p", [[], [[0.1]], [0.1, np.nan], [-0.1], [1.1], 0.5])
def test_impossible_p_values_are_refused(p: object) -> None:
    with pytest.raises(InputError, match="p_values"):
        clean_questions(0.1, p)


@pytest.mark.parametrize("limit", [0, 1, -0.1, np.nan])
def test_limits_are_inside_the_range(limit: float) -> None:
    with pytest.raises(InputError, match="limit"):
        clean_questions(limit, [0.1])
    with pytest.raises(InputError, match="limit"):
        proportion_p_value(0, 10, limit)
    with pytest.raises(InputError, match="limit"):
        mean_p_value([0.1], limit)
    with pytest.raises(InputError, match="exceed"):
        proportion_p_value(11, 10, 0.1)
