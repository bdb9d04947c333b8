"""Comparisons of models over questions, whose statements are valid simultaneously.

*Gaps.* The excess of a question is the difference of two quantities. The difference of their
bounds, each at half of alpha, is a valid bound on the excess even if the draws behind the two
bounds are dependent. If different questions have independent draws, `every_question` (Sidak) gives
lower bounds on all excesses that are valid simultaneously. Whenever these bounds are valid, the
largest excess is at least the largest lower bound. The number of questions with a positive excess
is then at least the number of lower bounds above 0. So neither statement needs an additional
correction.

*Mean and worst.* The largest excess over the questions is at least their mean
excess. So the verdict "this model leaks more than its control, on average or at some question" is
one statement about the largest excess. With L for lower bounds, U for upper bounds, and worst for
the largest excess, the statement is

    worst >= max(L_worst at alpha/4, L_mean at alpha/4),    worst <= U_worst at alpha/2,

With probability at most alpha at least one of these three bounds fails. Otherwise the statement is
true, and the lower bound of the mean is valid as well.

*With an exact test.* Let E be the largest excess, and let a test wrongly reject
E <= 0 with probability at most alpha/2 (`fisher`). If the test rejects, it concludes that some
question has a positive excess. The lower bounds are then computed at alpha/4 as above. The lower
bound of the worst question is raised to at least the smallest positive number. If the test does not
reject, the lower bounds are computed at alpha/8. They are lowered to at most 0, and to at most the
bounds at alpha/4, because bets at two rates need not give nested intervals. If the upper bound of
the worst question at alpha/2 is below 0, it is replaced by the upper bound at alpha/4, lowered to
at most 0.

If E > 0, the test cannot wrongly reject. Then a bound fails only if one of the bounds in *Mean and
worst* fails, which has probability at most alpha. If E <= 0, a bound fails only in one of three
cases: the test rejects (alpha/2), one of the two lower bounds at alpha/8 fails, or the upper bound
at alpha/4 is below E. The sum of these probabilities is alpha as well.

*Several models compared with one baseline.* The statements about each of N models may fail with
probability alpha/N. Half of alpha/N is spent on the model's mean difference. The other half is
split equally over the model's questions (Bonferroni, twice). The statements may be dependent, for
example because they share the draws of the baseline. With probability at least 1 - alpha all
statements are true. So statements that are selected after looking at the results are valid as well.
Examples are statements about the model that leaks least, the question with the largest increase, or
the number of questions whose leakage decreased.
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
from leakbound.stats.questions import summed, worst_question, worst_watched

TINY = float_info.min  # a lower bound that means "above 0"


def gaps_over_questions(
    more: BoundFunction,
    base: BoundFunction,
    questions: int,
    *,
    beyond: Beyond = "own words",
    confidence: float = 0.99,
) -> Joint:
    """Bound from below the largest excess, and the number of questions with a positive excess.

    With probability at least `confidence` both lower bounds are valid. The draws of different
    questions must be independent. The draws behind `more` and `base` may be dependent.

    Args:
        more: the function that bounds the quantity that may be larger, one entry per question.
        base: the function that bounds the quantity that is subtracted, for the same questions.
        questions: the number of questions, N, which is the number of entries of each bound.
        beyond: the reference that `base` is about: "own words" (default; the question as it is
            written in the benchmark), "control", "baseline", "unstressed" or "other questions".
        confidence: the probability that both lower bounds are valid, in (0, 1).

    Returns:
        Two estimates with lower bounds: the largest excess, and the number of questions with a
        positive excess.

    Raises:
        InputError: bounds of two different quantities or without one entry per question, or an
            invalid number of questions or confidence.
    """
    gaps = every_question(
        partial(excess_of, more, base, beyond=beyond), questions,
        confidence=confidence, side="lower",
    )  # fmt: skip
    lower, value = np.asarray(gaps.lower), np.asarray(gaps.value)
    count = replace(
        summed(gaps, confidence, "lower"),
        about=replace(gaps.about, jointly=False).counted(None, questions),
        value=float((value > 0).sum()),
        lower=float((lower > 0).sum()),
        upper=float(questions),
    )
    return Joint((worst_watched(gaps), count), confidence)


def excess_of_mean_and_worst(
    mean: BoundFunction,
    entries: BoundFunction,
    questions: int,
    *,
    p_value: float | None = None,
    confidence: float = 0.99,
) -> Joint:
    """Bound the mean excess over questions and the largest excess, for one verdict.

    Args:
        mean: the function that bounds the mean excess.
        entries: the function that bounds every question's excess, one entry per question.
        questions: the number of questions, N, which is the number of entries of `entries`.
        p_value: the p-value of the hypothesis that no question has a positive excess, see
            `leaks_somewhere`; None: no exact test applies, and the lower bounds decide.
        confidence: the probability that the two lower bounds and the upper bound of the largest
            excess are all valid, in (0, 1).

    Returns:
        Two estimates with lower and upper bounds: the mean excess and the largest excess. The upper
            bound of the mean excess is valid only individually.

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
    """Bound the mean and the largest excess with an exact test, as in the module docstring."""
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
    """Bound the differences of a model from a baseline: the mean, and each question's difference.

    Args:
        mean: the function that bounds the mean difference over the questions; None: the mean is
            not bounded.
        entries: the function that bounds each question's difference, one entry per question.
        questions: the number of questions, N, which is the number of entries of `entries`.
        models: the number of models compared with the baseline, including this one, fixed in
            advance.
        confidence: the probability that all statements about all models are valid, in (0, 1).

    Returns:
        Estimates with both bounds, all at `confidence`: first of the mean difference, if `mean` is
            given, then of every question's difference.

    Raises:
        InputError: fewer than one model, a bound without one entry per question, or an invalid
            number of questions or confidence.
    """
    if models < 1:
        raise InputError(f"`models` must be at least 1 (this model), got {models}.")
    half = 1 - error_rate(confidence) / models / 2
    each = every_question(entries, questions, confidence=half, independent=False)
    check_rows(each, questions)
    own = () if mean is None else (mean(confidence=half, side="both"),)
    made = (
        replace(one, about=replace(one.about, jointly=True), confidence=confidence)
        for one in (*own, each)
    )
    return Joint(tuple(made), confidence)
