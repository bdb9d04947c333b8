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

import numpy as np

from leakbound.errors import InputError
from leakbound.stats.estimand import Terms
from leakbound.stats.estimate import Array, BoundFunction, Estimate, Side, plain, share_of
from leakbound.stats.evidence import Rows
from leakbound.stats.proportion import PROPORTION
from leakbound.stats.quantity import LEAKAGE
from leakbound.stats.questions import ends_at

Tally = tuple[int, int]
"""(hits, n): of n labelled items, how many the judge calls a leak."""

_BOUNDS = 3  # that an end rests on


def corrected_bound(
    bound: BoundFunction,
    *,
    positives: Tally,
    negatives: Tally,
    confidence: float = 0.99,
    side: Side = "both",
) -> Estimate:
    """Carry a bound on how often the judge says "leak" over to how often there is a leak.

    Conditions and proof are above. Where the labelled items are too few to tell the judge's rates t
    and f apart, `method` says so, and the ends are mostly 0 and 1. Questions share those items, so
    their bounds do not fail independently.

    Args:
        bound: a bound of the probability that the judge says "leak", of each question or on
            average, with its scores filled in, in whatever way is right for its draws.
        positives: (hits, n): of n items that leak, as people say, how many the judge calls a leak.
        negatives: (hits, n): the same of n items that do not leak.
        confidence: the probability that the bound is valid, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.

    Returns:
        The leak probability's estimate, in [0, 1], with entries as `bound` has. `value` is
            (q - f)/(t - f) of the shares seen, cut to [0, 1]; NaN where t <= f.

    Raises:
        InputError: a label that no item has, a bound on anything but a leak probability, or an
            invalid confidence or side.
    """
    rate = share_of(confidence, side) / _BOUNDS
    called = ends_at(bound, None, side, upper=rate, lower=rate)
    if called.about.quantity != "leak probability":
        raise InputError(
            f"only a leak probability can be corrected for the judge, got {called.estimand!r}. Put "
            "a threshold on the scorer, or use a rubric of two values."
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
    """The chance that the judge calls such an item a leak; each end fails at this rate."""
    hits, n = tally
    if not 0 <= hits <= n or n < 1:
        raise InputError(
            f"`{name}` must be (hits, n) with 0 <= hits <= n and n >= 1, got {tally}. Both kinds "
            "of items are needed: some that leak and some that do not, as people label them."
        )
    return PROPORTION(Rows.of_hits(hits, n), LEAKAGE, Terms(1 - 2 * rate))


def _solve(
    rate: float | Array, true: float | Array, false: float | Array, otherwise: float
) -> float | Array:
    """The p with p·true + (1 - p)·false = rate, cut to [0, 1]; `otherwise` unless true > false."""
    if true <= false:
        return plain(np.full(np.shape(rate), otherwise))
    return plain(np.clip((np.asarray(rate) - false) / (true - false), 0.0, 1.0))
