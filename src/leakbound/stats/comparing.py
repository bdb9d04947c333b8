"""Comparisons of models over questions, whose statements are valid simultaneously.

*Gaps.* An excess of two bounds, half of alpha for each, is valid even if their draws are dependent.
For questions with independent draws, the lower bounds of all excesses are valid simultaneously
(`every_question`, Sidak); on that event the largest excess is at least the largest lower bound, and
at least as many questions have one as there are lower bounds above 0. Neither needs a further
correction, and neither bounds from above.

*Mean and worst.* The largest excess over the questions is at least their mean excess. So a verdict
that a model leaks beyond its control, on average or at some question, is one statement about the
largest:

    worst >= max(L_worst at alpha/4, L_mean at alpha/4),    worst <= U_worst at alpha/2,

which fails with probability alpha at most, and the mean's lower bound is valid on the same event.

*With an exact test.* Let E be the largest excess, and let a test reject E <= 0 wrongly with
probability alpha/2 at most (`fisher`). If it rejects, some question has an excess: the lower bounds
are as above, and the worst question's is at least the least positive number. If it does not, the
lower bounds are those at alpha/8, at most 0 (and at most as above: bets at two rates need not be
nested). An upper bound of the worst question below 0 is replaced by the one at alpha/4, at most 0.

If E > 0, the test cannot be wrong, and a bound fails only if its bound of the paragraph above
fails: alpha. If E <= 0, a failure needs that the test rejects (alpha/2), that one of two lower
bounds at alpha/8 fails, or that the upper bound at alpha/4 is below E: alpha, too.

*Several models compared with one baseline.* Each of N has alpha/N, half of it for its mean and half
for all of its questions, each of which has its share of that (Bonferroni, twice). Dependence
between these statements, for example by draws of the baseline, does not matter. So with probability
1 - alpha all are true, also those about the model that leaks least, the question with the largest
rise, or the number of questions that fell.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from sys import float_info
from typing import Any

import numpy as np

from leakbound.errors import InputError
from leakbound.stats.about import Beyond
from leakbound.stats.estimate import BoundFunction, error_rate
from leakbound.stats.excess import excess_of
from leakbound.stats.joint import Joint, check_rows, every_question
from leakbound.stats.questions import summed, worst_question

TINY = float_info.min  # a lower bound that means "above 0"


def gaps_over_questions(
    more: BoundFunction,
    base: BoundFunction,
    questions: int,
    *,
    beyond: Beyond = "own words",
    confidence: float = 0.99,
) -> Joint:
    """Bound from below the largest excess over the questions, and the number of questions with one.

    The draws of different questions must be independent; those of `more` and `base` may be
    dependent.

    Args:
        more: a bound of the quantity that may be larger, with its scores filled in, one entry per
            question.
        base: a bound of the same quantity, of the same questions, that is subtracted.
        questions: the number of questions, N, which is the number of entries of the bounds.
        beyond: whose quantity `base` bounds: "own words" (default), "control", "baseline",
            "unstressed" or "other questions".
        confidence: the probability that both lower bounds are valid, in (0, 1).

    Returns:
        Two estimates from below: the largest excess, and the number of questions with one.

    Raises:
        InputError: bounds of two quantities or without one entry per question, or an invalid number
            of questions or confidence.
    """
    gaps = every_question(
        partial(excess_of, more, base, beyond=beyond), questions,
        confidence=confidence, side="lower",
    )  # fmt: skip
    lower, value = np.asarray(gaps.lower), np.asarray(gaps.value)
    about, of_all = replace(gaps.about, jointly=False), summed(gaps, confidence, "lower")
    largest = replace(
        of_all,
        about=replace(about, scope="worst question", over=questions),
        value=float(np.fmax.reduce(value)),
        lower=float(lower.max()),
        upper=1.0,
    )
    count = replace(
        of_all,
        about=about.counted(None, questions),
        value=float((value > 0).sum()),
        lower=float((lower > 0).sum()),
        upper=float(questions),
    )
    return Joint((largest, count), confidence)


def excess_of_mean_and_worst(
    mean: BoundFunction,
    entries: BoundFunction,
    questions: int,
    *,
    p_value: float | None = None,
    confidence: float = 0.99,
) -> Joint:
    """Bound the mean excess over questions, and the largest, so that one verdict needs one alpha.

    Args:
        mean: a bound of the mean excess with its scores filled in, as `excess_over_questions` is.
        entries: a bound of every question's excess, one entry per question.
        questions: the number of questions, N, which is the number of entries of `entries`.
        p_value: of the hypothesis that no question has an excess, see `leaks_somewhere`; None: no
            exact test applies, and the lower bounds decide.
        confidence: the probability that all lower bounds and worst.upper are valid, in (0, 1).

    Returns:
        Two estimates with both bounds: the mean excess, whose upper bound is valid individually,
        and the largest.

    Raises:
        InputError: a bound without one entry per question, or an invalid number of questions or
            confidence.
    """
    if p_value is not None:
        return _tested(mean, entries, questions, p_value, confidence)
    alpha = error_rate(confidence)
    quarter, half = 1 - alpha / 4, 1 - alpha / 2
    least, most = mean(confidence=quarter, side="lower"), mean(confidence=half, side="upper")
    worst = worst_question(entries, questions, confidence=quarter, side="lower")
    above = worst_question(entries, questions, confidence=half, side="upper")
    low = max(worst, least, key=lambda end: float(end.lower))
    stated = replace(worst, lower=low.lower, method=low.method, upper=above.upper)
    how: dict[str, Any] = {"confidence": confidence, "side": "both"}
    return Joint((replace(least, upper=most.upper, **how), replace(stated, **how)), confidence)


def _tested(
    mean: BoundFunction, entries: BoundFunction, questions: int, p_value: float, confidence: float
) -> Joint:
    """Bound the mean and the largest excess if a test decides whether there is any, see above."""
    alpha = error_rate(confidence)
    rates = alpha / 2, alpha / 4, alpha / 8
    if p_value <= rates[0]:
        least = mean(confidence=1 - rates[1], side="lower")
        worst = worst_question(entries, questions, confidence=1 - rates[1], side="lower")
        lower = max(float(worst.lower), float(least.lower), TINY)
    else:
        both = [mean(confidence=1 - rate, side="lower") for rate in rates[1:]]
        least = replace(both[0], lower=min(0.0, *(float(end.lower) for end in both)))
        worst = worst_question(entries, questions, confidence=1 - rates[2], side="lower")
        lower = min(0.0, max(float(worst.lower), float(least.lower)))
    upper, method = float("-inf"), worst.method
    for rate, most in zip(rates[:2], (1.0, 0.0), strict=True):
        if upper < 0:
            above = worst_question(entries, questions, confidence=1 - rate, side="upper")
            upper = min(float(above.upper), most)
    if lower == TINY:
        method = "stratified Fisher test"
    elif lower == least.lower:
        method = least.method
    how: dict[str, Any] = {"confidence": confidence, "side": "both"}
    top = mean(confidence=1 - rates[0], side="upper").upper
    stated = replace(worst, lower=lower, upper=upper, method=method, **how)
    return Joint((replace(least, upper=top, **how), stated), confidence)


def difference_over_questions(
    mean: BoundFunction | None,
    entries: BoundFunction,
    questions: int,
    *,
    models: int = 1,
    confidence: float = 0.99,
) -> Joint:
    """Bound the difference of one of several models from a baseline, on average and per question.

    Args:
        mean: bounds the mean difference over the questions; None: it is not bounded.
        entries: bounds the difference at every question, one entry each.
        questions: the number of questions, N, which is the number of entries of `entries`.
        models: the number of models compared with the baseline, including this one, fixed in
            advance.
        confidence: the probability that all statements about all models are valid, in (0, 1).

    Returns:
        The estimate of the mean difference, if `mean` is given, and that of every question's, with
        both bounds.

    Raises:
        InputError: fewer than one model, a bound without one entry per question, or an invalid
            number of questions or confidence.
    """
    if models < 1:
        raise InputError(f"`models` must be at least 1, this one, got {models}.")
    half = 1 - error_rate(confidence) / models / 2
    each = every_question(entries, questions, confidence=half, independent=False)
    check_rows(each, questions)
    own = () if mean is None else (mean(confidence=half, side="both"),)
    return Joint((*own, each), confidence)
