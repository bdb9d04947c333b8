"""Make statements that are valid simultaneously, from estimates or a bound for every question."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from leakbound.errors import InputError
from leakbound.stats.estimate import BoundFunction, Estimate, Side, error_rate, percent

ROUNDING = 1e-9  # tolerance for rounding when error rates are added


@dataclass(frozen=True, slots=True)
class Joint:
    """Estimates that are valid simultaneously with probability at least `confidence`.

    Attributes:
        estimates: the estimates; `about` states the quantity of each.
        confidence: 1 minus the sum of the error rates of the estimates.
    """

    estimates: tuple[Estimate, ...]
    confidence: float


def joint(*estimates: Estimate, confidence: float = 0.99) -> Joint:
    """Join estimates into one claim at `confidence`, if their error rates are small enough.

    By the union bound the error rates add up, even if the estimates are dependent. The error rate
    of an estimate with one entry per question is added once per entry, unless `every_question` made
    the estimate.

    Args:
        *estimates: the estimates, at least one.
        confidence: the required probability that all estimates are valid, in (0, 1).

    Returns:
        The estimates with their joint confidence.

    Raises:
        InputError: error rates that add up to more than alpha (the message states a sufficient
            confidence of each estimate); no estimate; or an invalid confidence.
    """
    alpha = error_rate(confidence)
    if not estimates:
        raise InputError("a joint claim needs at least one estimate, got none.")
    claims = sum(_claims(estimate) for estimate in estimates)
    spent = math.fsum(_claims(estimate) * (1 - estimate.confidence) for estimate in estimates)
    if spent > alpha * (1 + ROUNDING):
        levels = ", ".join(percent(c) for c in sorted({e.confidence for e in estimates}))
        raise InputError(
            f"{claims} estimates at {levels} are jointly valid only at "
            f"{percent(max(1 - spent, 0))}. Compute each at {_enough(alpha / claims)} %."
        )
    return Joint(estimates, 1 - spent)


def every_question(
    bound: BoundFunction,
    questions: int,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    independent: bool = True,
) -> Estimate:
    """Bound each of `questions` quantities so that all bounds are valid simultaneously.

    The estimate has one entry per question. With probability at least `confidence` no entry fails.
    If both sides are requested, an entry fails if either of its bounds fails. Each bound then has
    half of the entry's error rate.

    Args:
        bound: the function that bounds the quantities, one entry per question.
        questions: the number of questions, N, which is the number of entries of `bound`. If not
            `independent`, `bound` may have fewer entries than N, because some questions may have no
            draws yet (see the module `questions`).
        confidence: the probability that all entries are valid, in (0, 1).
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.
        independent: whether the draws of different questions are independent. If True, each
            question has the error rate 1 - (1 - alpha)^(1/N) (Sidak). If False, each question has
            the error rate alpha/N (Bonferroni); use False, for example, for decodings or scorers
            that share randomness.

    Returns:
        An estimate whose entries are valid simultaneously.

    Raises:
        InputError: a bound without one entry per question, an invalid number of questions or
            confidence, or input that the bound refuses.
    """
    alpha = error_rate(confidence)
    check_questions(questions)
    share = float(-np.expm1(np.log1p(-alpha) / questions)) if independent else alpha / questions
    estimate = bound(confidence=1 - share, side=side)
    check_rows(estimate, questions, fewer=not independent)
    correction = "Sidak" if independent else "Bonferroni"
    return replace(
        estimate,
        about=replace(estimate.about, jointly=True),
        confidence=confidence,
        method=f"{estimate.method}, {correction} over {questions}",
    )


def check_questions(questions: int) -> None:
    """Raise InputError if the number of questions is below 1."""
    if questions < 1:
        raise InputError(f"`questions` must be at least 1, got {questions}.")


def check_rows(estimate: Estimate, questions: int, *, fewer: bool = False) -> None:
    """Raise InputError unless there is one entry per question; `fewer` allows fewer entries."""
    rows = len(np.atleast_1d(estimate.n))
    if rows > questions or (rows < questions and not fewer):
        raise InputError(
            f"`questions` must be the number of rows of the bound, {rows}, got {questions}."
        )


def _claims(estimate: Estimate) -> int:
    """Return the number of individual statements of an estimate."""
    return 1 if estimate.about.jointly else len(np.atleast_1d(estimate.n))


def _enough(share: float) -> str:
    """Return 1 - share in per cent, rounded up, with enough digits to differ from 100."""
    digits = 2 - math.floor(math.log10(100 * share))
    return f"{math.ceil((1 - share) * 100 * 10**digits) / 10**digits:.{digits}f}"
