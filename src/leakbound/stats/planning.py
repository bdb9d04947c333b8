"""How many draws a guarantee needs."""

from __future__ import annotations

import math

from leakbound.errors import InputError
from leakbound.stats.estimate import Side, check_side, error_rate


def samples_for(epsilon: float, confidence: float = 0.99, side: Side = "upper") -> int:
    """Draws after which DKW's band is no further than `epsilon` from the empirical CDF.

    ceil(ln(1/alpha)/(2 epsilon^2)) for one side, ln(2/alpha) for both; the appendix of Scholten
    et al. has a wrong exponent. Also enough for Hoeffding's bound on a mean.
    """
    check_side(side)
    if not 0 < epsilon < 1:
        raise InputError(f"`epsilon` must lie strictly between 0 and 1, got {epsilon!r}.")
    alpha = error_rate(confidence)
    if side == "both":
        alpha /= 2
    return math.ceil(math.log(1 / min(alpha, 0.5)) / (2 * epsilon**2))


def clean_samples_for(p0: float, confidence: float = 0.99) -> int:
    """Draws that certify a leak probability of at most `p0` if none of them leaks."""
    if not 0 < p0 < 1:
        raise InputError(f"`p0` must lie strictly between 0 and 1, got {p0!r}.")
    return math.ceil(math.log(error_rate(confidence)) / math.log1p(-p0))
