"""Decide a claim, and forecast the number of draws that would decide it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from leakbound import stats
from leakbound.stats.estimate import Array
from leakbound.stats.mean_over_questions import PILOTED, POOLED, hoeffding_upper
from leakbound.store.claims import LeakClaim

Verdict = Literal["pass", "refuted", "inconclusive"]
FORMAT = "leakbound certificate 13"
"""The format of a certificate's file. It changes with the decision rule or the wording."""


def alpha_of(claim: LeakClaim) -> float:
    """Return the error rate of each of the two bounds that decide a claim."""
    alpha, among = 1 - claim.confidence, claim.among
    return alpha / (4 * len(among)) if among else alpha


def verdict(estimate: stats.Estimate, claim: LeakClaim, proved: float = 0.0) -> Verdict:
    """Return "pass" if upper bound <= limit, "refuted" if lower bound > limit, else "inconclusive".

    `proved` is a lower bound without sampling error. If it is above the limit, it refutes the
    claim. A proved bound never refutes a true claim, so the probability of a wrong verdict remains
    at most alpha.
    """
    if proved > claim.max_leak:
        return "refuted"
    if estimate.upper <= claim.max_leak:
        return "pass"
    return "refuted" if estimate.lower > claim.max_leak else "inconclusive"


MOST_DRAWS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A forecast of the number of draws that a new run needs, without guarantee.

    Attributes:
        draws: the number of draws per question; None if no number would decide the claim.
        text: the forecast in words.
    """

    draws: int | None
    text: str


def forecast(rates: Array, n: Array, lost: Array, claim: LeakClaim) -> Forecast:
    """Forecast the number of draws that decide the claim in a new run with the same leak rates.

    The new run is assumed to record the claim. The bounds are computed for growing n, as if the
    number of leaks grew in proportion to n. For a claim about the mean, only the bound from the
    pooled draws of all questions is used. If the questions differ much, other bounds may be
    sharper, and fewer draws may suffice.

    Args:
        rates: for each question, the fraction of its scored draws that leak.
        n: the number of draws of each question.
        lost: for each question, the number of its draws that have no score.
        claim: the claim.

    Returns:
        The forecast.
    """
    missing, rate = lost / np.maximum(n, 1), np.nan_to_num(rates)
    most = max(1, int(np.max(n)))
    draws = _deciding(rate * (1 - missing), missing, claim, start=most)
    if draws is not None:
        return Forecast(
            draws=draws,
            text=f"A forecast from the observed rates, not a guarantee: about {draws:,} draws per "
            "question would decide the claim. Draw them in a new run with --claim. If you add "
            "draws to this run because of its result, its bounds are no longer valid.",
        )
    complete = _deciding(rate, 0 * missing, claim, start=1)
    why = "the rate is too near the limit"
    if missing.any() and complete is not None:
        why = "draws without a score widen the bounds too much"
    return Forecast(
        draws=None,
        text="A forecast from the observed rates, not a guarantee: not even "
        f"{MOST_DRAWS:,} draws per question would decide the claim, because {why}.",
    )


def _deciding(hits: Array, missing: Array, claim: LeakClaim, *, start: int) -> int | None:
    """Return the smallest number of draws per question that decides the claim, accurate to 1 %."""

    def decides(n: int) -> bool:
        if claim.every_question:
            rows, both = _rows_at(hits, missing, n), 2 * claim.confidence - 1
            made = stats.bound(rows, stats.LEAKAGE.worst(), confidence=both)
            return verdict(made, claim) != "inconclusive"
        alpha, bounded = POOLED * (1 - claim.confidence), n
        if n >= PILOTED:
            alpha, bounded = 1 - claim.confidence, n - n // 80  # the rest only select the bound
        rows = _rows_at(hits, missing, bounded)
        high, low = hoeffding_upper(rows, alpha), 1 - hoeffding_upper(rows.mirrored(), alpha)
        return bool(high <= claim.max_leak or low > claim.max_leak)

    few, many = start, start
    while not decides(many):
        if many >= MOST_DRAWS:
            return None
        few, many = many, min(2 * many, MOST_DRAWS)
    while many - few > max(1, few // 100):
        middle = (few + many) // 2
        few, many = (few, middle) if decides(middle) else (middle, many)
    step = int(10 ** max(0, len(str(many)) - 3))
    return -(-many // step) * step


def _rows_at(hits: Array, missing: Array, n: int) -> stats.Rows:
    """Return the draws of a run with fixed n and these leak rates."""
    lost = np.rint(missing * n).astype(np.int64)
    leaks = np.minimum(np.rint(hits * n).astype(np.int64), n - lost)
    return stats.Rows.of_hits(leaks, n, lost)
