"""Bound the leak probability under a binary scorer from the number of leaks in n i.i.d. draws.

The range that the scorer declares selects the bound; the observed scores never do. For example,
ROUGE is not binary even if all ROUGE scores happen to be 0, so the module `mean` bounds its mean.

Clopper-Pearson needs an n fixed in advance. If every draw leaks, the formula of Scholten et al.
(2025) is undefined, and the upper bound here is 1. A missing draw counts as 1 in an upper bound and
as 0 in a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betainccinv, betaincinv

from leakbound.stats.about import About
from leakbound.stats.estimand import Estimand, Method
from leakbound.stats.estimate import Array, Counts
from leakbound.stats.evidence import sample_mean

LEAK = About(quantity="leak probability")
CLOPPER_PEARSON = "Clopper-Pearson"
TallyRule = Callable[[Counts, Counts, float], Array]
"""A function (hits, n, alpha) -> one bound per question, valid at 1 - alpha, [Q]."""


def clopper_pearson_upper(hits: Counts, n: Counts, alpha: float) -> Array:
    """Return the upper bound BetaInv(1 - alpha; S + 1, n - S), or 1 where S = n; S is `hits`."""
    return np.where(hits < n, betainccinv(hits + 1, np.maximum(n - hits, 1), alpha), 1.0)


def clopper_pearson_lower(hits: Counts, n: Counts, alpha: float) -> Array:
    """Return the lower bound BetaInv(alpha; S, n - S + 1), or 0 where S = 0; S is `hits`."""
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, alpha), 0.0)


def tallied(name: str, upper: TallyRule, lower: TallyRule) -> Method:
    """Make a method from two rules; missing draws count as leaks in the upper bound only."""
    return Method(
        name,
        lambda rows, alpha: upper(rows.hits + rows.missing, rows.n, alpha),
        lambda rows, alpha: lower(rows.hits, rows.n, alpha),
        any_n=True,
    )


PROPORTION = Estimand(
    about=LEAK,
    value=sample_mean,
    usual=tallied(CLOPPER_PEARSON, clopper_pearson_upper, clopper_pearson_lower),
)
