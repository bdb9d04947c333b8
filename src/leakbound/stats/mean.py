"""The expected leakage E[X] of a query, for scores in [0, 1].

The default bound bets on i.i.d. draws, with n fixed in advance, in the order
that the seed determines. The method "paper" is Anderson's bound over the DKW
band. Scholten et al. (2025) use the two-sided epsilon and a grid of 99 cells;
this package uses the one-sided epsilon and integrates the band exactly. A
missing draw counts as 1 in an upper bound and as 0 in a lower bound.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leakbound.stats import betting
from leakbound.stats.about import About
from leakbound.stats.estimand import Estimand, Method, Rule
from leakbound.stats.estimate import Array
from leakbound.stats.evidence import Rows, sample_mean
from leakbound.stats.leak_at_k import maximum_method
from leakbound.stats.tail import DKW


def mirrored(upper: Rule) -> Rule:
    """Convert a rule for an upper bound of E[X] to a rule for a lower bound."""
    return lambda rows, alpha: 1 - upper(rows.mirrored(), alpha)


def _betting(rows: Rows, alpha: float) -> Array:
    return betting.mean_upper(rows.shuffled(missing=1), alpha)


MEAN = Estimand(
    about=About(quantity="mean leakage"),
    value=sample_mean,
    usual=Method("finite-horizon betting", _betting, mirrored(_betting), shuffles=True),
    paper=replace(maximum_method(DKW, np.array(1)), name="Anderson over DKW"),  # E[X] is leak@1
)
