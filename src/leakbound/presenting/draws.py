"""The scores of the draws of each question, for charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakbound.scoring.score import slug
from leakbound.store import Arm
from leakbound.types import Scorer


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
