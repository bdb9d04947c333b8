"""Bounds on the median leakage of a training method, from models trained with several seeds.

A method with a random seed gives a random model. Let X_1 … X_S be the leakage
of S models trained from seeds that were chosen independently. They are
independent draws from one distribution with median m, so Pr[X <= m] >= 1/2 and
Pr[X >= m] >= 1/2. X_s is not observed, but draws of model s give a bound on X_s.

*Lower bound.* Let L_s be a lower bound on X_s with Pr[L_s > X_s] <= β, and
L_(r) the r-th smallest of the L_s. Let K be the number of models with X_s <= m.
If L_(r) > m, at most r - 1 of the L_s are at most m. So of these K models, at
least K - r + 1 have a bound that fails.

Suppose first that the bounds may share draws. The expected number of the K bounds that fail is at
most K β. So by Markov's inequality, L_(r) > m has a probability of at most K β / (K - r + 1), or at
most 1 if K < r. Both limits decrease in K, and K is stochastically at least Bin(S, 1/2). Hence

    Pr[L_(r) > m] <= BinCDF(r - 1; S, 1/2) + β Σ_{k >= r} Bin(k; S, 1/2) k / (k - r + 1).

Suppose now that draws of different models are independent. Then the events L_s > m are independent,
and each has a probability of at most 1/2 + β/2. L_(r) > m needs at least S - r + 1 of these events.
Hence

    Pr[L_(r) > m] <= Pr[Bin(S, (1 + β)/2) >= S - r + 1].

For r = 1 and five seeds at 95 % (one side), the first inequality allows β = .0194, and the second
inequality allows β = .0986. Six seeds suffice for a two-sided interval at 95 %, and eight at 99 %.
With fewer than log2(1/alpha) seeds, no β is small enough. S and alpha determine the rank r. It is
the largest r for which at least a fifth of alpha is left for the bounds L_s, or 1 if there is no
such r.

*Upper bound.* Apply the lower bound to -X.

The statement is about the distribution of the method over seeds, on this data set with these
settings. The mean over seeds has no such bound: a rare seed may be arbitrarily far off.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import bdtr, betaincinv

from leakbound.errors import InputError
from leakbound.stats.estimate import (
    BoundFunction,
    Estimate,
    Side,
    percent,
    share_of,
)
from leakbound.stats.questions import bounds_at, summed

LUCK = 0.8  # largest part of alpha that may be spent on the randomness of the seeds


def median_over_seeds(
    bound: BoundFunction,
    seeds: int,
    *,
    independent: bool = False,
    confidence: float = 0.95,
    side: Side = "both",
) -> Estimate:
    """Bound the median over training seeds of a quantity, from a bound for each seed's model.

    The models must be trained from seeds chosen independently.

    Args:
        bound: the function that bounds the quantity, one entry for each model.
        seeds: the number of models, which is the number of entries of `bound`.
        independent: whether the draws of different models share no randomness and no common
            control.
        confidence: the probability that the bound is valid, in (0, 1).
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.

    Returns:
        The estimate of the median; `value` is the median of the seeds' values.

    Raises:
        InputError: too few seeds for the confidence, a number of seeds that is not the number of
            entries, or an invalid confidence or side.
    """
    share = share_of(confidence, side)
    rank, luck = _rank(seeds, share)
    if luck >= share:
        needed = math.floor(-math.log2(share)) + 1
        raise InputError(
            f"{seeds} seeds cannot bound a median at "
            f"{percent(confidence)}{' on both sides' if side == 'both' else ''}: all models are on "
            f"one side of the median with probability {luck:.3g}. Train at least {needed} models, "
            f"or lower the confidence{', or bound one side' if side == 'both' else ''}."
        )
    rate = _rate(seeds, rank, share, independent)
    bounds = bounds_at(bound, seeds, side, upper=rate, lower=rate)
    lower, upper = (np.sort(np.atleast_1d(end)) for end in (bounds.lower, bounds.upper))
    return replace(
        summed(bounds, confidence, side),
        about=replace(bounds.about, seeds=seeds),
        value=float(np.median(np.asarray(bounds.value))),
        lower=float(lower[rank - 1]),
        upper=float(upper[-rank]),
    )


def _rate(seeds: int, rank: int, share: float, independent: bool) -> float:
    """Return the error rate β of each bound, by the inequality in the module docstring."""
    if independent:
        return float(2 * betaincinv(seeds - rank + 1, rank, share) - 1)
    from scipy.stats import binom  # takes most of a second

    k = np.arange(rank, seeds + 1)
    failing = binom.pmf(k, seeds, 0.5) * k / (k - rank + 1)
    return float((share - bdtr(rank - 1, seeds, 0.5)) / failing.sum())


def _rank(seeds: int, share: float) -> tuple[int, float]:
    """Return the rank of the order statistic and the probability that it misses the median.

    Raises InputError if there are no seeds.
    """
    if seeds < 1:
        raise InputError(f"`seeds` must be at least 1, got {seeds}. Pass every trained model.")
    fitting = [r for r in range(1, seeds // 2 + 1) if bdtr(r - 1, seeds, 0.5) <= LUCK * share]
    rank = max(fitting, default=1)
    return rank, float(bdtr(rank - 1, seeds, 0.5))
