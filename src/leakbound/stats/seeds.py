"""The leakage of a training method, by models that it trained from several seeds.

A method is what it does over its seeds: X_1 … X_S, the leakage of S models trained from seeds that
were chosen independently of one another, are independent draws from one law, and m is a median of
it, Pr[X <= m] >= 1/2 and Pr[X >= m] >= 1/2. Of each X_s a bound is known, from draws of that model.

*From below.* Let L_s <= X_s with probability 1 - β, for each s. The r-th smallest L lies above m
only where some L_s lies above its X_s, which has probability Sβ at most whatever the bounds share,
or where the r-th smallest X does: then at most r - 1 of S lie at or below m, each of which does so
with probability 1/2 at least. So

    Pr[L_(r) > m] <= BinCDF(r - 1; S, 1/2) + S β.

With r = 1 and five seeds that is 1/32 + 5 β: at 95 % each bound has β = .00375. Six seeds do for
two-sided 95 %, eight for 99 %; fewer than log2(1/alpha) do for no β. The order statistic is fixed
by S and alpha alone: the largest r that leaves a fifth of alpha to the bounds, or else the first.

*From above* it is the same of -X.

It is about the law of the method's seeds on this data set with these settings; the mean over the
seeds has no such bound, as nothing limits how seldom a seed may be how far off.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import bdtr

from leakbound.errors import InputError
from leakbound.stats.estimate import (
    BoundFunction,
    Estimate,
    Side,
    percent,
    share_of,
)
from leakbound.stats.questions import ends_at, summed

LUCK = 0.8  # of alpha, at most, for how the seeds fell


def median_over_seeds(
    bound: BoundFunction, seeds: int, *, confidence: float = 0.95, side: Side = "both"
) -> Estimate:
    """Bound the median over training seeds of a quantity that `bound` bounds, an entry a seed.

    The models must be trained from seeds chosen independently; what their bounds share plays no
    part.

    Args:
        bound: a bound of the quantity with its scores filled in, one entry for each model.
        seeds: how many models there are, as many as `bound` has entries.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.

    Returns:
        The estimate of the median; `value` is the median of the seeds' values.

    Raises:
        InputError: too few seeds for the confidence, another number of them than `bound` has
            entries, or a confidence or side that is none.
    """
    share = share_of(confidence, side)
    rank, luck = _rank(seeds, share)
    if luck >= share:
        needed = math.floor(-math.log2(share)) + 1
        raise InputError(
            f"{seeds} seeds say nothing of a median at {percent(confidence)}"
            f"{' on both sides' if side == 'both' else ''}: all of them lie on one side of it with "
            f"probability {luck:.3g}. Train {needed} at least, or lower the confidence"
            f"{', or bound one side' if side == 'both' else ''}."
        )
    rate = (share - luck) / seeds
    bounds = ends_at(bound, seeds, side, upper=rate, lower=rate)
    lower, upper = (np.sort(np.atleast_1d(end)) for end in (bounds.lower, bounds.upper))
    return replace(
        summed(bounds, confidence, side),
        about=replace(bounds.about, seeds=seeds),
        value=float(np.median(np.asarray(bounds.value))),
        lower=float(lower[rank - 1]),
        upper=float(upper[-rank]),
    )


def _rank(seeds: int, share: float) -> tuple[int, float]:
    """Which order statistic is taken, and the probability that the seeds put it beyond the median.

    InputError for no seeds.
    """
    if seeds < 1:
        raise InputError(f"`seeds` must be at least 1, got {seeds}. Name each trained model.")
    fitting = [r for r in range(1, seeds // 2 + 1) if bdtr(r - 1, seeds, 0.5) <= LUCK * share]
    rank = max(fitting, default=1)
    return rank, float(bdtr(rank - 1, seeds, 0.5))
