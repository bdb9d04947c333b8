"""The expected leakage E[X] of a query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from leakbound.stats import betting, portfolio
from leakbound.stats.about import About
from leakbound.stats.anytime import portfolio_upper
from leakbound.stats.estimand import ANY_TIME, Estimand, Method, Rule
from leakbound.stats.estimate import Array, Estimate, Side
from leakbound.stats.leak_at_k import maximum_method
from leakbound.stats.leakage import Leakage, sample_mean
from leakbound.stats.order import Seed
from leakbound.stats.tail import BANDS


def mean_bound(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound E[X] for scores in [0, 1], n fixed beforehand unless the method is "any-time".

    The paper's own form uses the two-sided epsilon and a grid of 99 cells; ours has the one-sided
    epsilon and integrates the band exactly.

    Args:
        scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: "betting" (default; i.i.d. draws, in the order that `seed` keys), "portfolio"
            (independent draws, not necessarily identical; the order plays no part), "any-time"
            (valid at any look, for i.i.d. draws of one query or an allocated pool, not for a pool
            of different questions), "berk-jones" (i.i.d. draws; over that band) or "paper" (i.i.d.
            draws; Anderson's bound over DKW).
        missing: draws without a score, [Q] or one number: 1 above and 0 below.
        seed: of the order in which bets meet the draws, [Q] or one number; None: a random one.

    Returns:
        The mean leakage's estimate, in [0, 1]; arrays [Q] where `scores` are [Q, m].

    Raises:
        InputError: scores or counts that cannot be, a confidence, side or method that is none, or a
            confidence too near 1 for "berk-jones".
    """
    rows = Leakage.read(scores, counts, missing)
    return MEAN.estimate(rows, confidence=confidence, side=side, method=method, seed=seed)


def mirrored(upper: Rule) -> Rule:
    """The lower bound of E[X] that an upper bound of E[1 - X] is."""
    return lambda rows, alpha: 1 - upper(rows.mirrored(), alpha)


def _betting(rows: Leakage, alpha: float) -> Array:
    return betting.mean_upper(rows.shuffled(missing=1), alpha)


def _portfolio(rows: Leakage, alpha: float) -> Array:
    return portfolio.mean_upper(rows, alpha, portfolio.bets(rows.size, alpha))


_ONE = np.array(1)  # E[X] is leak@1

MEAN = Estimand(
    about=About(quantity="mean leakage"),
    value=sample_mean,
    methods={
        "betting": Method("finite-horizon betting", _betting, mirrored(_betting), shuffles=True),
        "portfolio": Method("portfolio mixture", _portfolio, mirrored(_portfolio)),
        "any-time": Method(
            "any-time portfolio mixture",
            portfolio_upper,
            mirrored(portfolio_upper),
            stopping=ANY_TIME,
        ),
        "berk-jones": maximum_method(BANDS["berk-jones"], _ONE),
        "paper": replace(maximum_method(BANDS["paper"], _ONE), name="Anderson over DKW"),
    },
)
