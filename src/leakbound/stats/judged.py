"""Bounds on the leak probability behind a judge whose errors are measured on labelled items.

Let p be the probability of a leak. Let t be the probability that the judge reports "leak" for a
leak (its true positive rate), and f the probability that it reports "leak" for anything else. Then
the judge reports "leak" with probability q = p·t + (1 - p)·f, which is increasing in t and in f. A
superscript ⁺ marks an upper bound and ⁻ a lower bound. If q <= q⁺, t >= t⁻ and f >= f⁻,

    p·t⁻ + (1 - p)·f⁻  <=  q⁺,    that is    p·(t⁻ - f⁻)  <=  q⁺ - f⁻,

so p <= (q⁺ - f⁻)/(t⁻ - f⁻) if t⁻ > f⁻; otherwise nothing follows and the upper bound is 1.
Likewise, p >= (q⁻ - f⁺)/(t⁺ - f⁺) if t⁺ > f⁺; otherwise the lower bound is 0. A bound on p fails
only if one of the three bounds (on q, t and f) in its formula fails. Each of the three bounds has
the error rate alpha/3. The formulas are valid even if the judge is not better than chance.

There are three assumptions. People label correctly. The labelled items were judged independently of
each other and of the draws. On draws that leak and on draws that do not leak, the judge reports a
leak at the same rates t and f as on the labelled items. For the mean over questions the rates need
to agree only on average, t over all draws that leak, and f over all draws that do not leak.
Labelled items picked at random from the draws satisfy this condition. For a single question, t and
f must be the rates of that question. A draw that the judge could not decide is a missing draw.
Upper bounds count it as a reported leak, and lower bounds as no reported leak, which only widens
the interval. So labelled items that the judge could not decide are left out of the tallies below.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from leakbound.errors import InputError
from leakbound.stats.estimand import Terms
from leakbound.stats.estimate import Array, BoundFunction, Estimate, Side, plain, share_of
from leakbound.stats.evidence import Rows
from leakbound.stats.proportion import PROPORTION
from leakbound.stats.quantity import LEAKAGE
from leakbound.stats.questions import bounds_at

Tally = tuple[int, int]
"""A pair (hits, n): the judge reports a leak for `hits` of n labelled items."""

_BOUNDS = 3  # bounds from which each bound on p is computed


def corrected_bound(
    bound: BoundFunction,
    *,
    positives: Tally,
    negatives: Tally,
    confidence: float = 0.99,
    side: Side = "both",
) -> Estimate:
    """Bound the leak probability from a bound on the rate at which a judge reports "leak".

    Conditions and proof are in the module docstring. If there are too few labelled items to
    separate the judge's rates t and f, the `method` of the result reports that, and the bounds are
    mostly 0 and 1. The bounds of all questions use the same labelled items, so they do not fail
    independently.

    Args:
        bound: the function that bounds the probability that the judge reports "leak", for each
            question or for the mean over questions.
        positives: (hits, n): of n items that people label as leaks, the judge reports `hits` as
            leaks.
        negatives: (hits, n): of n items that people label as no leaks, the judge reports `hits` as
            leaks.
        confidence: the probability that the bound is valid, in (0, 1).
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.

    Returns:
        The estimate of the leak probability, in [0, 1], with the same entries as `bound`. `value`
            is (q - f)/(t - f) of the observed fractions, cut to [0, 1]; NaN where t <= f.

    Raises:
        InputError: no labelled leaks or no labelled non-leaks, a bound of a quantity that is not a
            leak probability, or an invalid confidence or side.
    """
    rate = share_of(confidence, side) / _BOUNDS
    called = bounds_at(bound, None, side, upper=rate, lower=rate)
    if called.about.quantity != "leak probability":
        raise InputError(
            f"only a leak probability can be corrected for the judge, got {called.estimand!r}. Put "
            "a threshold on the scorer, or use a rubric with two values."
        )
    true = _interval("positives", positives, rate)
    false = _interval("negatives", negatives, rate)
    leaks, others = (f"{hits} of {n}" for hits, n in (positives, negatives))
    words = f"corrected for a judge that calls {leaks} leaks and {others} others a leak"
    if true.lower <= false.upper:
        words += ", too few to tell the two apart"
    return replace(
        called,
        about=replace(called.about, quantity="corrected leak probability"),
        value=_solve(called.value, true.value, false.value, math.nan),
        lower=_solve(called.lower, true.upper, false.upper, 0.0),
        upper=_solve(called.upper, true.lower, false.lower, 1.0),
        confidence=confidence,
        side=side,
        method=f"{called.method}, {words}",
    )


def _interval(name: str, tally: Tally, rate: float) -> Estimate:
    """Bound the rate at which the judge reports "leak", each side at error rate `rate`."""
    hits, n = tally
    if not 0 <= hits <= n or n < 1:
        raise InputError(
            f"`{name}` must be (hits, n) with 0 <= hits <= n and n >= 1, got {tally}. Calibration "
            "needs items that leak and items that do not, both labelled by people."
        )
    return PROPORTION(Rows.of_hits(hits, n), LEAKAGE, Terms(1 - 2 * rate))


def _solve(
    rate: float | Array, true: float | Array, false: float | Array, otherwise: float
) -> float | Array:
    """Solve p·true + (1 - p)·false = rate for p in [0, 1]; `otherwise` unless true > false."""
    if true <= false:
        return plain(np.full(np.shape(rate), otherwise))
    return plain(np.clip((np.asarray(rate) - false) / (true - false), 0.0, 1.0))
