"""Binary scorers: the probability of a leak.

The bound used follows from the scorer's declared range, never from the scores seen: ROUGE that
happens to be all 0 is not binary, and belongs to `mean_bound` and `leak_at_k_bound`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, betaincinv

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.anytime import beta_mixture_lower, beta_mixture_upper
from leakbound.stats.estimand import ANY_TIME, FIXED_N, Estimand, Method
from leakbound.stats.estimate import Array, Counts, Estimate, Side
from leakbound.stats.leakage import Leakage, sample_mean
from leakbound.stats.whole import per_question, whole

LEAK = About(quantity="leak probability")
CLOPPER_PEARSON = "Clopper-Pearson"
TallyRule = Callable[[Counts, Counts, float], Array]
"""(hits, n, alpha) -> one bound a question, holding at 1 - alpha: (Q,)."""


def proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound the probability of a leak, from `hits` leaks in `n` i.i.d. draws.

    The paper's form is undefined where every draw leaks: the bound is 1 there.

    Args:
        hits: leaks of each question, [Q] or one number.
        n: draws of each question, [Q] or one number, those `missing` among them; at least 1.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: "clopper-pearson" (default; n fixed beforehand) or "any-time" (valid at any look,
            for draws of one query or an allocated pool, not for a pool of different questions).
        missing: draws without a score, [Q] or one number: 1 above and 0 below.

    Returns:
        The leak probability's estimate, in [0, 1]; arrays [Q] where an argument is one.

    Raises:
        InputError: counts that cannot be, or a confidence, side or method that is none.
    """
    rows = tally(hits, n, missing)
    return PROPORTION.estimate(rows, confidence=confidence, side=side, method=method)


def clopper_pearson_upper(hits: Counts, n: Counts, alpha: float) -> Array:
    """BetaInv(1 - alpha; S + 1, n - S), and 1 where S = n."""
    return np.where(hits < n, betainccinv(hits + 1, np.maximum(n - hits, 1), alpha), 1.0)


def clopper_pearson_lower(hits: Counts, n: Counts, alpha: float) -> Array:
    """BetaInv(alpha; S, n - S + 1), and 0 where S = 0."""
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, alpha), 0.0)


def tally(hits: npt.ArrayLike, n: npt.ArrayLike, missing: npt.ArrayLike = 0) -> Leakage:
    """Leaks among draws as scores of 0 and 1; InputError for numbers that cannot be.

    Each is one number or one a question; `n` counts the `missing` draws too.
    """
    parts = {name: whole(name, x) for name, x in (("hits", hits), ("n", n), ("missing", missing))}
    if max(x.ndim for x in parts.values()) > 1:
        raise InputError("`hits`, `n` and `missing` must be numbers or 1-D, one a question.")
    rows = max(x.size for x in parts.values())
    leaks, draws, lost = (per_question(name, x, rows) for name, x in parts.items())
    if not draws.size or not draws.all():
        raise InputError("`n` must be at least 1, got 0. A bound needs at least one draw.")
    if (leaks + lost > draws).any():
        row = int((leaks + lost - draws).argmax())
        raise InputError(
            f"`hits` and `missing` must not exceed `n`, got {leaks[row]} hits and "
            f"{lost[row]} missing of {draws[row]} draws at question {row}."
        )
    coins, counts = np.tile([0.0, 1.0], (rows, 1)), np.column_stack([draws - lost - leaks, leaks])
    single = all(x.ndim == 0 for x in parts.values())
    return replace(Leakage.read(coins, counts, lost), single=single)


def _tallied(name: str, upper: TallyRule, lower: TallyRule, stopping: str = FIXED_N) -> Method:
    """A missing draw counts as a leak above and as none below."""
    return Method(
        name,
        lambda rows, alpha: upper(rows.hits + rows.missing, rows.n, alpha),
        lambda rows, alpha: lower(rows.hits, rows.n, alpha),
        stopping=stopping,
        any_n=True,
    )


PROPORTION = Estimand(
    about=LEAK,
    value=sample_mean,
    methods={
        "clopper-pearson": _tallied(CLOPPER_PEARSON, clopper_pearson_upper, clopper_pearson_lower),
        "any-time": _tallied(
            "any-time beta mixture", beta_mixture_upper, beta_mixture_lower, ANY_TIME
        ),
    },
)
