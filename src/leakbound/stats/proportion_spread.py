"""Binary scorers: the standard deviation and the ED score, as extremes over the interval of p.

A score of 0 or 1 with leak probability p has standard deviation sqrt(p (1 - p)) and ED score
f(p) = p + rho sqrt(p (1 - p)). Neither is monotone in p, both are concave: f rises up to
p* = (1 + 1/sqrt(1 + rho^2))/2 and falls beyond, the deviation alike with p* = 1/2.

*Above.* With [L, U] holding p at 1 - alpha (alpha/2 on each side), f(p) is at most the largest f
over [L, U]: f(p*) where p* lies inside, else the larger of the ends.

*Below*, at alpha on each side: f(p) is at least min(f(L), f(U)), the least over [L, U] of a concave
f. To be missed, f(p) must lie below both, so L and U both lie where f exceeds f(p), an interval
with p for one of its ends: beyond p if p < p*, short of it if p > p*. So L > p alone, or U < p
alone, must happen, and which of them depends on p, not on the draws: probability at most alpha.

*Both* ends are extremes over one interval of p at 1 - alpha, and hold together.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.estimate import Array, Estimate, Side, plain, share_of
from leakbound.stats.expectation_deviation import require_rho
from leakbound.stats.proportion import proportion_bound

LARGEST_STD = 0.5


def std_proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound sqrt(p (1 - p)), from `hits` leaks in `n` i.i.d. draws, n fixed beforehand.

    Arguments as for `proportion_bound`, whose interval of p it carries over. `value` has the
    divisor n, over the scored draws.
    """
    made = _extremes(hits, n, None, confidence=confidence, side=side, missing=missing)
    return replace(made, about=About(quantity="standard deviation"))


def expectation_deviation_proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    *,
    rho: float = 2.0,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound p + rho sqrt(p (1 - p)), rho >= 0, from leaks in `n` i.i.d. draws.

    As `std_proportion_bound`: one interval of p for the mean and the deviation together.
    """
    require_rho(rho)
    made = _extremes(hits, n, rho, confidence=confidence, side=side, missing=missing)
    return replace(made, about=About(quantity="expectation deviation", constant=rho))


def _extremes(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    rho: float | None,
    *,
    confidence: float,
    side: Side,
    missing: npt.ArrayLike,
) -> Estimate:
    """The extremes of f over the interval of p; `rho` None for the deviation alone."""
    # Below, either end of p may fail, never both: each has the whole of alpha.
    share = share_of(confidence, side)
    level = 1 - 2 * share if side == "lower" else confidence
    if level <= 0:
        raise InputError(
            f"`confidence` must exceed 0.5 for a lower bound of a deviation, got {confidence!r}."
        )
    p = proportion_bound(hits, n, confidence=level, side="both", missing=missing)
    low, high, value = (np.asarray(end) for end in (p.lower, p.upper, p.value))

    def f(q: Array) -> Array:
        spread = np.sqrt(q * (1 - q))
        return spread if rho is None else q + rho * spread

    peak = np.asarray(0.5 if rho is None else (1 + 1 / math.hypot(1, rho)) / 2)
    largest = float(LARGEST_STD if rho is None else f(peak))
    inside = (low <= peak) & (peak <= high)
    upper = np.where(inside, largest, np.maximum(f(low), f(high)))
    lower = np.minimum(f(low), f(high))
    return replace(
        p,
        value=plain(f(value)),
        lower=plain(np.zeros_like(lower) if side == "upper" else lower),
        upper=plain(np.full_like(upper, largest) if side == "lower" else upper),
        confidence=confidence,
        side=side,
        method=f"{p.method}, extremes over its interval",
    )
