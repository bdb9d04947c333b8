"""Sampling that stops once a claim is decided."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom
from stretches import early

from leakbound.errors import InputError
from leakbound.stats import (
    BoundFunction,
    Claim,
    Estimate,
    Looks,
    Rows,
    Side,
    Stopped,
    bound,
    mean_over_stopped_questions,
    parse_claim,
)

TALLY = partial(bound, Rows.of_hits([0, 1, 4, 40], [100, 100, 100, 100]))
TWO_PERCENT = parse_claim("p<=0.02")


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("p<=0.02", Claim("p", 0.02)),
        (" p <= .02 ", Claim("p", 0.02)),
        ("p<0.02", Claim("p", 0.02)),
        ("mean<=1e-1", Claim("mean", 0.1)),
        ("mean < 0.5", Claim("mean", 0.5)),
        ("p<=2%", Claim("p", 0.02)),
        ("p <= 2.9% ", Claim("p", 0.029)),
    ],
)
def test_claims_are_parsed(text: str, claim: Claim) -> None:
    assert parse_claim(text) == claim
    assert parse_claim(claim.text) == claim


@pytest.mark.parametrize(
    "text",
    ["p>=0.02", "p<=%", "q<=0.1", "p<=", "<=0.1", "p<=-0.1", "p<=0.1 or so", "", "p<=nan", "0.1"],
)
def test_invalid_claims_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="a claim must be like"):
        parse_claim(text)


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_both_halves_of_alpha_are_charged(side: str) -> None:
    kwargs = {"side": side, "confidence": 0.9}
    share = {"side": side, "confidence": 0.95}
    stopped = bound(Stopped(Rows.of_hits([3, 3, 0, 100], [60, 100, 100, 100]), 100), **kwargs)
    anytime = early(Rows.of_hits([3, 3, 0, 100], [60, 100, 100, 100]), **share)
    fixed = bound(Rows.of_hits([3, 3, 0, 100], [60, 100, 100, 100]), **share)
    upper = [anytime.upper[0], *np.minimum(anytime.upper, fixed.upper)[1:]]
    lower = [anytime.lower[0], *np.maximum(anytime.lower, fixed.lower)[1:]]
    assert stopped.upper.tolist() == pytest.approx(upper, abs=1e-12)
    assert stopped.lower.tolist() == pytest.approx(lower, abs=1e-12)
    assert (stopped.stopping, stopped.confidence) == ("stopped at a look, at most 100 draws", 0.9)
    if side == "upper":
        assert fixed.upper[1] < anytime.upper[1]


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_a_mean_is_charged_likewise(side: str) -> None:
    scores = np.random.default_rng(0).beta(1, 6, 80)
    counts = np.stack([np.arange(80) < 50, np.ones(80)]).astype(int)
    scores = np.stack([scores, scores])
    share = {"side": side, "confidence": 0.95}
    stopped = bound(Stopped(Rows.of(scores, counts), 80), side=side, confidence=0.9, seed=5)
    anytime = early(Rows.of(scores, counts), **share)
    fixed = bound(Rows.of(scores, counts), seed=5, **share)
    assert stopped.upper[0] == anytime.upper[0]
    assert stopped.upper[1] == min(anytime.upper[1], fixed.upper[1])
    assert stopped.lower[0] == pytest.approx(anytime.lower[0], abs=1e-12)
    assert stopped.lower[1] == pytest.approx(max(anytime.lower[1], fixed.lower[1]), abs=1e-12)
    assert (stopped.seed, stopped.stopping) == (5, "stopped at a look, at most 80 draws")


def test_missing_draws_count_against_the_claim_at_the_cap_too() -> None:
    gone = bound(Stopped(Rows.of_hits(2, 50, 3), 50))
    assert gone.upper == bound(Stopped(Rows.of_hits(5, 50), 50)).upper
    assert gone.lower == bound(Stopped(Rows.of_hits(2, 50), 50)).lower
    assert (gone.n, gone.missing, gone.value) == (50, 3, pytest.approx(2 / 47))


def run(looks: Looks, draws: np.ndarray) -> tuple[str, list[int]]:
    """Return the verdict on one question with these draws, and the number of looks."""
    seen = [looks.first]
    while True:
        rows = Rows.of(draws[: seen[-1]])
        verdict = str(looks.decide(rows)[0])
        if verdict != "open" or seen[-1] == looks.cap:
            return verdict, seen
        seen.append(int(looks.next_look(rows)[0]))


CLEAN, DOUBLING = np.zeros(1024), [8, 16, 32, 64, 128, 256]
MEAN = parse_claim("mean<=0.1")


@pytest.mark.parametrize(
    ("claim", "cap", "draws", "verdict", "seen"),
    [
        (TWO_PERCENT, 1024, CLEAN, "holds", [*DOUBLING, 314]),
        (TWO_PERCENT, 300, CLEAN, "holds", [*DOUBLING, 300]),
        (TWO_PERCENT, 1024, np.tile([0.0, 1.0], 512), "refuted", [8]),
        (MEAN, 64, np.full(64, 0.6), "refuted", [8]),
        (MEAN, 1024, CLEAN, "holds", [8, 16, 32, 60]),
        (MEAN, 200, np.tile([0.0, 0.2], 100), "open", [8, 16, 32, 64, 128, 196, 200]),
    ],
)
def test_a_question_has_looks_until_it_is_decided(
    claim: Claim, cap: int, draws: np.ndarray, verdict: str, seen: list[int]
) -> None:
    looks = Looks(claim, cap)
    assert run(looks, draws) == (verdict, seen)
    if verdict == "holds" and seen[-1] < cap:
        assert looks.decide(Rows.of([0], [seen[-1] - 1])) == ["open"]


def test_a_decision_compares_the_bounds_with_the_limit() -> None:
    for claim in (TWO_PERCENT, Claim("mean", 0.02)):
        looks = Looks(claim, 400, confidence=0.9)
        scores, counts = np.tile([0.0, 1.0], (4, 1)), [[400, 0], [399, 1], [300, 30], [392, 8]]
        rows = Rows.of(scores, counts, [0, 0, 9, 0])
        verdicts = looks.decide(rows)
        assert verdicts.tolist() == ["holds", "holds", "refuted", "open"]
        for i, side in [(0, "upper"), (1, "upper"), (2, "lower")]:
            end = getattr(looks.bound(rows, side=side), side)[i]
            assert (end <= 0.02) == (side == "upper")
    rows = Rows.of([0.0, 1.0], [9, 1])
    assert looks.bound(rows).upper == bound(Stopped(rows, 400), confidence=0.9).upper


def test_the_next_look_is_the_first_that_can_decide() -> None:
    for claim in (TWO_PERCENT, Claim("mean", 0.02)):
        looks = Looks(claim, 10**5)
        n = int(looks.next_look(Rows.of([0.0, 1.0], [400, 1]))[0])
        assert 401 < n < 802
        assert looks.decide(Rows.of([0.0, 1.0], [n - 1, 1])) == ["holds"]
        assert looks.decide(Rows.of([0.0, 1.0], [n - 2, 1])) == ["open"]
        # A missing draw delays as a leak does; more leaks than the limit: twice as many draws.
        assert looks.next_look(Rows.of([0.0], [400], missing=1)) == n
        assert looks.next_look(Rows.of([0.0, 1.0], [90, 10])) == 200
        assert looks.next_look(Rows.of([0.0], [4000])) == 8000  # decided already
        batch = looks.next_look(Rows.of([[0.0, 1.0]] * 3, [[400, 1], [90, 10], [8, 0]]))
        assert batch.tolist() == [n, 200, 16]
        assert Looks(claim, 20).next_look(Rows.of([0.0], [16])) == 20


@pytest.mark.parametrize("side", ["lower", pytest.param("upper", marks=pytest.mark.thorough)])
def test_a_decision_by_betting_depends_on_its_seed(side: Side) -> None:
    """At the cap, bets depend on the order of draws; looks are repeated from the stored scores."""
    rows = Rows.of([0.0, 0.5, 1.0], [110, 60, 30])
    ends = [Looks(Claim("mean", 0.5), 200).bound(rows, side=side, seed=s) for s in range(8)]
    lower, upper = (np.array([getattr(end, name) for end in ends]) for name in ("lower", "upper"))
    limit = float(np.median(lower if side == "lower" else upper))
    wanted = ["refuted" if low > limit else "holds" for low in lower]
    if side == "upper":
        wanted = ["holds" if high <= limit else "open" for high in upper]
    looks = Looks(Claim("mean", limit), 200)
    verdicts = [str(looks.decide(rows, seed=s)[0]) for s in range(8)]
    decided = {"lower": "refuted", "upper": "holds"}[side]
    assert [v == decided for v in verdicts] == [w == decided for w in wanted]
    assert 0 < sum(v == decided for v in verdicts) < 8  # the order matters here


def stopped_bound(bound: BoundFunction) -> BoundFunction:

    def call(**how: object) -> Estimate:
        return replace(bound(**how), stopping="any time")

    return call


def test_mean_over_stopped_questions_is_the_formula() -> None:
    above, below = (int(binom.ppf(share, 4, 0.02)) / 4 for share in (0.975, 0.95))
    assert (above, below) == (0.25, 0.25)
    made = mean_over_stopped_questions(
        stopped_bound(TALLY), 4, confidence=0.9, each_confidence=0.98
    )
    ends = [TALLY(confidence=0.98, side=side) for side in ("upper", "lower")]
    assert made.upper == pytest.approx(ends[0].upper.mean() + above)
    assert made.upper < TALLY(confidence=0.975, side="upper").upper.max()
    assert made.lower == pytest.approx(max(0, ends[1].lower.mean() - below))
    assert made.value == pytest.approx(0.1125)
    assert (made.stopping, made.side, made.confidence) == ("any time", "both", 0.9)
    loose = mean_over_stopped_questions(TALLY, 4, each_confidence=0.01, side="upper")
    assert (loose.lower, loose.upper) == (0, TALLY(confidence=0.995, side="upper").upper.max())


def test_the_mean_does_not_lie_above_the_worst_question() -> None:
    """The largest bound per question has half of alpha, so the mean is never looser than it."""
    alike = partial(bound, Rows.of_hits([1, 0, 2, 1], [300] * 4))
    made = mean_over_stopped_questions(stopped_bound(alike), 4, each_confidence=0.99, side="upper")
    assert made.upper == alike(confidence=0.995, side="upper").upper.max()
    both = mean_over_stopped_questions(stopped_bound(alike), 4, each_confidence=0.99)
    assert both.upper == alike(confidence=0.9975, side="upper").upper.max()
    one = stopped_bound(partial(bound, Rows.of_hits([1], [300])))
    alone = mean_over_stopped_questions(one, 1, side="upper")
    assert alone.upper == pytest.approx(
        bound(Rows.of_hits(1, 300), confidence=0.99, side="upper").upper, rel=1e-6
    )


@pytest.mark.parametrize("questions", [1, 24, 100, 400])
def test_the_mean_after_stopping_spends_alpha_by_number(questions: int) -> None:
    rows = [0] * questions
    estimate = partial(early, Rows.of_hits(rows, 314))
    made = mean_over_stopped_questions(estimate, questions, side="upper")
    each, fails = re.search(r"at ([\d.]+) % each, at most (\d+) fail", made.method).groups()
    share = 1 - float(each) / 100
    assert binom.sf(int(fails), questions, share) <= 0.01 + 1e-7
    assert binom.sf(int(fails), questions, 1.2 * share) > 0.01 / 2
    usual = mean_over_stopped_questions(estimate, questions, each_confidence=0.999, side="upper")
    assert made.upper <= usual.upper
