"""What every statement about a data set promises: one row each."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import (
    BOUNDS,
    Estimate,
    corrected_bound,
    excess_bound,
    excess_over_questions,
    expectation_deviation_over_questions,
    mean_bound,
    mean_leak_at_k_over_questions,
    mean_over_questions,
    proportion_over_questions,
    std_over_questions,
)

Statement = Callable[..., Estimate]


def of_bounds(statement: Statement, **settings: Any) -> Statement:
    """A statement made of each question's bound, as one of the scores."""

    def call(scores: Any, counts: Any = None, *, missing: Any = 0, **how: Any) -> Estimate:
        bound = partial(mean_bound, scores, counts, missing=missing, method="portfolio")
        return statement(bound, len(scores), **settings, **how)

    return call


def of_hits(scores: Any, counts: Any = None, *, missing: Any = 0, **how: Any) -> Estimate:
    """The mean leak probability, where a score of a half and more is a leak."""
    scores = np.asarray(scores)
    counts = np.ones(scores.shape, int) if counts is None else np.asarray(counts)
    hits = ((scores >= 0.5) * counts).sum(axis=1)
    return proportion_over_questions(hits, counts.sum(axis=1) + missing, missing=missing, **how)


def of_judged_hits(
    scores: Any, counts: Any = None, *, missing: Any = 0, seed: Any = None, **how: Any
) -> Estimate:
    """The same, where a judge that errs tells what a leak is."""
    bound = partial(of_hits, scores, counts, missing=missing, seed=seed)
    return corrected_bound(bound, positives=(190, 200), negatives=(6, 300), **how)


def of_listed(name: str, **settings: Any) -> Statement:
    """A statement that `BOUNDS` lists."""
    return of_bounds(BOUNDS[name].bound, **settings)


ROWS: dict[str, Statement] = {
    "worst": of_listed("worst question"),
    "every": of_listed("every question"),
    "every, dependent": of_listed("every question", independent=False),
    "leaking": of_listed("leaking questions", x=0.3),
    "mean, stopped": of_listed("mean over stopped questions"),
    "watched": of_listed("watched questions"),
    "mean": mean_over_questions,
    "mean, weighted": partial(mean_over_questions, weights=np.arange(1.0, 7.0)),
    "mean of proportions": of_hits,
    "mean of proportions, judged": of_judged_hits,
    "mean deviation": std_over_questions,
    "mean + sd": expectation_deviation_over_questions,
    "excess of each": lambda *args, **how: excess_bound(args[0], CONTROL, *args[1:], **how),
    "mean excess": lambda *args, **how: excess_over_questions(args[0], CONTROL, *args[1:], **how),
    "mean leak@3": lambda *args, **how: mean_leak_at_k_over_questions(args[0], 3, *args[1:], **how),
    "mean leak@k": lambda *args, **how: mean_leak_at_k_over_questions(
        args[0], [3, 1], *args[1:], **how
    ),
}
KEYED = {
    "mean",
    "mean leak@3",
    "mean leak@k",
    "mean deviation",
    "mean + sd",
}  # whose bounds meet each question's draws in an order
ENTRY_A_QUESTION = {"every", "every, dependent", "watched", "excess of each"}
BESIDE = {"excess of each", "mean excess"}  # another model, from -1 to 1
IN_PLACE = {*BESIDE, "mean, weighted"}  # whose questions are told by their places
QUESTIONS, DRAWS = 6, 40
SCORES = np.round(np.random.default_rng(0).beta(1, 3, (QUESTIONS, DRAWS)), 2)
SCORES[0] = 0
SCORES[1] = np.linspace(0.4, 1, DRAWS).round(2)
CONTROL = np.round(np.random.default_rng(9).beta(1, 6, (QUESTIONS, DRAWS)), 2)

LISTED = {
    "excess",
    "excess over questions",
    "worst question",
    "every question",
    "leaking questions",
    "mean over stopped questions",
    "watched questions",
    "mean over questions",
    "proportion over questions",
    "leak@k over questions",
    "std over questions",
    "mean + sd over questions",
}


def test_every_listed_statement_has_a_row() -> None:
    kinds = ("bound of questions", "scores of questions", "hits of questions")
    kinds = (*kinds, "scores of two models")
    assert {name for name, one in BOUNDS.items() if one.evidence in kinds} == LISTED


every_statement = pytest.mark.parametrize("name", ROWS)


def ends(made: Estimate) -> tuple[np.ndarray, np.ndarray]:
    return np.atleast_1d(made.lower), np.atleast_1d(made.upper)


