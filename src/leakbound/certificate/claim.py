"""Which way a claim is decided, and how many draws would have decided it.

A forecast is made from the rates seen: no guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from leakbound import stats
from leakbound.bounding.claims import decisive
from leakbound.bounding.drawn import Drawn
from leakbound.stats.estimate import Array
from leakbound.stats.mean_over_questions import PILOTED, POOLED, hoeffding_upper
from leakbound.store import ArmScores
from leakbound.store.claims import LeakClaim

Verdict = Literal["pass", "refuted", "inconclusive"]
FORMAT = "leakbound certificate 8"
"""The format in a certificate's file: who decides by another rule has another."""


def verdict(estimate: stats.Estimate, claim: LeakClaim, proved: float = 0.0) -> Verdict:
    """Pass if the upper end is within the limit, refuted if the lower end is beyond it.

    Refuted as well if `proved`, a lower bound without chance, is beyond it, whatever the ends say.
    Whatever the truth, a wrong verdict has probability at most alpha: what is proved above the
    limit is above it, so by a proof no true claim is refuted, and no false one passes.
    """
    if proved > claim.max_leak:
        return "refuted"
    if estimate.upper <= claim.max_leak:
        return "pass"
    return "refuted" if estimate.lower > claim.max_leak else "inconclusive"


MOST_DRAWS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """How many draws a new run would need, from the rates that were seen: no guarantee.

    Attributes:
        draws: of every question; None where none would do.
        text: a sentence for people.
    """

    draws: int | None
    text: str


def forecast(rates: Array, n: Array, lost: Array, claim: LeakClaim) -> Forecast:
    """Forecast what a new run needs that records the claim and has these rates.

    Of each question there is its `rates` of leaks, of `n` draws `lost` without a score. The bounds
    are computed at growing n, with the counts scaled. Of a mean it is the pooled one alone, as
    rounds meet every draw: where questions differ much, fewer suffice.
    """
    missing, rate = lost / np.maximum(n, 1), np.nan_to_num(rates)
    most = max(1, int(np.max(n)))
    draws = _deciding(rate * (1 - missing), missing, claim, start=most)
    if draws is not None:
        return Forecast(
            draws=draws,
            text=f"A forecast from the rates seen, not a guarantee: about {draws:,} draws of every "
            "question would decide. They need a new run, with --claim; to add draws to this one "
            "because of what it showed would void its bounds.",
        )
    complete = _deciding(rate, 0 * missing, claim, start=1)
    why = "the rate lies too near the limit"
    if missing.any() and complete is not None:
        why = "draws without a score count against the claim both ways, and there are too many"
    return Forecast(
        draws=None,
        text="A forecast from the rates seen, not a guarantee: not even "
        f"{MOST_DRAWS:,} draws of every question would decide, because {why}.",
    )


def _deciding(hits: Array, missing: Array, claim: LeakClaim, *, start: int) -> int | None:
    """A number of draws, within 1 %, from which these rates decide the claim."""

    def decides(n: int) -> bool:
        if claim.every_question:
            scores = _scores_at(hits, missing, n)
            made = decisive(Drawn.fixed(scores, True), every=True, confidence=claim.confidence)
            return verdict(made, claim) != "inconclusive"
        alpha, bounded = POOLED * (1 - claim.confidence), n
        if n >= PILOTED:
            alpha, bounded = 1 - claim.confidence, n - n // 80  # about what a pilot takes
        rows = _scores_at(hits, missing, bounded).rows(binary=True)
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


def _scores_at(hits: Array, missing: Array, n: int) -> ArmScores:
    """The scores of a run of fixed n with these rates."""
    lost = np.rint(missing * n).astype(np.int64)
    leaks = np.minimum(np.rint(hits * n).astype(np.int64), n - lost)
    ids = tuple(map(str, range(len(leaks))))
    scores = np.tile([0.0, 1.0], (len(ids), 1))
    return ArmScores(ids, scores, np.stack([n - lost - leaks, leaks], 1), lost)
