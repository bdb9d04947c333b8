"""The stratified Fisher test: by hand, by enumeration, and its use in the verdict."""

from __future__ import annotations

from fractions import Fraction
from functools import cache, partial
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.errors import InputError
from leakbound.stats import (
    LEAKAGE,
    Pair,
    Rows,
    bound,
    excess_of,
    excess_of_mean_and_worst,
    leaks_somewhere,
    worst_question,
)
from leakbound.stats.comparing import TINY
from leakbound.stats.fisher import RHO


def p_value_of(x: list[int], n: list[int], y: list[int], m: list[int], missing: int = 0) -> float:
    """Return the p-value; `missing` draws of each are added to its n."""
    mine, other = (
        Rows.of_hits(leaks, np.array(draws) + missing, missing) for leaks, draws in ((x, n), (y, m))
    )
    return leaks_somewhere(Pair(mine, other))


def counted(x: list[int], n: list[int], y: list[int], m: list[int]) -> Fraction:
    """Return the smaller of the two p-values by counting tables with the same totals."""
    tables, tails = [], []
    for a, draws, b, others in zip(x, n, y, m, strict=True):
        h, whole = a + b, comb(draws + others, a + b)
        law = {
            k: Fraction(comb(draws, k) * comb(others, h - k), whole)
            for k in range(max(0, h - others), min(draws, h) + 1)
        }
        tables.append(law)
        tails.append(sum(p for k, p in law.items() if k >= a))
    if len(x) == 1:
        return tails[0]
    total = Fraction(0)
    for choice in product(*(law.items() for law in tables)):
        if sum(k for k, _ in choice) >= sum(x):
            total += np.prod([p for _, p in choice])
    anywhere, rho = 1 - (1 - min(tails)) ** len(x), Fraction(RHO)
    return min(Fraction(1), total / (1 - rho), anywhere / rho)


CASES = [
    ([8], [64], [0], [64]),
    ([3], [5], [1], [7]),
    ([0, 0], [4, 6], [0, 0], [6, 4]),
    ([2, 5, 0], [6, 6, 6], [1, 1, 3], [6, 8, 4]),
    ([9, 0, 0], [9, 9, 9], [0, 6, 6], [9, 9, 9]),  # more at one question, less at others
    ([6, 6], [6, 6], [6, 6], [6, 6]),
]


@pytest.mark.parametrize("case", CASES)
def test_the_p_value_is_the_counted_one(case: tuple[list[int], ...]) -> None:
    assert p_value_of(*case) == pytest.approx(float(counted(*case)), rel=1e-9, abs=1e-11)


def test_golden_values() -> None:
    """8 leaks against a clean control decide at 99 %, 7 do not; then a case of many questions."""
    assert p_value_of([8], [64], [0], [64]) == pytest.approx(0.00309586427679, abs=1e-14)
    assert p_value_of([7], [64], [0], [64]) == pytest.approx(0.00657192241214, abs=1e-14)
    spread = p_value_of([8] + [0] * 23, [64] * 24, [0] * 24, [64] * 24)
    assert spread == pytest.approx(0.00309586427679 / (1 - RHO), abs=1e-10)
    large = p_value_of([256] * 40, [512] * 40, [180] * 40, [512] * 40)
    assert 0 < large < 1e-9, "what is cut from the tails is added"


def test_a_missing_draw_counts_against_the_word() -> None:
    assert p_value_of([5], [20], [1], [20], missing=2) == p_value_of([5], [22], [3], [22])
    graded = Rows.of([0.5, 1.0])
    words = r"^a Fisher test needs a binary scorer, got graded scores\. Use a threshold: `NAME>=t`"
    with pytest.raises(InputError, match=words):
        leaks_somewhere(Pair(graded, graded))