@every_statement
def test_ends_enclose_the_value_and_the_other_end_is_trivial(name: str) -> None:
    largest = {"leaking": QUESTIONS, "mean deviation": 0.5, "mean + sd": (1 + 5**0.5) / 2}
    least, most = -1 if name in BESIDE else 0, largest.get(name, 1)
    for side in ("upper", "lower", "both"):
        made = ROWS[name](SCORES, side=side)
        low, high = ends(made)
        assert (low >= least).all()
        assert (high <= most).all()
        assert (low <= made.value).all()
        assert (made.value <= high).all()
        if side == "upper":
            assert (low == least).all()
        if side == "lower":
            assert (high == most).all()
        assert (made.side, made.confidence) == (side, 0.99)
        assert np.sum(made.n) == SCORES.size


@pytest.mark.true_entropy
@every_statement
def test_without_a_seed_one_is_drawn_and_gives_the_same_bound_again(name: str) -> None:
    first, second = (ROWS[name](SCORES, side="upper") for _ in range(2))
    if first.seed is None:
        assert ends(first)[1].tolist() == ends(second)[1].tolist()
        return
    assert first.seed != second.seed
    again = ROWS[name](SCORES, side="upper", seed=first.seed)
    assert (ends(again)[1].tolist(), again.seed) == (ends(first)[1].tolist(), first.seed)
    assert f"seed {first.seed}, " in str(first)


@every_statement
def test_more_confidence_is_wider(name: str) -> None:
    uppers = [ends(ROWS[name](SCORES, confidence=c))[1].sum() for c in (0.5, 0.9, 0.9999)]
    assert uppers == sorted(uppers)
    assert uppers[0] < uppers[-1]


@every_statement
def test_both_ends_split_alpha(name: str) -> None:
    both = ROWS[name](SCORES, confidence=0.9, side="both")
    if name == "every":  # a question's share is split, not the claim's alpha
        share = 1 - 0.9 ** (1 / QUESTIONS)
        half = 1 - (1 - share / 2) ** QUESTIONS
    else:
        half = 0.05
    upper = ends(ROWS[name](SCORES, confidence=1 - half, side="upper"))[1]
    lower = ends(ROWS[name](SCORES, confidence=1 - half, side="lower"))[0]
    np.testing.assert_allclose(ends(both), (lower, upper), atol=1e-9)


@every_statement
def test_counts_and_the_order_of_draws_and_questions_are_only_notation(name: str) -> None:
    plain = ends(ROWS[name](SCORES, side="both"))
    rng = np.random.default_rng(1)
    turned = ends(ROWS[name](rng.permuted(SCORES, axis=1), side="both"))
    np.testing.assert_allclose(turned, plain, atol=1e-12)
    values = np.sort(SCORES, axis=1)
    counts = np.ones(values.shape, int)
    again = np.pad(values, ((0, 0), (0, 1)), constant_values=np.nan)
    padded = ends(ROWS[name](again, np.pad(counts, ((0, 0), (0, 1))), side="both"))
    np.testing.assert_allclose(padded, plain, atol=1e-12)
    if name not in IN_PLACE:
        order = rng.permutation(QUESTIONS)
        keys = {"seed": order + 9} if name in KEYED else {}
        plain = ends(ROWS[name](SCORES, side="both", **{k: np.sort(v) for k, v in keys.items()}))
        mixed = ends(ROWS[name](SCORES[order], side="both", **keys))
        for end, want in zip(mixed, plain, strict=True):
            sorted_so = want[order] if name in ENTRY_A_QUESTION else want
            np.testing.assert_allclose(end, sorted_so, atol=1e-12)


@every_statement
def test_missing_draws_count_against_the_claim(name: str) -> None:
    """Above they are leaks, below they are not: never tighter than without them."""
    plain, missing = (ROWS[name](SCORES, missing=gone, side="both") for gone in (0, 15))
    assert (ends(missing)[1] >= ends(plain)[1]).all()
    assert ends(missing)[1].sum() > ends(plain)[1].sum() or name in ("worst", "leaking")
    assert (ends(missing)[0] <= ends(plain)[0]).all()
    assert np.sum(missing.missing) == 15 * QUESTIONS
    assert np.sum(missing.n) == SCORES.size + 15 * QUESTIONS


@every_statement
def test_a_statement_says_what_it_ranges_over_and_goes_into_json(name: str) -> None:
    made = ROWS[name](SCORES)
    assert "question" in made.target or name == "excess of each"
    assert json.loads(json.dumps(made.to_dict()))["target"] == made.target
    assert (len(np.atleast_1d(made.upper)) == QUESTIONS) == (name in ENTRY_A_QUESTION)


@every_statement
@pytest.mark.parametrize(
    ("how", "message"),
    [({"confidence": 1.0}, "strictly"), ({"side": "top"}, "'both'"), ({"missing": -1}, "whole")],
)
def test_bad_input_is_refused(name: str, how: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ROWS[name](SCORES, **how)
