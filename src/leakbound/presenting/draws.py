"""Numbers from the draws of one question: its scores, and bounds from its first n draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.bounding.evidence import drawn_of
from leakbound.presenting.table import Interval
from leakbound.scoring.ordering import Order
from leakbound.scoring.score import slug
from leakbound.stats.order import Keys, one_by_one
from leakbound.store import Arm, ArmScores
from leakbound.types import Scorer

FEWEST = 8  # draws of the first step


def in_order(scores: ArmScores, row: int, order: Order) -> NDArray[np.float64]:
    """Return the scores of a question's draws one by one; NaN for a draw without a score."""
    (key,) = order.keys((scores.query_ids[row],)).tolist()
    return one_by_one(scores.scores[row], scores.counts[row], int(scores.missing[row]), key)


@dataclass(frozen=True, slots=True)
class DrawnScores:
    """The distinct scores of a question's draws, ascending, with their counts."""

    scores: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """The mean over all draws."""
        return float(self.scores @ self.counts / self.counts.sum())

    def quantiles(self, at: Sequence[float]) -> list[float]:
        """Return for each f in `at` the least score s with at least a fraction f of draws <= s."""
        wanted = np.ceil(np.asarray(at) * int(self.counts.sum()) - 1e-9)
        places = np.searchsorted(np.cumsum(self.counts), wanted)
        return [float(score) for score in self.scores[places]]

    def histogram(self, edges: Sequence[float]) -> list[float]:
        """Return the fraction of the draws in each bin; the last bin contains its right edge."""
        counts, _ = np.histogram(self.scores, edges, weights=self.counts)
        return [float(share) for share in counts / int(self.counts.sum())]


def drawn_scores(arm: Arm, scorer: Scorer) -> Mapping[str, DrawnScores]:
    """Return the scores of each question with a scored draw; empty for an explored arm."""
    if arm.explored:
        return {}
    scores = arm.scores(slug(scorer))
    rows = zip(scores.query_ids, scores.scores, scores.counts, strict=True)
    return {q: DrawnScores(s[n > 0], n[n > 0]) for q, s, n in rows if (n > 0).any()}


def growing(
    arm: Arm, scorer: Scorer, question: str, confidence: float
) -> Mapping[int, Sequence[Interval]]:
    """Bound mean and deviation of a question from its first 8, 16, … draws, and from all.

    Each bound is valid separately. Empty unless n was fixed and every draw has a score.
    """
    evidence = drawn_of(arm, scorer)
    if evidence.rows is None or question not in evidence.query_ids:
        return {}
    scores = evidence.scores.of((question,))
    ordered = in_order(scores, 0, evidence.order)[None]
    number = 0 if scores.missing.any() else ordered.shape[1]
    doubled = [FEWEST << i for i in range(number.bit_length()) if FEWEST << i < number]
    keys = Keys.read(evidence.order.keys((question,)), 1)
    bounds = {}
    for n in [*doubled, number] if number else ():
        rows = stats.Rows.of(ordered[:, :n], binary=evidence.binary)
        bounds[n] = [
            Interval.of(stats.bound(rows, quantity, confidence=confidence, seed=keys.seed))
            for quantity in (stats.LEAKAGE, stats.SD)
        ]
    return bounds
