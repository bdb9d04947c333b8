"""Several estimates taken together: a joint claim, and a model's excess over its control."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from leakbound.errors import InputError
from leakbound.stats.about import Beyond
from leakbound.stats.estimate import Estimate, error_rate, percent, plain

ROUNDING = 1e-9  # error rates add up to alpha only as far as floats do


@dataclass(frozen=True, slots=True)
class Joint:
    """Estimates that hold all at once with probability at least `confidence`."""

    estimates: tuple[Estimate, ...]
    confidence: float


def joint(*estimates: Estimate, confidence: float = 0.99) -> Joint:
    """Join estimates into one claim at `confidence`, if their error rates allow it.

    By the union bound the error rates add up, whatever the estimates share. An estimate with
    one entry a question counts once an entry, unless `every_question` made it. Raises
    InputError, with the confidence to bound each at, where the sum exceeds alpha.
    """
    alpha = error_rate(confidence)
    if not estimates:
        raise InputError("a joint claim needs at least one estimate, got none.")
    claims = sum(_claims(estimate) for estimate in estimates)
    spent = math.fsum(_claims(estimate) * (1 - estimate.confidence) for estimate in estimates)
    if spent > alpha * (1 + ROUNDING):
        levels = ", ".join(percent(c) for c in sorted({e.confidence for e in estimates}))
        raise InputError(
            f"{claims} estimates at {levels} hold jointly at {percent(max(1 - spent, 0))} only; "
            f"bound each at {_enough(alpha / claims)} %."
        )
    return Joint(estimates, 1 - spent)


def excess(candidate: Estimate, control: Estimate, *, beyond: Beyond = "control") -> Estimate:
    """Bound the candidate's quantity minus the control's, from an estimate of each.

    The errors add up: two estimates at confidence 1 - alpha/2 give 1 - alpha. An upper bound
    takes the candidate's upper and the control's lower end, a lower bound the others. Missing
    draws count against the claim on both sides, because they do so in each estimate. `beyond` says
    whose quantity is taken off.
    """
    if not candidate.about.same_quantity(control.about):
        raise InputError(
            "`candidate` and `control` must bound one quantity, got "
            f"{candidate.estimand!r} and {control.estimand!r}."
        )
    above = candidate.side != "lower" and control.side != "upper"
    below = candidate.side != "upper" and control.side != "lower"
    if not (above or below):
        raise InputError(
            "an excess needs opposite sides of `candidate` and `control`, got "
            f"{candidate.side!r} twice. Bound one of them from the other side, or both 'both'."
        )
    reach = np.subtract(candidate.upper, control.lower), np.subtract(candidate.lower, control.upper)
    return replace(
        candidate,
        about=replace(candidate.about, beyond=beyond),
        value=candidate.value - control.value,
        lower=plain(reach[1]),
        upper=plain(reach[0]),
        confidence=candidate.confidence + control.confidence - 1,
        side="both" if above and below else "upper" if above else "lower",
        missing=candidate.missing + control.missing,
    )


def _claims(estimate: Estimate) -> int:
    """How many statements, each by itself at its confidence, an estimate makes."""
    return 1 if estimate.about.jointly else len(np.atleast_1d(estimate.n))


def _enough(share: float) -> str:
    """1 - share in per cent, rounded up to the digits that tell it from 100."""
    digits = 2 - math.floor(math.log10(100 * share))
    return f"{math.ceil((1 - share) * 100 * 10**digits) / 10**digits:.{digits}f}"
