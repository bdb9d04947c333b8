"""How many draws a guarantee needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from leakbound.errors import InputError
from leakbound.stats.estimate import Side, error_rate, share_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawsNeeded:
    """Draws of a question that guarantees need; None for one that was not asked for.

    Attributes:
        epsilon: so that Pr[X > x] is known within epsilon at every x.
        clean: so that a leak probability is certified small if none of them leaks.
        confidence: of either.
    """

    epsilon: int | None
    clean: int | None
    confidence: float


def plan(
    *,
    epsilon: float | None = None,
    clean: float | None = None,
    confidence: float = 0.99,
    side: Side = "upper",
) -> DrawsNeeded:
    """How many draws of a question a guarantee needs.

    Args:
        epsilon: how far Pr[X > x], at any x, may be overestimated, in (0, 1).
        clean: the leak probability to be certified if no draw leaks, in (0, 1).
        confidence: of the guarantee.
        side: for epsilon: "upper", overestimated, or "both", either way.

    Raises InputError where nothing is asked for.
    """
    if epsilon is None and clean is None:
        raise InputError("say what is wanted: --epsilon 0.01, or --clean 0.02.")
    return DrawsNeeded(
        epsilon=None if epsilon is None else samples_for(epsilon, confidence, side),
        clean=None if clean is None else clean_samples_for(clean, confidence),
        confidence=confidence,
    )


def samples_for(epsilon: float, confidence: float = 0.99, side: Side = "upper") -> int:
    """Draws after which DKW's band is no further than `epsilon` from the empirical CDF.

    ceil(ln(1/alpha)/(2 epsilon^2)) for one side, ln(2/alpha) for both; the appendix of Scholten
    et al. has a wrong exponent. Also enough for Hoeffding's bound on a mean.
    """
    if not 0 < epsilon < 1:
        raise InputError(f"`epsilon` must lie strictly between 0 and 1, got {epsilon!r}.")
    return math.ceil(math.log(1 / min(share_of(confidence, side), 0.5)) / (2 * epsilon**2))


def clean_samples_for(p0: float, confidence: float = 0.99) -> int:
    """Draws that certify a leak probability of at most `p0` if none of them leaks."""
    if not 0 < p0 < 1:
        raise InputError(f"`p0` must lie strictly between 0 and 1, got {p0!r}.")
    return math.ceil(math.log(error_rate(confidence)) / math.log1p(-p0))
