"""Bounds for an arm whose questions stopped when a claim about them was decided.

How many draws a question got then depends on its scores, so every bound for a fixed n is void:
what holds is any-time bounds and, for a question that reached the cap, the better of that and
the bound for n = cap, each at its half of alpha. They hold whatever rule made a question stop,
and for every scorer, not only the one that steered: at each look the rule may use all that was
drawn and scored until then. Deviations and tails at all x have no such bound here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leakbound import stats
from leakbound.evaluation.scoring.ordering import BY_QUESTION, Order
from leakbound.evaluation.statements.quantities import ALL_K
from leakbound.evaluation.statements.together import EACH_CONFIDENCE, together
from leakbound.store import ArmScores


@dataclass(frozen=True, slots=True)
class Stopped:
    """The scores of an arm whose questions stopped early, at most `cap` draws each.

    `binary` is the scorer's declared range.
    """

    scores: ArmScores
    binary: bool
    cap: int
    order: Order = BY_QUESTION

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The expected leakage of every question: Pr[leak] for a binary scorer."""
        scores = self.scores
        how: dict[str, Any] = {"confidence": confidence, "side": side, "missing": scores.missing}
        if self.binary:
            return stats.stopped_proportion_bound(scores.hits, scores.n, self.cap, **how)
        keys = self.order.keys(scores.query_ids)
        return stats.stopped_mean_bound(
            scores.scores, scores.counts, cap=self.cap, seed=keys, **how
        )

    def leak_at_k(self, k: Sequence[int], *, confidence: float) -> stats.Estimate:
        """A leak among k draws, for every k at once; also for k beyond n."""
        scores = self.scores
        return stats.stopped_leak_at_k_bound(
            scores.hits, scores.n, k, self.cap, missing=scores.missing,
            confidence=confidence, side="both",
        )  # fmt: skip

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leakage over these questions."""
        number = len(self.scores.query_ids)
        return stats.mean_over_stopped_questions(
            self.leakage, number, confidence=confidence, side=side
        )

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """The leakage of every question, and leak@k where it follows from that."""
        yield self.leakage(confidence=confidence, side="both")
        if self.binary:
            yield self.leak_at_k(ALL_K, confidence=confidence)

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """The worst question, the mean, and how many leak more than x."""
        return together(self, confidence, EACH_CONFIDENCE)
