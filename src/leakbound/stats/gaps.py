"""How far one bound exceeds another, question by question: each, the largest, and how many do.

An excess of two bounds, half of alpha for each, holds whatever their draws share. Over questions
whose draws are independent, the lower ends of all excesses hold at once (`every_question`, Sidak);
on that event the largest excess is at least the largest lower end, and at least as many questions
have one as lower ends lie above 0. Neither pays for anything more, and neither bounds from above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from leakbound.stats.about import Beyond
from leakbound.stats.estimate import OPPOSITE, Estimate, Side
from leakbound.stats.joint import excess
from leakbound.stats.questions import BoundFunction, every_question, summed


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Lower ends of what several questions have in common; both hold at once.

    `largest`: the excess at the question where it is largest.
    `count`: at how many of the questions there is one.
    """

    largest: Estimate
    count: Estimate


def excess_of(
    more: BoundFunction,
    base: BoundFunction,
    *,
    beyond: Beyond = "control",
    confidence: float = 0.99,
    side: Side = "upper",
) -> Estimate:
    """Bound the quantity of `more` minus that of `base`, alpha shared equally between the two.

    `more`, `base`: bounds of one quantity, of the same questions; their draws may share anything.
    `beyond`: whose quantity `base` bounds.
    """
    half = (1 + confidence) / 2
    other = base(confidence=half, side=OPPOSITE[side])
    return excess(more(confidence=half, side=side), other, beyond=beyond)


def gaps_over_questions(
    more: BoundFunction,
    base: BoundFunction,
    questions: int,
    *,
    beyond: Beyond = "own words",
    confidence: float = 0.99,
) -> Gaps:
    """Bound from below the largest excess over the questions, and at how many there is one.

    `more`, `base`: bounds of one quantity with one entry a question, as `excess_of` takes them.
    The draws of different questions must be independent.
    """
    each = every_question(
        partial(excess_of, more, base, beyond=beyond), questions,
        confidence=confidence, side="lower",
    )  # fmt: skip
    lower, value = np.asarray(each.lower), np.asarray(each.value)
    about, of_all = replace(each.about, jointly=False), summed(each, confidence, "lower")
    return Gaps(
        largest=replace(
            of_all,
            about=replace(about, scope="worst question", over=questions),
            value=float(np.fmax.reduce(value)),
            lower=float(lower.max()),
            upper=1.0,
        ),
        count=replace(
            of_all,
            about=about.counted(None, questions),
            value=float((value > 0).sum()),
            lower=float((lower > 0).sum()),
            upper=float(questions),
        ),
    )
