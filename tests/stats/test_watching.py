"""Questions that are watched while they are drawn: intervals hold however often somebody looks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.stats import (
    Estimate,
    proportion_bound,
    stopped_mean_bound,
    stopped_proportion_bound,
    watched_questions,
    worst_watched,
)

ALPHA, SIMULATED, QUESTIONS = 0.1, 250, 2
PART, PARTS = 8, 32  # draws of a question between two looks, and looks
CAP = PART * PARTS


def looks(law: list[float], seed: int) -> NDArray[np.int64]:
    """What lies there after every part, of as many questions as are simulated: counts by value."""
    rows = SIMULATED * QUESTIONS
    drawn = np.random.default_rng(seed).multinomial(PART, law, size=(PARTS, rows))
    return np.asarray(drawn.cumsum(axis=0))


def watched(hits: NDArray[np.int64], n: int) -> Estimate:
    bound = partial(stopped_proportion_bound, hits, np.full(len(hits), n), CAP)
    return jointly(bound)


def jointly(bound: partial[Estimate]) -> Estimate:
    """As if each simulation's questions were all: these are rows of one call."""

    def of_some(*, confidence: float, side: str) -> Estimate:
        share = (1 - confidence) * SIMULATED  # undoes that rows of other simulations are asked too
        return bound(confidence=1 - share, side=side)

    return watched_questions(of_some, SIMULATED * QUESTIONS, confidence=1 - ALPHA, side="both")


def errors(each: list[Estimate], truth: float) -> float:
    """In which share of the simulations any interval failed at any look."""
    wrong = [(np.asarray(e.lower) > truth) | (np.asarray(e.upper) < truth) for e in each]
    return float(np.any(wrong, axis=0).reshape(SIMULATED, QUESTIONS).any(axis=1).mean())


@pytest.mark.slow
@pytest.mark.parametrize("p", [pytest.param(0.02, marks=pytest.mark.thorough), 0.3])
def test_whoever_looks_after_every_part_is_wrong_no_oftener_than_is_said(p: float) -> None:
    """And would be with bounds for a fixed n, each of them right by itself."""
    seen = [counts[:, 1] for counts in looks([1 - p, p], seed=7)]
    sizes = [PART * (i + 1) for i in range(PARTS)]
    assert errors([watched(hits, n) for hits, n in zip(seen, sizes, strict=True)], p) <= ALPHA
    how = {"confidence": 1 - ALPHA / QUESTIONS, "side": "both"}
    peeked = [proportion_bound(hits, n, **how) for hits, n in zip(seen, sizes, strict=True)]
    assert errors(peeked, p) > 1.5 * ALPHA
    assert errors(peeked[-1:], p) <= 1.2 * ALPHA  # of 250 simulations


def test_so_it_is_for_means() -> None:
    values, law = np.array([0.0, 0.3, 1.0]), [0.6, 0.3, 0.1]
    early = [counts for i, counts in enumerate(looks(law, seed=11)) if i % 4 == 3 and i < PARTS - 1]
    rows = np.tile(values, (SIMULATED * QUESTIONS, 1))
    found = [jointly(partial(stopped_mean_bound, rows, counts, cap=CAP)) for counts in early]
    assert errors(found, float(values @ law)) <= ALPHA


HITS, N = np.array([0, 3, 40]), np.array([64, 64, 64])
BOUND = partial(stopped_proportion_bound, HITS, N, 128)


def test_every_side_of_every_question_has_its_share_of_alpha() -> None:
    """To the last digit those of the any-time bound at half of alpha/(2N), N all that are asked."""
    found = watched_questions(BOUND, 10, confidence=0.9, side="both")
    how = {"confidence": 1 - 0.1 / 10 / 2, "method": "any-time"}
    by_hand = proportion_bound(HITS, N, side="both", **how)
    np.testing.assert_allclose(found.lower, by_hand.lower, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.upper, by_hand.upper, rtol=0, atol=1e-12)
    assert (found.confidence, found.about.jointly, found.side) == (0.9, True, "both")
    assert found.method == f"{BOUND(confidence=0.9).method}, Bonferroni over 10"
    usual = watched_questions(BOUND, 10)
    assert (usual.confidence, usual.side) == (0.99, "upper")
    np.testing.assert_array_equal(usual.upper, BOUND(confidence=0.999).upper)


def test_the_worst_is_between_the_largest_of_both_ends() -> None:
    found = watched_questions(BOUND, 10, confidence=0.9, side="both")
    worst = worst_watched(found)
    assert (worst.value, worst.n, worst.missing) == (40 / 64, 192, 0)
    assert (worst.lower, worst.upper) == (found.lower[2], found.upper[2])  # type: ignore[index]
    assert worst.about.estimand == "leak probability, largest of 3"
    assert worst.about.jointly is False
    assert (worst.confidence, worst.side, worst.method) == (0.9, "both", found.method)


def test_what_is_drawn_must_be_among_what_is_asked() -> None:
    assert len(np.asarray(watched_questions(BOUND, 3).upper)) == 3
    for asked in (2, 1):
        with pytest.raises(InputError, match=f"at least the 3 drawn, got {asked}"):
            watched_questions(BOUND, asked)
    with pytest.raises(InputError, match="at least 1"):
        watched_questions(BOUND, 0)
    alone = watched_questions(partial(stopped_proportion_bound, 3, 64, 128), 1, side="both")
    assert worst_watched(alone).about.over == 1
