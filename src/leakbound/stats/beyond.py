"""A model beyond its control, of which some outputs are known to leak: one interval each.

A proof says without chance that a question's quantity mu is at least P. With an upper end U of the
control's nu at 1 - q, mu - nu >= P - U but for probability q. A bound L of the difference by draws
fails with its own alpha; so with shares of alpha that were fixed beforehand,

    mu - nu >= max(L at (1 - SHARE) alpha, P - U at SHARE alpha)

fails with probability alpha at most, whether or not a proof was looked for after the draws were
seen: the share is set aside in any case. Over questions the same holds of means, as the mean of the
P is one of the mean; and jointly, as U is then taken jointly.

The largest excess over the questions is at least their mean excess. So a verdict that a model leaks
beyond its control, on average or at some question, is one statement about the largest:

    worst >= max(L_worst at alpha/4, L_mean at alpha/4),    worst <= U_worst at alpha/2,

which fails with probability alpha at most, and the mean's lower end holds on the same event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from leakbound.stats.estimate import Estimate, Side, error_rate, plain, share_of
from leakbound.stats.questions import BoundFunction, worst_question

SHARE = 0.1  # of a lower end's alpha: for the control's upper end, from which proofs are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcessOverQuestions:
    """How far a model exceeds its control; both lower ends hold at once, and with worst.upper.

    `mean`: on average over the questions; its upper end holds by itself, at alpha/2.
    `worst`: at the question where it is most.
    """

    mean: Estimate
    worst: Estimate


def excess_with_proof(
    excess: BoundFunction,
    control: BoundFunction,
    proved: npt.ArrayLike = 0.0,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
) -> Estimate:
    """Bound an excess by draws, and from below also by what is proved of the model.

    Args:
        excess: bounds the excess, one entry a question or one in all.
        control: bounds the control's quantity, with entries as `excess` has.
        proved: lower ends, without chance, of the model's quantity, as many; 0: nothing is proved.
        confidence: with which the ends hold, each pair by itself.
        side: which ends.

    A lower end by draws has 1 - `SHARE` of its alpha, whether anything is proved or not.
    """
    alpha = share_of(confidence, side)
    if side == "upper":
        return excess(confidence=confidence, side=side)
    drawn = excess(confidence=1 - (1 - SHARE) * alpha, side="lower")
    above = control(confidence=1 - SHARE * alpha, side="upper").upper
    most = excess(confidence=1 - alpha, side="upper").upper if side == "both" else drawn.upper
    lower = plain(np.maximum(drawn.lower, np.negative(above)))  # the model's own is at least 0
    both = replace(drawn, lower=lower, upper=most, confidence=confidence, side=side)
    return raised(both, np.subtract(proved, above))


def excess_of_mean_and_worst(
    mean: BoundFunction, each: BoundFunction, questions: int, *, confidence: float = 0.99
) -> ExcessOverQuestions:
    """Bound the mean excess over questions, and the largest, so that one verdict needs one alpha.

    `mean` bounds the former and `each` every question's, as `excess_with_proof` does. With
    probability `confidence` both lower ends and the upper end of the largest hold.
    """
    alpha = error_rate(confidence)
    quarter, half = 1 - alpha / 4, 1 - alpha / 2
    least, most = mean(confidence=quarter, side="lower"), mean(confidence=half, side="upper")
    worst = worst_question(each, questions, confidence=quarter, side="lower")
    above = worst_question(each, questions, confidence=half)
    low = max(worst, least, key=lambda end: float(end.lower))
    stated = replace(worst, lower=low.lower, method=low.method, upper=above.upper)
    return ExcessOverQuestions(
        mean=replace(least, upper=most.upper, confidence=confidence, side="both"),
        worst=replace(stated, confidence=confidence, side="both"),
    )


def raised(estimate: Estimate, proved: npt.ArrayLike) -> Estimate:
    """The estimate with lower ends no less than what is `proved` of it, entry by entry.

    A proof needs no confidence. One above an upper end raises nothing: one of the two is wrong, and
    whoever shows them has to say so.
    """
    known = np.asarray(proved)
    higher = (known > estimate.lower) & (known <= estimate.upper)
    if not higher.any():
        return estimate
    lower = plain(np.where(higher, known, estimate.lower))
    return replace(estimate, lower=lower, method=f"{estimate.method}{PROVED}")


PROVED = ", raised by a proof, given the measured margin"
"""What the method of an end says that a proof makes."""
