"""The expected leakage E[X] of a query, for scores in [0, 1].

By method: *betting* (default; i.i.d. draws of a fixed n, in the order that the seed keys),
*portfolio* (independent draws of a fixed n, not necessarily identical; the order plays no part),
*any-time* (valid at any look, for i.i.d. draws of one query or an allocated pool, not for a pool of
different questions), *berk-jones* (i.i.d. draws; over that band) and *paper* (i.i.d. draws;
Anderson's bound over DKW). The paper's own form uses the two-sided epsilon and a grid of 99 cells;
ours has the one-sided epsilon and integrates the band exactly. A missing draw is 1 above and 0
below.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leakbound.stats import betting, portfolio
from leakbound.stats.about import About
from leakbound.stats.anytime import portfolio_upper
from leakbound.stats.estimand import ANY_TIME, Estimand, Method, Rule
from leakbound.stats.estimate import Array
from leakbound.stats.evidence import Rows, sample_mean
from leakbound.stats.leak_at_k import maximum_method
from leakbound.stats.tail import BANDS


def mirrored(upper: Rule) -> Rule:
    """The lower bound of E[X] that an upper bound of E[1 - X] is."""
    return lambda rows, alpha: 1 - upper(rows.mirrored(), alpha)


def _betting(rows: Rows, alpha: float) -> Array:
    return betting.mean_upper(rows.shuffled(missing=1), alpha)


def _portfolio(rows: Rows, alpha: float) -> Array:
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
