"""Means over questions, and what an estimate says of itself."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import (
    Estimate,
    Side,
    clean_samples_for,
    expectation_deviation_bound,
    leak_at_k,
    leak_at_k_bound,
    leak_at_k_proportion_bound,
    mean_bound,
    mean_leak_at_k_over_questions,
    mean_over_questions,
    proportion_bound,
    proportion_over_questions,
    rounds,
    samples_for,
    std_bound,
    survival_bound,
)
from leakbound.stats.betting import arcsine
from leakbound.stats.mean_over_questions import hoeffding_upper
from leakbound.stats.proportion import tally

RNG = np.random.default_rng(0)
SCORES = RNG.beta(1, 5, (6, 80))


FEW = SCORES[:, :7]  # too few rounds to learn from


def test_few_draws_of_each_question_are_one_pool() -> None:
    pooled = mean_bound(FEW.ravel(), method="portfolio", side="both")
    over = mean_over_questions(FEW, side="both")
    assert (over.lower, over.upper) == pytest.approx((pooled.lower, pooled.upper), abs=1e-12)
    assert (over.n, over.method, over.seed) == (42, "portfolio mixture", None)
    assert over.upper < mean_bound(FEW).upper.mean()


def test_eight_draws_of_each_question_are_bet_on_in_rounds() -> None:
    """Also where the question with fewest draws has eight, and whatever the weights are."""
    uneven = np.arange(1, 81) <= np.array([80, 8, 80, 80, 80, 80])[:, None]
    for counts, weights in ((None, None), (uneven, None), (None, [1, 2, 3, 4, 5, 0.0])):
        made = mean_over_questions(SCORES, counts, weights=weights, seed=5)
        assert (made.method, made.seed) == ("betting in rounds", 5)
        others = [
            mean_over_questions(SCORES, counts, weights=weights, seed=s).upper for s in range(6, 10)
        ]
        assert set(others) != {made.upper}
    short = np.arange(1, 81) <= np.array([80, 7, 80, 80, 80, 80])[:, None]
    assert mean_over_questions(SCORES, short).method == "portfolio mixture, weighted"
    unasked = mean_over_questions(SCORES, short, weights=[1, 0, 1, 1, 1, 1])
    assert unasked.method == "betting in rounds"


def test_a_pool_of_unequal_numbers_is_weighted() -> None:
    """Draws staked by a_i/n_i: numbers in proportion to the weights are a plain pool again."""
    rng = np.random.default_rng(1)
    scores, counts = SCORES[:, :3], rng.integers(1, 4, (6, 3))
    counts[0] = 1  # three draws, fewer than eight
    uneven = mean_over_questions(scores, counts, side="both")
    assert uneven.method == "portfolio mixture, weighted"
    each = (scores * counts).sum(axis=1) / counts.sum(axis=1)
    assert uneven.value == pytest.approx(each.mean())
    assert uneven.lower < each.mean() < uneven.upper
    plain = mean_over_questions(scores, counts, weights=counts.sum(axis=1), side="both")
    pooled = mean_bound(scores.ravel(), counts.ravel(), method="portfolio", side="both")
    assert (plain.lower, plain.upper) == pytest.approx((pooled.lower, pooled.upper), abs=1e-12)
    assert plain.method == pooled.method


def test_weights_pick_the_questions_that_count() -> None:
    chosen = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    few = mean_over_questions(SCORES, weights=chosen, side="both")
    alone = mean_over_questions(SCORES[:2], side="both")
    assert few.value == pytest.approx(alone.value)
    assert (few.lower, few.upper) == pytest.approx((alone.lower, alone.upper), abs=2e-3)
    assert few.target.startswith("the weighted mean")
    assert alone.target.startswith("the mean")
    assert mean_over_questions(SCORES, weights=np.full(6, 3.0)).upper == pytest.approx(
        mean_over_questions(SCORES).upper, abs=1e-12
    )


def test_unequal_tallies_are_bounded_as_scores_are() -> None:
    hits, n = [3, 1, 0], [40, 20, 30]
    scores = [[0.0, 1.0]] * 3
    counts = [[37, 3], [19, 1], [30, 0]]
    bound = proportion_over_questions(hits, n, side="both")
    same = mean_over_questions(scores, counts, side="both")
    assert (bound.lower, bound.upper) == (same.lower, same.upper)
    assert bound.value == pytest.approx(np.mean([3 / 40, 1 / 20, 0]))
    assert (bound.estimand, bound.method) == ("leak probability", "betting in rounds")
    missing = proportion_over_questions(hits, n, missing=[0, 2, 0], side="both")
    leaked = proportion_over_questions([3, 3, 0], n, side="both")
    assert missing.upper == pytest.approx(leaked.upper, abs=1e-12)
    assert missing.lower == pytest.approx(bound.lower, abs=1e-12)


@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-163, 1e155, 2e307])
@pytest.mark.parametrize("draws", [4, 32])
def test_only_the_ratios_of_weights_count(draws: int, scale: float) -> None:
    """Likelihoods as small as exp(log p) are weights too: their squares are not numbers."""
    rng = np.random.default_rng(draws)
    scores, hits = rng.random((4, draws)), rng.binomial(draws, 0.3, 4)
    weights = np.array([1.0, 2.0, 4.0, 4.0])
    for bound, evidence, shares in (
        (mean_over_questions, (scores,), weights),
        (proportion_over_questions, (hits, np.full(4, draws)), weights),
        (proportion_over_questions, (hits, np.full(4, draws)), np.ones(4)),
    ):
        known, made = (
            bound(*evidence, weights=mine, side="both", seed=1)  # type: ignore[operator]
            for mine in (shares, shares * scale)
        )
        assert (made.value, made.lower, made.upper) == (known.value, known.lower, known.upper)
        assert 0 < made.lower < made.value < made.upper < 1


def test_mean_leak_at_k_bounds_the_blocks() -> None:
    """With k = 1 the blocks are the draws; counts are only notation."""
    one = mean_leak_at_k_over_questions(FEW, 1, side="both")
    mean = mean_over_questions(FEW, side="both")
    assert (one.lower, one.upper) == pytest.approx((mean.lower, mean.upper), abs=1e-12)
    assert (one.estimand, one.n, one.seed) == ("leak@1", 42, 0)
    many = mean_leak_at_k_over_questions(SCORES, 4, side="both")
    assert many.method == "betting in rounds, over the largest of each 4"
    values, counts = np.round(SCORES, 1), np.full(SCORES.shape, 2)
    counted = mean_leak_at_k_over_questions(values, 4, counts, seed=3)
    expanded = mean_leak_at_k_over_questions(np.repeat(values, 2, axis=1), 4, seed=3)
    assert (counted.lower, counted.upper, counted.n) == (expanded.lower, expanded.upper, 960)
    assert counted.value == pytest.approx(np.mean(leak_at_k(values, 4, counts)))
    assert counted.upper != mean_leak_at_k_over_questions(values, 4, counts, seed=4).upper


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_mean_leak_at_several_k_shares_alpha_and_grows_with_k(side: Side) -> None:
    """In whatever order they are given; what is known of one k is known of its neighbours."""
    sizes, how = [8, 2, 40], {"side": side, "seed": 3}
    made = mean_leak_at_k_over_questions(SCORES, sizes, confidence=0.9, **how)
    each = {
        k: mean_leak_at_k_over_questions(SCORES, k, confidence=1 - 0.1 / 3, **how) for k in sizes
    }
    lowers = [max(each[j].lower for j in sizes if j <= k) for k in sizes]
    uppers = [min(each[j].upper for j in sizes if j >= k) for k in sizes]
    assert np.asarray(made.lower).tolist() == lowers
    assert np.asarray(made.upper).tolist() == uppers
    assert np.asarray(made.value).tolist()[:2] == [each[k].value for k in sizes[:2]]
    assert math.isnan(made.value[2])  # type: ignore[index]
    assert made.about.parameter == (8.0, 2.0, 40.0)
    assert (made.confidence, made.side, made.n, made.seed) == (0.9, side, 480, 3)
    assert made.method == (
        "betting in rounds, over the largest of each 2 or betting in rounds, over the largest of "
        "each 8 or portfolio mixture, over the largest of each 40, Bonferroni over k"
    )
    usual = mean_leak_at_k_over_questions(SCORES, sizes, seed=3)
    assert (usual.confidence, usual.side) == (0.99, "both")
    (alone,) = np.asarray(mean_leak_at_k_over_questions(SCORES, [2], **how).upper).tolist()
    assert alone == mean_leak_at_k_over_questions(SCORES, 2, **how).upper


def test_all_draws_of_a_question_are_one_block() -> None:
    made = mean_leak_at_k_over_questions(SCORES, 80, side="both")
    blocks = mean_over_questions(SCORES.max(axis=1)[:, None], side="both")
    assert (made.lower, made.upper) == (blocks.lower, blocks.upper)
    assert math.isnan(made.value)


def test_what_is_known_of_fewer_draws_is_known_of_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """From below, and the reverse from above: all bounds hold at once, and leak@k grows with k."""
    known = {2: (0.3, 0.6), 8: (0.1, 0.9), 40: (0.5, 0.8)}
    plain = mean_leak_at_k_over_questions(SCORES, 2, side="both")

    def canned(_: object, k: int, **how: object) -> Estimate:
        return replace(plain, lower=known[k][0], upper=known[k][1])

    monkeypatch.setattr(sys.modules[hoeffding_upper.__module__], "_mean_largest", canned)
    made = mean_leak_at_k_over_questions(SCORES, [8, 2, 40], side="both")
    assert np.asarray(made.lower).tolist() == [0.3, 0.3, 0.5]
    assert np.asarray(made.upper).tolist() == [0.8, 0.6, 0.8]


def test_mean_leak_at_k_of_a_binary_scorer_uses_hoeffding() -> None:
    """All-leak and no-leak questions have certain blocks: 7 draws make 2 blocks of 3."""
    leaks = np.zeros((5, 7))
    leaks[:2] = 1
    bound = mean_leak_at_k_over_questions(leaks, 3, binary=True, side="both")
    blocks = proportion_over_questions([2, 2, 0, 0, 0], 2, side="both")
    assert (bound.lower, bound.upper) == (blocks.lower, blocks.upper)
    assert bound.n == 35
    loose = mean_leak_at_k_over_questions(leaks, 3, side="both")  # two rounds are too few
    assert loose.method.startswith("portfolio")
    assert bound.method.startswith("Clopper")


def test_mean_leak_at_k_counts_missing_draws_against_the_claim() -> None:
    zeros = np.zeros((4, 6))
    bound = mean_leak_at_k_over_questions(zeros, 2, missing=6, side="both")
    assert bound.upper > mean_leak_at_k_over_questions(zeros, 2).upper + 0.2
    ones = mean_leak_at_k_over_questions(zeros + 1, 2, missing=6, side="both")
    assert 0 < ones.lower < mean_leak_at_k_over_questions(zeros + 1, 2, side="lower").lower
    assert (ones.n, ones.missing, ones.upper, bound.lower) == (48, 24, 1, 0)
    assert mean_leak_at_k_over_questions(np.ones((4, 8)), 2, missing=6).value == 1
    assert math.isnan(mean_leak_at_k_over_questions(np.ones((4, 7)), 2, missing=6).value)


@pytest.mark.parametrize(
    ("bound", "given", "how", "message"),
    [
        *((mean_over_questions, (SCORES,), {"weights": weights}, "6 questions") for weights in (
            [1.0, 2.0], [[1.0] * 6], [0.0] * 6, [-1.0] * 6, [np.nan] * 6,
        )),
        *((mean_leak_at_k_over_questions, (SCORES, k), how, message) for k, how, message in (
            (81, {}, "k = 81 for n = 80"), ([1, 81], {}, "k = 81 for n = 80"), (0, {}, ">= 1"),
            (2, {"binary": True}, "0 or 1"), (2, {"seed": -1}, "seed"),
        )),
        *((proportion_bound, (hits, n), {"missing": missing}, message)
          for hits, n, missing, message in (
              (3, 2, 0, "exceed"), (1, 2, 2, "exceed"), (0, 0, 0, "at least 1"),
              (0.5, 2, 0, "whole"), ([1, 2], [3, 4, 5], 0, "one a question"), ([[1]], 2, 0, "1-D"),
        )),
        (leak_at_k, ([0.0, 0.2, 0.4], 5), {"missing": 1}, "k = 5 for n = 4"),
        (leak_at_k, ([0.1], 0), {}, "`k`"),
        (expectation_deviation_bound, (SCORES,), {"rho": -1}, "rho"),
        *((plan, (wrong,), {}, f"strictly between 0 and 1, got {wrong}")
          for plan in (samples_for, clean_samples_for) for wrong in (0, 1, -0.1)),
    ],
)  # fmt: skip
def test_what_cannot_be_bounded_is_refused(
    bound: Callable[..., object], given: tuple[object, ...], how: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        bound(*given, **how)


def test_tiny_probabilities_keep_their_digits() -> None:
    bound = leak_at_k_proportion_bound(0, 10**12, 10, confidence=0.95, side="upper")
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


def test_leak_at_k_spans_missing_draws() -> None:
    low, high = leak_at_k([0.0, 0.2, 0.4], 2, missing=1)
    assert low == pytest.approx(leak_at_k([0.0, 0.2, 0.4, 0.0], 2))
    assert high == pytest.approx(leak_at_k([0.0, 0.2, 0.4, 1.0], 2))


def test_planning() -> None:
    assert samples_for(0.05, side="upper") == 922
    assert clean_samples_for(0.02) == math.ceil(math.log(0.01) / math.log(0.98)) == 228
    assert proportion_bound(0, 228, side="upper").upper <= 0.02
    assert proportion_bound(0, 227, side="upper").upper > 0.02


def test_an_estimate_goes_into_json() -> None:
    bound = leak_at_k_bound(SCORES[:2], [1, 99])
    plain = json.loads(json.dumps(bound.to_dict()))
    assert plain["value"][0][1] is None
    assert plain["upper"][1][0] == bound.upper[1, 0]
    assert plain["n"] == [80, 80]
    assert set(plain) == {"estimand", "target", *Estimate.__dataclass_fields__}
    assert plain["about"]["parameter"] == [1, 99]


def test_mean_and_deviation_share_alpha() -> None:
    parts = [
        bound(SCORES, confidence=0.95, method="paper", side=side)
        for bound in (mean_bound, std_bound)
        for side in ("upper", "lower")
    ]
    how = {"confidence": 0.9, "method": "paper", "rho": 1.5}
    upper = expectation_deviation_bound(SCORES, side="upper", **how)
    np.testing.assert_allclose(upper.upper, parts[0].upper + 1.5 * parts[2].upper)
    lower = expectation_deviation_bound(SCORES, side="lower", **how)
    np.testing.assert_allclose(lower.lower, parts[1].lower + 1.5 * parts[3].lower)


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
        if proportion_bound(s, n, confidence=1 - alpha, side="upper").upper < p.mean():
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


def test_pooled_blocks_are_far_tighter_than_a_bound_of_each_question() -> None:
    """N = n = 200, k = 32: .028 above the truth, where bounding each question leaves .67."""
    rng = np.random.default_rng(14)
    scores = (rng.random((200, 200)) < 0.001) * 1.0
    truth = 1 - 0.999**32
    made = mean_leak_at_k_over_questions(scores, 32, binary=True, side="upper")
    assert made.upper - truth < 0.04


HALF = np.repeat([0.0, 1.0], 12)
LAWS = {
    "half": HALF,
    "alike": np.full(24, 0.02),
    "one leaks": np.append(np.zeros(23), 0.3),
    "steps": np.linspace(0, 1, 24),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_each_of_the_two_bounds_has_its_share_of_alpha(law: str, confidence: float) -> None:
    """Neither at all of it: the lesser of two bounds fails as often as both together."""
    alpha, rows = 1 - confidence, None
    for seed, hits in enumerate(np.random.default_rng(15).binomial(64, LAWS[law], (3, 24))):
        made = proportion_over_questions(hits, 64, confidence=confidence, seed=seed, side="upper")
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
    alone = proportion_over_questions([3], 100, seed=0, side="upper")
    assert alone.upper == proportion_bound(3, 100, side="upper").upper
    few = proportion_over_questions([1, 0], 7, side="upper")
    rows = tally(np.array([1, 0]), np.array([7, 7]), 0)
    assert few.upper == pytest.approx(float(hoeffding_upper(rows, 0.01)), abs=1e-12)
    assert (alone.method, few.method) == ("Clopper-Pearson, Hoeffding's form",) * 2


def test_more_draws_than_rounds_should_meet_are_pooled_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their number is fixed before any is made, so that this is no choice by what they say."""
    monkeypatch.setattr(sys.modules[hoeffding_upper.__module__], "MOST_MET", 80)
    either, pooled = (proportion_over_questions([n, 0], n, seed=0, side="upper") for n in (40, 41))
    assert "rounds" in either.method
    assert pooled.method == "Clopper-Pearson, Hoeffding's form"
    rows = tally(np.array([41, 0]), np.array([41, 41]), 0)
    assert pooled.upper == pytest.approx(float(hoeffding_upper(rows, 0.01)), abs=1e-12)


