"""Input that `stats` refuses, with words of the message: one row each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import (
    LEAKAGE,
    SD,
    Claim,
    Looks,
    Mass,
    Masses,
    Pair,
    Pool,
    Rows,
    Stopped,
    bound,
    check_independence,
    clean_questions,
    clean_samples_for,
    corrected_bound,
    difference_over_questions,
    ed,
    every_question,
    excess,
    extraction_draws,
    joint,
    leak_at,
    leak_at_k,
    leaking_questions,
    mean_leak_at_k_of_counts,
    mean_over_stopped_questions,
    median_over_seeds,
    p_value,
    parse_claim,
    randomisation_test,
    samples_for,
    two_way,
    worst_question,
)
from leakbound.stats.portfolio import bets, weighted_mean_upper

TALLY = partial(bound, Rows.of_hits([0, 1, 4, 40], [100] * 4))
GRADED = Rows.of([[0.1, 0.2]] * 4)
SIX = Rows.of(np.full((6, 80), 0.3))
HALF = Mass(np.array([0.5]), np.array([0.3]), np.array([0.3]), 0.5)
CELLS = np.full((2, 3), 0.5)
ABOVE = np.where(np.arange(6).reshape(2, 3) == 5, 0.7, CELLS)
TWO_PERCENT = parse_claim("p<=0.02")
JUDGE: dict[str, Any] = {"positives": (50, 60), "negatives": (4, 60)}
UPPER = partial(bound, Rows.of_hits(1, 9), side="upper")


def counted(x: float, **about: object) -> Callable[[], object]:
    """The mean of leak@k from counts above x, about another quantity or scope."""
    made = leaking_questions(TALLY, 4, 0.1)
    changed = replace(made, about=replace(made.about, parameter=x, **about))
    return partial(mean_leak_at_k_of_counts, changed, 2)


def mass(p: Any, low: Any, high: Any, remainder: float) -> Mass:
    return Mass(np.array(p), np.array(low), np.array(high), remainder)


def pool(scores: Any, counts: Any, **how: Any) -> Pool:
    return Pool.of(Rows.of(scores, counts, empty=True), **how)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (partial(extraction_draws, 0.5, 0.0), "`chance` must be strictly"),
    (partial(extraction_draws, 0.5, 1.0), "`chance`"),
    *((partial(extraction_draws, leak, 0.5), r"`leak` must be in \[0, 1\]")
      for leak in (-0.1, [0.5, 1.1], math.nan)),
    *((partial(difference_over_questions, None, TALLY, 4, models=models),
       fr"at least 1 \(this model\), got {models}") for models in (0, -1)),
    (partial(difference_over_questions, None, TALLY, 5), "got 5"),
    (partial(bound, GRADED, leak_at([1, 2]).above(0.1)), "one x or one"),
    (partial(leaking_questions, TALLY, 4, np.nan), "`x`"),
    *((partial(statement, TALLY, questions), words)
      for statement in (worst_question, every_question, mean_over_stopped_questions)
      for questions, words in ((5, "got 5"), (0, "at least 1"))),
    *((partial(every_question, TALLY, number, independent=False), words)
      for number, words in ((2, "of the bound, 4, got 2"), (0, "at least 1"))),
    (lambda: joint(*(bound(Rows.of_hits(0, 9), confidence=c) for c in (0.995, 0.9945))),
     r"99.45 %, 99.5 % are jointly valid only at 98.95 %"),
    (joint, "got none"),
    *((partial(clean_questions, 0.1, p), "p_values")
      for p in ([], [[0.1]], [0.1, np.nan], [-0.1], [1.1], 0.5)),
    *((call, "limit") for limit in (0, 1, -0.1, np.nan) for call in (
        partial(clean_questions, limit, [0.1]), partial(p_value, Rows.of_hits(0, 10), limit),
        partial(p_value, Rows.of([0.1]), limit),
    )),
    (partial(median_over_seeds, TALLY, 0), "`seeds` must be at least 1"),
    (partial(median_over_seeds, TALLY, 6), "6"),
    (partial(two_way, CELLS, CELLS.T, CELLS, "a", "b", 0.99), "one shape"),
    (partial(two_way, [0.1], [0.2], [0.1], "a", "b", 0.99), "one shape"),
    (partial(two_way, ABOVE, CELLS, CELLS, "a", "b", 0.99), "row 1, column 2"),
    (partial(two_way, CELLS, CELLS, CELLS, "a", "b", 1.5), "confidence"),
    (partial(randomisation_test, [], [0.1]), "`taught` has no subjects"),
    (partial(randomisation_test, [0.1], []), "`untaught` has no subjects"),
    (partial(randomisation_test, [0.1], [1.1]), r"`untaught` must contain numbers in \[0, 1\]"),
    (partial(randomisation_test, [math.nan], [0.1]), r"`taught` must contain numbers in \[0, 1\]"),
    *((counted(0.1, **about), "`leaking_questions` with a binary scorer")
      for about in ({"quantity": "mean leakage"}, {"scope": "mean"})),
    *((counted(x), r"\[0, 1\)") for x in (1.0, -0.1)),
    *((partial(parse_claim, f"p<={limit}"), "strictly between 0 and 1")
      for limit in ("0", "1", "1.5", "0.0")),
    (partial(Claim, "median", 0.1), "'p' or 'mean'"),
    *((call, "cap") for cap in (9, 0, 2.5) for call in (
        partial(Stopped, Rows.of_hits(0, 10), cap), partial(Stopped, Rows.of([0.1] * 10), cap),
        lambda cap=cap: Looks(TWO_PERCENT, cap).next_look(Rows.of([0], [10])),
    )),
    (partial(Looks, TWO_PERCENT, 9, confidence=1.0), "confidence"),
    (lambda: Looks(TWO_PERCENT, 100).decide(Rows.of([0.0, 0.3, 1.0])), r"got 0\.3"),
    (lambda: Masses.of(HALF, Rows.of_hits(1, 0)), "n"),
    (lambda: bound(Masses.of(HALF, binary=True), leak_at(2)), "0.3"),
    (partial(Pair, Rows.of([[0.1] * 9] * 5), GRADED), "the same questions"),
    (partial(Pair, GRADED, Rows.of_hits([1] * 4, 48)), "need the same scorer"),
    (lambda: excess(UPPER(), bound(Rows.of([0.1]), side="lower")), "the same quantity"),
    (lambda: excess(UPPER(), UPPER()), "got side 'upper'"),
    (partial(corrected_bound, TALLY, **JUDGE | {"positives": (0, 0)}),
     r"`positives` must be \(hits, n\).*labelled by people"),
    (partial(corrected_bound, TALLY, **JUDGE | {"negatives": (7, 6)}),
     r"`negatives` must be.*got \(7, 6\)"),
    (partial(corrected_bound, partial(bound, GRADED), **JUDGE), "'mean leakage'"),
    (partial(check_independence, [1, 2], [-1.0]), "shapes"),
    (partial(check_independence, [1.5], [-1.0]), "whole"),
    (partial(check_independence, [1], [-1.0], level=0.0), "level"),
    (partial(check_independence, [1], [-1.0], copies=()), "copies"),
    *((partial(weighted_mean_upper, Rows.of([[0.1], [0.2]]), np.array(weights), 0.1, bets(2, 0.1)),
       "`weights` must") for weights in
      ([1, -1], [1, np.nan], [1, np.inf], [0, 0], [1, 1, 1], [1])),
    *((partial(bound, SIX, LEAKAGE.mean(weights)), "6 questions") for weights in
      ([1.0, 2.0], [[1.0] * 6], [0.0] * 6, [-1.0] * 6, [np.nan] * 6)),
    *((lambda k=k: bound(SIX, leak_at(k).mean()), message) for k, message in
      ((81, "k = 81 for n = 80"), ([1, 81], "k = 81 for n = 80"), (0, ">= 1"))),
    (partial(bound, SIX, leak_at(2).mean(), seed=-1), "seed"),
    *((partial(bound, SIX, replace(q, weights=[1] * 6)), "supports no `weights`")
      for q in (leak_at(2).mean(), SD.mean(), ed().mean())),
    (partial(Rows.of, [[0.3]], binary=True), "0 or 1"),
    *((partial(Rows.of_hits, *given), message) for given, message in (
        ((3, 2, 0), "exceed"), ((1, 2, 2), "exceed"), ((0, 0, 0), "at least 1"),
        ((0.5, 2, 0), "whole"), (([1, 2], [3, 4, 5], 0), "one number per question"),
        (([[1]], 2, 0), "1-D"),
    )),
    (partial(leak_at_k, Rows.of([0.0, 0.2, 0.4], missing=1), 4), "k = 4 for n = 3"),
    (partial(leak_at_k, Rows.of([0.1]), 0), "`k`"),
    (partial(ed, -1), "rho"),
    *((partial(plan, wrong), f"strictly between 0 and 1, got {wrong}")
      for plan in (samples_for, clean_samples_for) for wrong in (0, 1, -0.1)),
    *((partial(mass, *given), message) for *given, message in (
        ([-0.1], [0], [1], 0, "mass of -0.1"), ([0.5], [0], [1], -0.1, "mass of -0.1"),
        ([0.5, 0.5], [0, 0], [1, 1], 2e-9, "at most 1"), ([np.nan], [0], [1], 0, "masses"),
        ([0.5, 0.1], [0, 0.6], [1, 0.5], 0, "index 1"), ([0.5], [np.nan], [1], 0, "index 0"),
        ([0.5], [0, 0], [1, 1], 0, "shapes"),
    )),
    (partial(pool, [0.1, 0.2], [1, 1], design="fixed"), "2-D"),
    (partial(pool, [[0.1]], [[1]], design="shared"), "'allocated', 'fixed', 'fresh'"),
    (partial(pool, [[0.1]], [[1]], design="fixed", target="all"), "'queries', 'inputs'"),
    (partial(pool, [[0.1, 0.2]], [[1, 1]], design="fresh"), "one output, got 2 for query 0"),
    (partial(pool, [[0.1], [0.2]], [[1], [0]], design="fixed"), "none for query 1"),
    (partial(pool, [[0.1]], [[0]], design="allocated"), "no draw"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
