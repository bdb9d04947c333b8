"""Binary scorers: the probability of a leak, from hits in n i.i.d. draws.

The bound used follows from the scorer's declared range, never from the scores seen: ROUGE that
happens to be all 0 is not binary, and its mean is bounded by `mean`.

Clopper-Pearson needs an n fixed in advance. The paper's form is undefined where every draw leaks:
the bound is 1 there. A missing draw is 1 above and 0 below.
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
"""(hits, n, alpha) -> one bound a question, holding at 1 - alpha: (Q,)."""


def clopper_pearson_upper(hits: Counts, n: Counts, alpha: float) -> Array:
    """BetaInv(1 - alpha; S + 1, n - S), and 1 where S = n."""
    return np.where(hits < n, betainccinv(hits + 1, np.maximum(n - hits, 1), alpha), 1.0)


def clopper_pearson_lower(hits: Counts, n: Counts, alpha: float) -> Array:
    """BetaInv(alpha; S, n - S + 1), and 0 where S = 0."""
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, alpha), 0.0)


def tallied(name: str, upper: TallyRule, lower: TallyRule) -> Method:
    """Make a method of two rules; a missing draw counts as a leak above and as none below."""
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
