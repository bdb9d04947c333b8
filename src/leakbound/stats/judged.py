"""The leak probability behind a judge that errs, from items that people labelled too.

Let p be the probability of a leak, t the chance that the judge calls a leak one (its true positive
rate), f the chance that it calls anything else one. It says "leak" with probability
q = p·t + (1 - p)·f, which is increasing in t and in f. So where q <= q⁺, t >= t⁻ and f >= f⁻,

    p·t⁻ + (1 - p)·f⁻  <=  q⁺,    that is    p·(t⁻ - f⁻)  <=  q⁺ - f⁻,

and p <= (q⁺ - f⁻)/(t⁻ - f⁻) if t⁻ > f⁻; otherwise nothing follows and the bound is 1. Turned
round, p >= (q⁻ - f⁺)/(t⁺ - f⁺) if t⁺ > f⁺, otherwise 0. An end fails only if one of its three
bounds does; each gets a third of alpha. That the judge is better than chance is not supposed.

What is supposed: people label rightly; the labelled items were judged independently of each other
and of the draws; and, given whether a draw leaks, the judge says so at the rates it has on these
items. About the mean over questions the rates need to agree on average only, over all the draws
that leak and over all that do not: items picked at random from the draws will do. About one
question they must be that question's own. Draws that the judge could not decide are missing: they
count as called a leak above and as not called one below, which only widens the interval whatever
they are, so items that it could not decide are left out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.estimate import (
    OPPOSITE,
    Array,
    BoundFunction,
    Estimate,
    Side,
    plain,
    share_of,
)
from leakbound.stats.proportion import proportion_bound

Tally = tuple[int, int]
"""(hits, n): of n labelled items, how many the judge calls a leak."""

_BOUNDS = 3  # that an end rests on


def judged_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    *,
    positives: Tally,
    negatives: Tally,
    confidence: float = 0.99,
    side: Side = "both",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound the probability of a leak, where an erring judge calls `hits` of `n` draws a leak.

    For i.i.d. draws, n fixed beforehand. Clopper-Pearson for all three proportions. Conditions and
    proof stand above.

    Args:
        hits: draws of each question that the judge calls a leak, [Q] or one number.
        n: draws of each question, [Q] or one number, those `missing` among them; at least 1.
        positives: (hits, n): of n items that leak, as people say, how many the judge calls a leak.
        negatives: (hits, n): the same of n items that do not leak.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        missing: draws that the judge could not decide, [Q] or one number: called a leak above and
            not called one below.

    Returns:
        The leak probability's estimate, in [0, 1], as `corrected_bound` gives it; arrays [Q] where
            an argument is one.

    Raises:
        InputError: counts that cannot be, a label that no item has, or a confidence or side that is
            none.
    """
    bound = partial(proportion_bound, hits, n, missing=missing)
    return corrected_bound(
        bound, positives=positives, negatives=negatives, confidence=confidence, side=side
    )


def corrected_bound(
    bound: BoundFunction,
    *,
    positives: Tally,
    negatives: Tally,
    confidence: float = 0.99,
    side: Side = "both",
) -> Estimate:
    """Carry a bound on how often the judge says "leak" over to how often there is a leak.

    Where the labelled items are too few to tell the judge's rates t and f apart, `method` says so,
    and the ends are mostly 0 and 1. Questions share those items, so their bounds do not fail
    independently.

    Args:
        bound: a bound of the probability that the judge says "leak", of each question or on
            average, with its scores filled in, in whatever way is right for its draws.
        positives: (hits, n): of n items that leak, as people say, how many the judge calls a leak.
        negatives: (hits, n): the same of n items that do not leak.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.

    Returns:
        The leak probability's estimate, in [0, 1], with entries as `bound` has. `value` is
            (q - f)/(t - f) of the shares seen, cut to [0, 1]; NaN where t <= f.

    Raises:
        InputError: a label that no item has, a bound on anything but a leak probability, or a
            confidence or side that is none.
    """
    level = 1 - share_of(confidence, side) / _BOUNDS
    sides: tuple[Side, ...] = ("lower", "upper") if side == "both" else (side,)
    bounds = {end: bound(confidence=level, side=end) for end in sides}
    first = bounds[sides[0]]
    if first.about.quantity != "leak probability":
        raise InputError(
            f"only a leak probability can be corrected for the judge, got {first.estimand!r}. Put "
            "a threshold on the scorer, or use a rubric of two values."
        )

    def solved(end: Side, trivial: float) -> float | Array:
        if end not in bounds:
            return _solve(first.value, 0.0, 0.0, trivial)
        leaks = _rate("positives", positives, level, OPPOSITE[end])
        others = _rate("negatives", negatives, level, OPPOSITE[end])
        return _solve(getattr(bounds[end], end), leaks, others, trivial)

    ends = solved("lower", 0.0), solved("upper", 1.0)
    true, false = (hits / n for hits, n in (positives, negatives))
    return replace(
        first,
        about=replace(first.about, quantity="corrected leak probability"),
        value=_solve(first.value, true, false, math.nan),
        lower=ends[0],
        upper=ends[1],
        confidence=confidence,
        side=side,
        method=f"{first.method}, {_described(positives, negatives, level)}",
    )


def _rate(name: str, tally: Tally, confidence: float, side: Side) -> float:
    """An end of the chance that the judge calls such an item a leak."""
    hits, n = tally
    if not 0 <= hits <= n or n < 1:
        raise InputError(
            f"`{name}` must be (hits, n) with 0 <= hits <= n and n >= 1, got {tally}. Both kinds "
            "of items are needed: some that leak and some that do not, as people label them."
        )
    made = proportion_bound(hits, n, confidence=confidence, side=side)
    return float(getattr(made, side))


def _solve(rate: float | Array, true: float, false: float, otherwise: float) -> float | Array:
    """The p with p·true + (1 - p)·false = rate, cut to [0, 1]; `otherwise` unless true > false."""
    if true <= false:
        return plain(np.full(np.shape(rate), otherwise))
    return plain(np.clip((np.asarray(rate) - false) / (true - false), 0.0, 1.0))


def _described(positives: Tally, negatives: Tally, level: float) -> str:
    called, leaks = positives
    miscalled, others = negatives
    words = (
        f"corrected for a judge that calls {called} of {leaks} leaks and {miscalled} of {others} "
        "others a leak"
    )
    least = _rate("positives", positives, level, "lower")
    most = _rate("negatives", negatives, level, "upper")
    return words if least > most else f"{words}, too few to tell the two apart"
