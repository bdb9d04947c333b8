"""The median by order statistics: tabulated ranks, missing draws, coverage by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from leakbound.stats import Quantity, Rows, Side, bound

MEDIAN = Quantity("median")
SIDES: tuple[Side, Side] = ("upper", "lower")
TEN = np.arange(1, 11) / 20


@pytest.mark.parametrize(
    ("n", "confidence", "rank"),  # upper bound: Conover, Practical Nonparametric Statistics
    [(5, 0.95, 5), (8, 0.95, 7), (10, 0.95, 9), (20, 0.95, 15), (20, 0.99, 16), (4, 0.95, None)],
)
def test_the_ranks_equal_the_sign_tests(n: int, confidence: float, rank: int | None) -> None:
    scores = np.arange(1, n + 1) / 100
    upper = bound(Rows.of(scores), MEDIAN, confidence=confidence, side="upper").upper
    assert upper == (1.0 if rank is None else scores[rank - 1])
    lower = bound(Rows.of(scores), MEDIAN, confidence=confidence, side="lower").lower
    assert lower == pytest.approx(0.0 if rank is None else scores[n - rank], abs=1e-15)


def test_missing_draws_are_the_largest_above_and_the_least_below() -> None:
    made = bound(Rows.of(TEN[:8], missing=2), MEDIAN, confidence=0.9)
    assert (made.lower, made.value, made.upper) == (pytest.approx(0.0), 0.2, 1.0)
    both = bound(Rows.of([TEN, TEN[::-1]], [[1] * 10, [2] * 10]), MEDIAN, confidence=0.9)
    assert both.value.tolist() == [0.25, 0.25]  # type: ignore[union-attr]
    assert (both.upper[0], both.upper[1]) == (0.45, 0.4)  # type: ignore[index]
    assert (made.estimand, made.method, made.seed) == ("median", "order statistics", None)


@pytest.mark.parametrize("p", [(0.5, 0.2, 0.3), (0.3, 0.3, 0.4), (0.1, 0.39, 0.51)])
def test_every_outcome_of_five_draws_is_covered(p: tuple[float, ...]) -> None:
    values = np.array([0.0, 0.5, 1.0])
    median = values[np.searchsorted(np.cumsum(p), 0.5)]
    outcomes = np.array([*product(range(3), repeat=5)])
    rows, chances = Rows.of(values[outcomes]), np.array(p)[outcomes].prod(axis=1)
    for side, alpha in product(SIDES, (0.5, 0.1, 0.03)):
        made = bound(rows, MEDIAN, confidence=1 - alpha, side=side)
        covered = (made.lower <= median) & (median <= made.upper)
        assert chances[~covered].sum() <= alpha + 1e-12