@pytest.mark.parametrize("n", [2, 4])
def test_the_level_of_one_two_and_three_questions_is_enumerated(n: int) -> None:
    """Over all outcomes, for several null hypotheses, with another number of control draws."""

    @cache
    def p_value(pairs: tuple[tuple[int, int], ...]) -> float:
        x, y = map(list, zip(*pairs, strict=True))
        return p_value_of(x, [n] * len(x), y, [n + 1] * len(y))

    for p in ([0.2], [0.5], [0.3, 0.3], [0.1, 0.8], [0.5, 0.5, 0.5][: 3 if n < 4 else 2]):
        q = [*p[:-1], min(1.0, p[-1] + 0.1)] if len(p) > 1 else p
        sizes, m = range(n + 1), n + 1
        level = dict.fromkeys((0.1, 0.3), 0.0)
        mine = [binom.pmf(sizes, n, chance) for chance in p]
        other = [binom.pmf(range(m + 1), m, chance) for chance in q]
        for pairs in product(product(sizes, range(m + 1)), repeat=len(p)):
            got, weight = p_value(tuple(sorted(pairs))), 1.0  # in any order
            for i, (hits, base) in enumerate(pairs):
                weight *= float(mine[i][hits] * other[i][base])
            for alpha in level:
                level[alpha] += weight * (got <= alpha)
        assert all(chance <= alpha for alpha, chance in level.items())


def over(x: list[int], y: list[int], n: int, p_value: float | None, confidence: float = 0.9):
    """Return the mean and the worst excess of leaks, with and without a test."""
    mine, other = (Rows.of_hits(hits, [n] * len(x)) for hits in (x, y))
    each = partial(excess_of, partial(bound, mine), partial(bound, other))
    mean = partial(
        excess_of,
        partial(bound, mine, LEAKAGE.mean(), seed=1),
        partial(bound, other, LEAKAGE.mean(), seed=2),
    )
    made = excess_of_mean_and_worst(mean, each, len(x), p_value=p_value, confidence=confidence)
    return made.estimates, mean, partial(worst_question, each, len(x))


def test_a_rejection_lifts_only_the_lower_bound() -> None:
    x, y = [5, 5, 4], [1, 1, 0]
    plain, _, _ = over(x, y, 30, None)
    made, _, _ = over(x, y, 30, 0.049)
    assert plain[1].lower < 0 < made[1].lower == TINY
    assert made[1].method == "stratified Fisher test"
    assert (made[0], made[1].upper) == (plain[0], plain[1].upper)
    sure = over([29] * 3, y, 30, 0.049)[0], over([29] * 3, y, 30, None)[0]
    assert sure[0] == sure[1], "bets that say more are what is stated"


def test_without_a_rejection_no_leak_is_stated() -> None:
    made, mean, worst = over([29] * 3, [1, 1, 0], 30, 0.0501)
    assert (made[0].lower, made[1].lower) == (0, 0)
    made, mean, worst = over([1, 0, 1], [2, 9, 3], 30, 1.0)
    eighth = {"confidence": 1 - 0.1 / 8, "side": "lower"}
    least = min(mean(**eighth).lower, mean(confidence=0.975, side="lower").lower)
    assert made[0].lower == least < 0
    assert made[1].lower == max(least, worst(**eighth).lower)
    assert made[1].upper == worst(confidence=0.95, side="upper").upper > 0


def test_an_upper_bound_below_0_is_at_a_quarter_of_alpha() -> None:
    made, mean, worst = over([0] * 2, [30] * 2, 30, 1.0)
    assert made[1].upper == worst(confidence=0.975, side="upper").upper < 0
    assert made[0].upper == mean(confidence=0.95, side="upper").upper


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("p", "q"),
    [([0.1] * 4, [0.1] * 4), ([0.02] * 4, [0.2] * 4), ([0.3, 0.1, 0.1], [0.1, 0.1, 0.3])],
)
def test_word_and_bounds_fail_together_at_most_at_alpha(p: list[float], q: list[float]) -> None:
    """At alpha = .2: a model equal to its control, below it everywhere, above it somewhere."""
    rng, missed, trials, n = np.random.default_rng(7), 0, 60, 40
    mean_true, worst_true = np.mean(p) - np.mean(q), max(np.subtract(p, q))
    for _ in range(trials):
        x, y = rng.binomial(n, p).tolist(), rng.binomial(n, q).tolist()
        made, _, _ = over(x, y, n, p_value_of(x, [n] * len(x), y, [n] * len(y)), confidence=0.8)
        missed += bool(
            made[0].lower > mean_true + 1e-12
            or made[1].lower > worst_true + 1e-12
            or made[1].upper < worst_true - 1e-12
            or (made[1].lower > 0 and worst_true <= 0)
        )
    assert missed <= 0.2 * trials
