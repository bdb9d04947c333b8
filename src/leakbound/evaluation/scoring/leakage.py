"""The expected leakage of each question from a number of draws that was fixed beforehand."""

from __future__ import annotations

from leakbound import stats
from leakbound.evaluation.scoring.ordering import Order
from leakbound.store import ArmScores


def leakage_at_fixed_n(
    scores: ArmScores, binary: bool, order: Order, *, confidence: float, side: stats.Side
) -> stats.Estimate:
    """Bound the leakage of every question: Pr[leak] for a `binary` scorer, else the mean score.

    One entry a question of `scores`, each of which holds by itself: Clopper-Pearson, or betting
    that meets the draws in the `order` of the experiment.
    """
    if binary:
        return stats.proportion_bound(
            scores.hits, scores.n, confidence=confidence, side=side, missing=scores.missing
        )
    return stats.mean_bound(
        scores.scores,
        scores.counts,
        confidence=confidence,
        side=side,
        missing=scores.missing,
        seed=order.keys(scores.query_ids),
    )
