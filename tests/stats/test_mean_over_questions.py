"""Means over questions, and the description of an estimate."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta
from stretches import pooled

from leakbound.stats import (
    LEAKAGE,
    SD,
    Estimate,
    Rows,
    Side,
    bound,
    clean_samples_for,
    ed,
    expectation_deviation,
    leak_at,
    leak_at_k,
    rounds,
    samples_for,
    tail,
)
from leakbound.stats.betting import arcsine
from leakbound.stats.mean_over_questions import hoeffding_upper

RNG = np.random.default_rng(0)
SCORES = RNG.beta(1, 5, (6, 80))
ROWS = Rows.of(SCORES)

FEW = SCORES[:, :7]  # too few rounds to learn from


def test_few_draws_of_each_question_are_one_pool() -> None:
    pool = pooled(FEW)
    over = bound(Rows.of(FEW), LEAKAGE.mean())
    assert (over.lower, over.upper) == pytest.approx((pool.lower, pool.upper), abs=1e-12)
    assert (over.n, over.method, over.seed) == (42, "portfolio mixture", None)
    assert over.upper < bound(Rows.of(FEW)).upper.mean()


def test_eight_draws_of_each_question_are_bet_on_in_rounds() -> None:
    uneven = np.arange(1, 81) <= np.array([80, 8, 80, 80, 80, 80])[:, None]
    for counts, weights in ((None, None), (uneven, None), (None, [1, 2, 3, 4, 5, 0.0])):
        made = bound(Rows.of(SCORES, counts), LEAKAGE.mean(weights), seed=5)
        assert (made.method, made.seed) == ("betting in rounds", 5)
        others = [
            bound(Rows.of(SCORES, counts), LEAKAGE.mean(weights), seed=s).upper
            for s in range(6, 10)
        ]
        assert set(others) != {made.upper}
    short = np.arange(1, 81) <= np.array([80, 7, 80, 80, 80, 80])[:, None]
    assert bound(Rows.of(SCORES, short), LEAKAGE.mean()).method == "portfolio mixture, weighted"
    unasked = bound(Rows.of(SCORES, short), LEAKAGE.mean([1, 0, 1, 1, 1, 1]))
    assert unasked.method == "betting in rounds"


def test_a_pool_of_unequal_numbers_is_weighted() -> None:
    """Draws weighted by a_i/n_i: numbers in proportion to the weights give a plain pool again."""
    rng = np.random.default_rng(1)
    scores, counts = SCORES[:, :3], rng.integers(1, 4, (6, 3))
    counts[0] = 1  # three draws, fewer than eight
    uneven = bound(Rows.of(scores, counts), LEAKAGE.mean())
    assert uneven.method == "portfolio mixture, weighted"
    each = (scores * counts).sum(axis=1) / counts.sum(axis=1)
    assert uneven.value == pytest.approx(each.mean())
    assert uneven.lower < each.mean() < uneven.upper
    plain = bound(Rows.of(scores, counts), LEAKAGE.mean(counts.sum(axis=1)))
    pool = pooled(scores, counts)
    assert (plain.lower, plain.upper) == pytest.approx((pool.lower, pool.upper), abs=1e-12)
    assert plain.method == pool.method


def test_weights_pick_the_questions_that_count() -> None:
    chosen = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    few = bound(ROWS, LEAKAGE.mean(chosen))
    alone = bound(Rows.of(SCORES[:2]), LEAKAGE.mean())
    assert few.value == pytest.approx(alone.value)
    assert (few.lower, few.upper) == pytest.approx((alone.lower, alone.upper), abs=2e-3)
    assert few.target.startswith("the weighted mean")
    assert alone.target.startswith("the mean")
    assert bound(ROWS, LEAKAGE.mean(np.full(6, 3.0))).upper == pytest.approx(
        bound(ROWS, LEAKAGE.mean()).upper, abs=1e-12
    )


def test_unequal_tallies_are_bounded_like_scores() -> None:
    hits, n = [3, 1, 0], [40, 20, 30]
    scores = [[0.0, 1.0]] * 3
    counts = [[37, 3], [19, 1], [30, 0]]
    made = bound(Rows.of_hits(hits, n), LEAKAGE.mean())
    same = bound(Rows.of(scores, counts), LEAKAGE.mean())
    assert (made.lower, made.upper) == (same.lower, same.upper)
    assert made.value == pytest.approx(np.mean([3 / 40, 1 / 20, 0]))
    assert (made.estimand, made.method) == ("leak probability", "betting in rounds")
    missing = bound(Rows.of_hits(hits, n, [0, 2, 0]), LEAKAGE.mean())
    leaked = bound(Rows.of_hits([3, 3, 0], n), LEAKAGE.mean())
    assert missing.upper == pytest.approx(leaked.upper, abs=1e-12)
    assert missing.lower == pytest.approx(made.lower, abs=1e-12)


@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-163, 1e155, 2e307])
@pytest.mark.parametrize("draws", [4, 32])
def test_only_the_ratios_of_weights_count(draws: int, scale: float) -> None:
    """Likelihoods as small as exp(log p) are valid weights, although their squares underflow."""
    rng = np.random.default_rng(draws)
    scores, hits = rng.random((4, draws)), rng.binomial(draws, 0.3, 4)
    weights = np.array([1.0, 2.0, 4.0, 4.0])
    leaks = Rows.of_hits(hits, draws)
    for rows, shares in ((Rows.of(scores), weights), (leaks, weights), (leaks, np.ones(4))):
        known, made = (bound(rows, LEAKAGE.mean(mine), seed=1) for mine in (shares, shares * scale))
        assert (made.value, made.lower, made.upper) == (known.value, known.lower, known.upper)
        assert 0 < made.lower < made.value < made.upper < 1


def test_mean_leak_at_k_bounds_the_blocks() -> None:
    """With k = 1 the blocks are the draws; counts change nothing."""
    one = bound(Rows.of(FEW), leak_at(1).mean())
    mean = bound(Rows.of(FEW), LEAKAGE.mean())
    assert (one.lower, one.upper) == pytest.approx((mean.lower, mean.upper), abs=1e-12)
    assert (one.estimand, one.n, one.seed) == ("leak@1", 42, 0)
    many = bound(ROWS, leak_at(4).mean())
    assert many.method == "betting in rounds, over the largest of each 4"
    values, counts = np.round(SCORES, 1), np.full(SCORES.shape, 2)
    counted = bound(Rows.of(values, counts), leak_at(4).mean(), seed=3)
    expanded = bound(Rows.of(np.repeat(values, 2, axis=1)), leak_at(4).mean(), seed=3)
    assert (counted.lower, counted.upper, counted.n) == (expanded.lower, expanded.upper, 960)
    assert counted.value == pytest.approx(np.mean(leak_at_k(Rows.of(values, counts), 4)))
    assert counted.upper != bound(Rows.of(values, counts), leak_at(4).mean(), seed=4).upper


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_mean_leak_at_several_k_shares_alpha_and_grows_with_k(side: Side) -> None:
    sizes, how = [8, 2, 40], {"side": side, "seed": 3}
    made = bound(ROWS, leak_at(sizes).mean(), confidence=0.9, **how)
    each = {k: bound(ROWS, leak_at(k).mean(), confidence=1 - 0.1 / 3, **how) for k in sizes}
    lowers = [max(each[j].lower for j in sizes if j <= k) for k in sizes]
    uppers = [min(each[j].upper for j in sizes if j >= k) for k in sizes]
    assert np.asarray(made.lower).tolist() == lowers
    assert np.asarray(made.upper).tolist() == uppers
    assert np.asarray(made.value).tolist()[:2] == [each[k].value for k in sizes[:2]]
    assert math.isnan(made.value[2])  # type: ignore[index]
    assert made.about.parameter == (8.0, 2.0, 40.0)
    assert (made.confidence, made.side, made.n, made.seed) == (0.9, side, 480, 3)
    assert made.method == (
        "betting in rounds or portfolio mixture, over the largest of each k, Bonferroni over k"
    )
    usual = bound(ROWS, leak_at(sizes).mean(), seed=3)
    assert (usual.confidence, usual.side) == (0.99, "both")
    (alone,) = np.asarray(bound(ROWS, leak_at([2]).mean(), **how).upper).tolist()
    assert alone == bound(ROWS, leak_at(2).mean(), **how).upper


def test_all_draws_of_a_question_are_one_block() -> None:
    made = bound(ROWS, leak_at(80).mean())
    blocks = bound(Rows.of(SCORES.max(axis=1)[:, None]), LEAKAGE.mean())
    assert (made.lower, made.upper) == (blocks.lower, blocks.upper)
    assert math.isnan(made.value)


def test_bounds_of_smaller_k_carry_over_to_larger_k(monkeypatch: pytest.MonkeyPatch) -> None:
    """All bounds are valid simultaneously, and leak@k grows with k."""
    known = {2: (0.3, 0.6), 8: (0.1, 0.9), 40: (0.5, 0.8)}
    plain = bound(ROWS, leak_at(2).mean())

    def canned(_: object, k: int, __: object) -> Estimate:
        return replace(plain, lower=known[k][0], upper=known[k][1])

    monkeypatch.setattr(sys.modules[hoeffding_upper.__module__], "_mean_largest", canned)
    made = bound(ROWS, leak_at([8, 2, 40]).mean())
    assert np.asarray(made.lower).tolist() == [0.3, 0.3, 0.5]
    assert np.asarray(made.upper).tolist() == [0.8, 0.6, 0.8]


def test_mean_leak_at_k_of_a_binary_scorer_uses_hoeffding() -> None:
    """All-leak and no-leak questions have certain blocks: 7 draws make 2 blocks of 3."""
    leaks = np.zeros((5, 7))
    leaks[:2] = 1
    made = bound(Rows.of(leaks, binary=True), leak_at(3).mean())
    blocks = bound(Rows.of_hits([2, 2, 0, 0, 0], 2), LEAKAGE.mean())
    assert (made.lower, made.upper) == (blocks.lower, blocks.upper)
    assert made.n == 35
    loose = bound(Rows.of(leaks), leak_at(3).mean())  # two rounds are too few
    assert loose.method.startswith("portfolio")
    assert made.method.startswith("Clopper")


def test_tiny_probabilities_keep_their_digits() -> None:
    made = bound(Rows.of_hits(0, 10**12), leak_at(10), confidence=0.95, side="upper")
    p = -math.expm1(math.log(0.05) / 10**12)
    assert made.upper == pytest.approx(-math.expm1(10 * math.log1p(-p)), rel=1e-9, abs=0)


def test_shapes_of_tails_and_leak_at_k() -> None:
    assert isinstance(bound(Rows.of(SCORES[0]), tail(0.5)).upper, float)
    assert bound(Rows.of(SCORES[0]), tail([0.5, 1.0])).upper.tolist()[1] == 0
    assert bound(ROWS, tail(0.5)).upper.shape == (6,)
    assert bound(ROWS, tail([0.1, 0.5, 2.0])).upper.shape == (6, 3)
    assert bound(ROWS, leak_at([1, 2])).value.shape == (6, 2)
    assert leak_at_k(Rows.of(SCORES), [1, 2]).shape == (6, 2)
    assert leak_at_k(Rows.of(SCORES[0]), 80) == pytest.approx(SCORES[0].max())


def test_a_score_equal_to_x_is_not_above_it() -> None:
    assert bound(Rows.of([0.0, 0.5, 0.5, 1.0]), tail(0.5)).value == 0.25


def test_descriptive_estimates_are_over_the_scored_draws() -> None:
    scored, some = Rows.of([0.0, 0.2, 0.4]), Rows.of([0.0, 0.2, 0.4], missing=1)
    assert leak_at_k(some, 2) == leak_at_k(scored, 2) == pytest.approx((0.2 + 0.4 + 0.4) / 3)
    assert leak_at_k(Rows.of_hits(1, 4, 1), 2) == pytest.approx(2 / 3)
    sd = np.std([0.0, 0.2, 0.4])
    for rho in (2.0, -1.0):
        assert expectation_deviation(some, rho) == pytest.approx(0.2 + rho * sd)
    assert bound(some, ed()).value == pytest.approx(expectation_deviation(some))


def test_planning() -> None:
    assert samples_for(0.05, side="upper") == 922
    assert clean_samples_for(0.02) == math.ceil(math.log(0.01) / math.log(0.98)) == 228
    assert bound(Rows.of_hits(0, 228), side="upper").upper <= 0.02
    assert bound(Rows.of_hits(0, 227), side="upper").upper > 0.02


def test_mean_and_deviation_share_alpha() -> None:
    parts = [
        bound(ROWS, quantity, confidence=0.95, method="paper", side=side)
        for quantity in (LEAKAGE, SD)
        for side in ("upper", "lower")
    ]
    how: dict[str, Any] = {"confidence": 0.9, "method": "paper"}
    upper = bound(ROWS, ed(1.5), side="upper", **how)
    np.testing.assert_allclose(upper.upper, parts[0].upper + 1.5 * parts[2].upper)
    lower = bound(ROWS, ed(1.5), side="lower", **how)
    np.testing.assert_allclose(lower.lower, parts[1].lower + 1.5 * parts[3].lower)


def law_of_the_sum(p: np.ndarray) -> np.ndarray:
    law = np.ones(1)
    for each in p:
        law = np.convolve(law, [1 - each, each])
    return law


def chance_of_a_miss(p: np.ndarray, alpha: float) -> dict[str, float]:
    """Return the exact miss rates of an upper, a lower and the plain pooled bound."""
    n, law, missed = len(p), law_of_the_sum(p), dict.fromkeys(("upper", "lower", "plain"), 0.0)
    for s in range(n + 1):
        hits = (np.arange(n) < s).astype(int)
        for side in ("upper", "lower"):
            made = bound(Rows.of_hits(hits, 1), LEAKAGE.mean(), confidence=1 - alpha, side=side)
            if not made.lower - 1e-12 <= p.mean() <= made.upper + 1e-12:
                missed[side] += law[s]
        if bound(Rows.of_hits(s, n), confidence=1 - alpha, side="upper").upper < p.mean():
            missed["plain"] += law[s]
    return missed


def test_plain_clopper_pearson_misses_where_hoeffding_covers() -> None:
    """All questions leak surely, except one that leaks with probability .33."""
    p = np.append(np.ones(11), 0.33)
    assert chance_of_a_miss(p, 0.5)["plain"] == pytest.approx(0.67)
    for law in (p, 1 - p, np.linspace(0, 1, 12), np.full(12, 0.3)):
        for alpha in (0.5, 0.1):
            missed = chance_of_a_miss(law, alpha)
            assert missed["upper"] <= alpha
            assert missed["lower"] <= alpha


HALF = np.repeat([0.0, 1.0], 12)
LAWS = {
    "half": HALF,
    "alike": np.full(24, 0.02),
    "one leaks": np.append(np.zeros(23), 0.3),
    "steps": np.linspace(0, 1, 24),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_each_of_the_two_bounds_has_its_part_of_alpha(law: str, confidence: float) -> None:
    alpha, rows = 1 - confidence, None
    for seed, hits in enumerate(np.random.default_rng(15).binomial(64, LAWS[law], (3, 24))):
        made = bound(
            Rows.of_hits(hits, 64), LEAKAGE.mean(), confidence=confidence, seed=seed, side="upper"
        )
        rows = Rows.of_hits(hits, np.full(24, 64), 0).ordered(seed)
        pooled = float(hoeffding_upper(rows, 0.9 * alpha))
        betting = rounds.mean_upper(rows, np.ones(24), 0.1 * alpha)
        assert made.upper == pytest.approx(min(pooled, betting), abs=1e-12)
        assert (betting < pooled) == (law == "half")
    assert made.method.endswith(
        "Hoeffding's form, at 0.9 of alpha, or betting in rounds at the rest"
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [160, 1024])
def test_a_pilot_chooses_the_form_and_is_not_bet_on(law: str, n: int) -> None:
    """Only the first rounds choose; the chosen form has all of alpha on the remaining rounds."""
    hits = np.random.default_rng(n).binomial(n, LAWS[law])
    rows = Rows.of_hits(hits, np.full(24, n)).ordered(3)
    made = bound(Rows.of_hits(hits, n), LEAKAGE.mean(), seed=3, side="upper")
    assert made.method.endswith("chosen by a pilot")
    draws = rows.in_order(missing=1)
    length = 2 if n == 160 else 10  # 2 rounds of one draw, and 5 of two
    seen, rest = draws[:, :length], draws[:, length:]
    chance, all_, leaks = 0.5 / seen.size, seen.mean(), int(rest.sum())
    unlike = 1.12**2 * (seen.var(axis=1, ddof=1).mean() + chance) < all_ * (1 - all_) + chance
    assert unlike == (law in ("half", "steps"))
    if not unlike:
        exact = beta.ppf(0.99, leaks + 1, rest.size - leaks)
        assert made.upper == pytest.approx(max(exact, (leaks + 1) / rest.size), abs=1e-12)
        return
    plan = rounds.planned(rows, np.ones(24))
    bets = plan.bets()[2 if n == 160 else 5 :]
    after = rounds.least_rejected(bets, arcsine(plan.grid_size), 0.01, 1.0)
    assert made.upper == pytest.approx(after, abs=1e-12)
    either = float(hoeffding_upper(rows, 0.01)), rounds.mean_upper(rows, np.ones(24), 0.01)
    assert made.upper - all_ < 1.1 * (min(either) - all_)


def test_one_question_and_few_draws_keep_all_of_alpha() -> None:
    alone = bound(Rows.of_hits([3], 100), LEAKAGE.mean(), seed=0, side="upper")
    assert alone.upper == bound(Rows.of_hits(3, 100), side="upper").upper
    few = bound(Rows.of_hits([1, 0], 7), LEAKAGE.mean(), side="upper")
    rows = Rows.of_hits(np.array([1, 0]), np.array([7, 7]), 0)
    assert few.upper == pytest.approx(float(hoeffding_upper(rows, 0.01)), abs=1e-12)
    assert (alone.method, few.method) == ("Clopper-Pearson", "Clopper-Pearson, Hoeffding's form")


@pytest.mark.parametrize(
    ("n", "questions", "method"),
    [
        (8, 2, "betting in rounds"),
        (7, 23, "portfolio mixture"),
        (5, 24, "betting in rounds"),
        (4, 24, "portfolio mixture"),
        (4, 100, "betting in rounds"),
        (3, 100, "portfolio mixture"),
    ],
)
def test_few_draws_of_many_questions_teach_enough(n: int, questions: int, method: str) -> None:
    scores = np.linspace(0, 1, n * questions).reshape(questions, n)
    made = bound(Rows.of(scores), LEAKAGE.mean(), seed=1)
    assert made.method == method
    assert made.lower < 0.5 < made.upper


@pytest.mark.parametrize("n", [161, 1000])
@pytest.mark.parametrize("weights", [None, [1, 2, 0, 3]])
def test_many_draws_are_met_by_their_counts(
    n: int, weights: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If order is irrelevant, the bound equals the one by single draws; otherwise it is close."""
    hits, sizes = [0, n, 0, n], np.array([n, n, n, n] if weights is None else [n, 2 * n, n, n + 3])
    hits = [int(h > 0) * int(size) for h, size in zip(hits, sizes, strict=True)]
    mean = LEAKAGE.mean(weights)
    single, some = (
        bound(Rows.of_hits(hits, sizes), mean, seed=1),
        bound(Rows.of_hits(sizes // 3, sizes), mean, seed=1),
    )
    monkeypatch.setattr(rounds, "MOST_MET", 0)
    counted = bound(Rows.of_hits(hits, sizes), mean, seed=1)
    assert (counted.lower, counted.upper) == pytest.approx((single.lower, single.upper), abs=1e-9)
    other = bound(Rows.of_hits(sizes // 3, sizes), mean, seed=1)
    assert (other.lower, other.upper) != (some.lower, some.upper)
    assert (other.lower, other.upper) == pytest.approx((some.lower, some.upper), rel=0.15)


@pytest.mark.parametrize("trials", [20, pytest.param(150, marks=pytest.mark.thorough)])
def test_rounds_by_counts_use_every_draw_and_rarely_miss(
    trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MOST_MET", 0)
    rng, missed, n = np.random.default_rng(6), 0, 170
    p = np.array([0.02, 0.9, 0.5])
    for seed in range(trials):
        rows = Rows.of_hits(rng.binomial(n, p), [n] * 3).ordered(seed)
        plan = rounds.planned(rows, np.ones(3))
        total, leaks = plan.seen(len(plan.cuts))
        assert (total == n).all()
        assert (leaks == rows.hits).all()
        made = bound(rows, LEAKAGE.mean(), confidence=0.9, side="upper", seed=seed)
        missed += made.upper < p.mean()
    assert missed <= 0.1 * trials + 3.3 * math.sqrt(0.09 * trials)


@pytest.mark.parametrize("leaks", [0, 3, 40])
def test_rounds_begin_at_the_pooled_bound(leaks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If rounds began one candidate lower, values between it and the bound would stay untested."""
    seen = []

    def spy(
        rows: object, weights: object, alpha: float, grid: Callable[[int], np.ndarray], _: object
    ) -> float:
        seen.append((alpha, grid(1000)))
        return 1.0

    monkeypatch.setattr(rounds, "mean_upper", spy)
    made = bound(
        Rows.of_hits([leaks, leaks], 40), LEAKAGE.mean(), confidence=0.9, seed=0, side="upper"
    )
    ((alpha, ends),) = seen
    assert alpha == pytest.approx(0.01)
    every = arcsine(1000)
    if leaks == 40:
        assert len(ends) == len(every)
    else:
        assert ends[0] >= made.upper > ends[1]
        assert ends.tolist() == every[-len(ends) :].tolist()


def test_rounds_may_begin_at_the_pooled_bound_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = bound(Rows.of_hits([3, 3], 40), LEAKAGE.mean(), seed=0, side="upper").upper
    seen = []

    def spy(*given: Any) -> float:
        seen.append(given[3](4).tolist())
        return 1.0

    monkeypatch.setattr(rounds, "mean_upper", spy)
    monkeypatch.setattr(
        sys.modules[hoeffding_upper.__module__],
        "arcsine",
        lambda number: np.array([0.9, at + 1e-3, at, 1e-3]),
    )
    assert bound(Rows.of_hits([3, 3], 40), LEAKAGE.mean(), seed=0, side="upper").upper == at
    assert seen == [[at, 1e-3]]