@pytest.mark.parametrize("leaks", [0, 3, 40])
def test_rounds_begin_at_the_least_end_that_is_not_below_the_pooled_bound(
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
    made = proportion_over_questions([leaks, leaks], 40, confidence=0.9, seed=0, side="upper")
    ((alpha, ends),) = seen
    assert alpha == pytest.approx(0.01)
    every = arcsine(1000)
    if leaks == 40:
        assert len(ends) == len(every)
    else:
        assert ends[0] >= made.upper > ends[1]
        assert ends.tolist() == every[-len(ends) :].tolist()


def test_an_end_at_the_pooled_bound_itself_is_where_rounds_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = proportion_over_questions([3, 3], 40, seed=0, side="upper").upper
    seen = []

    def spy(_: object, __: object, ___: float, grid: Callable[[int], np.ndarray]) -> float:
        seen.append(grid(4).tolist())
        return 1.0

    monkeypatch.setattr(rounds, "mean_upper", spy)
    monkeypatch.setattr(
        sys.modules[hoeffding_upper.__module__],
        "arcsine",
        lambda number: np.array([0.9, at + 1e-3, at, 1e-3]),
    )
    assert proportion_over_questions([3, 3], 40, seed=0, side="upper").upper == at
    assert seen == [[at, 1e-3]]
