"""Bounds on the mean leak@k for k far above the number of draws, from bounds on p of each question.

leak@k is the probability that at least one of k draws leaks. For a binary
scorer with leak probability p it is f(p) = 1 - (1 - p)^k, which increases in p.
So a bound on p gives a bound on leak@k for every k simultaneously, at the same confidence. The
question with the largest p also has the largest leak@k for every k. Nothing is assumed about the
tail of a distribution. `leak_at_k.carried` gives these bounds for one question and for the worst
question. This module bounds the mean over questions.

*The mean over questions.* Let F(x) be the fraction of the questions whose p
exceeds x. At the points x_1 < ... < x_m, F is in [low_i, high_i] for all i
simultaneously (`leaking_questions`). At x_0 = 0, F is at most high_0 = 1. At
x_{m+1} = 1, F is low_{m+1} = 0. The mean of f(p) over the questions is the
integral of F f' from 0 to 1. F never increases, so between two neighbouring
points F is at most its value at the smaller point and at least its value at the
larger point. With d_i = f(x_{i+1}) - f(x_i),

    sum_i low_{i+1} d_i  <=  mean of f(p)  <=  sum_i high_i d_i,    i = 0 ... m.

Only f depends on k. So the bounds for all k are valid simultaneously whenever
the bounds on F are valid.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.estimate import Estimate, plain
from leakbound.stats.leak_at_k import among
from leakbound.stats.quantity import leak_at


def mean_leak_at_k_of_counts(counts: Estimate, k: npt.ArrayLike) -> Estimate:
    """Bound the mean leak@k over questions, for every k simultaneously, by counts of questions.

    Args:
        counts: an estimate of the number of questions whose leak probability exceeds x, for each x
            in [0, 1), from `leaking_questions`.
        k: the number of draws among which a leak is sought, any whole number >= 1; or [K] such
            numbers, which form the axis of the result.

    Returns:
        The estimate, in [0, 1], with the confidence and the side of the counts. `value` is NaN,
            because counts of point estimates do not estimate this mean.

    Raises:
        InputError: `counts` of a quantity that is not the leak probability, an x outside [0, 1), or
            an invalid k.
    """
    largest, about = leak_at(k), counts.about
    sizes = largest.sizes
    x = np.ravel(0.0 if about.parameter is None else about.parameter)
    if (about.scope, about.quantity) != ("count", "leak probability"):
        raise InputError(
            "`counts` must count questions with a leak probability above x, got "
            f"{counts.estimand!r}. Use `leaking_questions` with a binary scorer."
        )
    if not ((x >= 0) & (x < 1)).all():
        raise InputError(f"the x of `counts` must be in [0, 1), got {x.tolist()}.")
    assert isinstance(about.over, int)  # the number of questions
    order = np.argsort(x)
    low, high = (np.ravel(end)[order] for end in (counts.lower, counts.upper))
    f = np.asarray(among(np.append(x[order], 1.0), sizes))
    # Summation by parts: the weights add up to the number of questions, so a mean stays in [0, 1].
    at_least = low - np.append(low[1:], 0)
    at_most = np.append(about.over, high) - np.append(high, 0)
    return replace(
        counts,
        about=replace(largest.about(), scope="mean", inputs=about.inputs, over=about.over),
        value=plain(np.full(sizes.shape, np.nan)),
        lower=plain(at_least @ f[:-1] / about.over),
        upper=plain(at_most @ f / about.over),
        method=f"{counts.method}, summed over x",
    )
