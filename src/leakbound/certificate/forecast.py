"""How many draws would have decided: a forecast from the rates seen, not a guarantee."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakbound import stats
from leakbound.certificate.claim import LeakClaim, bounded, verdict
from leakbound.evaluation.statements.claims import Tail
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.stats.estimate import Array
from leakbound.stats.mean_over_questions import POOLED, hoeffding_upper
from leakbound.stats.proportion import tally
from leakbound.store import ArmScores

MOST_DRAWS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`draws` of every question that a new run would need; None where none would do."""

    draws: int | None
    text: str


def forecast(seen: stats.Estimate, claim: LeakClaim) -> Forecast:
    """What a new run of fixed n would need, had every question the rates that were `seen`.

    `seen` has one entry a question. The same bounds are computed at growing n, with the counts
    scaled. Of a mean it is the pooled one alone, as rounds meet every draw: where questions differ
    much, fewer suffice.
    """
    missing = np.asarray(seen.missing) / np.maximum(seen.n, 1)
    rate = np.nan_to_num(np.asarray(seen.value))
    most = max(1, int(np.max(seen.n)))
    draws = _deciding(rate * (1 - missing), missing, claim, start=most)
    if draws is not None:
        return Forecast(
            draws=draws,
            text=f"A forecast from the rates seen, not a guarantee: about {draws:,} draws of every "
            "question would decide. They need a new run; to add draws to this one because of what "
            "it showed would void its bounds.",
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
        scores = _scores(hits, missing, n)
        if claim.every_question:
            tail = Tail(Fixed(scores, binary=True))
            return verdict(bounded(tail, claim), claim) != "inconclusive"
        rows = tally(scores.hits, scores.n, scores.missing)
        alpha = POOLED * (1 - claim.confidence)
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


def _scores(hits: Array, missing: Array, n: int) -> ArmScores:
    """The scores of a run of fixed n with these rates."""
    gone = np.rint(missing * n).astype(np.int64)
    leaks = np.minimum(np.rint(hits * n).astype(np.int64), n - gone)
    ids = tuple(map(str, range(len(leaks))))
    scores = np.tile([0.0, 1.0], (len(ids), 1))
    return ArmScores(ids, scores, np.stack([n - gone - leaks, leaks], 1), gone)
