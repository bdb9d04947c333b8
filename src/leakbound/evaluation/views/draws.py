"""The scores of single draws, and what follows from some of them: no estimate has these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.evidence import ArmEvidence
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.evaluation.statements.rows import FEWEST_BLOCKS, STANDARD_K
from leakbound.evaluation.views.course import in_order, sizes_of
from leakbound.evaluation.views.table import Interval
from leakbound.scorers import make_scorer
from leakbound.stats.estimate import Estimate
from leakbound.stats.order import Keys
from leakbound.store import Arm


@dataclass(frozen=True, slots=True)
class DrawnScores:
    """The distinct scores of a question's draws, ascending, and how often each was drawn."""

    scores: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def n(self) -> int:
        """Draws with a score."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Of all draws."""
        return float(self.scores @ self.counts / self.n)

    def quantiles(self, at: Sequence[float]) -> list[float]:
        """The least scores that at least these shares of the draws do not exceed."""
        reached = np.cumsum(self.counts)
        wanted = np.ceil(np.asarray(at) * self.n - 1e-9)
        return [float(score) for score in self.scores[np.searchsorted(reached, wanted)]]

    def histogram(self, edges: Sequence[float]) -> list[float]:
        """The share of the draws in each bin; the last holds its right edge."""
        counts, _ = np.histogram(self.scores, edges, weights=self.counts)
        return [float(share) for share in counts / self.n]


@dataclass(frozen=True, slots=True)
class AfterDraws:
    """What the first n draws of a question tell: each bound holds by itself at its confidence."""

    n: int
    leakage: Interval
    deviation: Interval


@dataclass(frozen=True, slots=True)
class ScoredDraws:
    """The draws of an arm as one scorer scores them.

    arm: whose draws they are, in the questions' own words.
    scorer: by its name.
    """

    arm: Arm
    scorer: str

    def of_questions(self) -> Mapping[str, DrawnScores]:
        """By question, where any draw has a score; empty where they are those of a remainder."""
        if self.arm.explored:
            return {}
        scores = self.arm.scores(slug(make_scorer(self.scorer)))
        found = {}
        for question, values, counts in zip(
            scores.query_ids, scores.scores, scores.counts, strict=True
        ):
            if (drawn := counts > 0).any():
                found[question] = DrawnScores(values[drawn], counts[drawn])
        return found

    def growing(self, question: str, confidence: float) -> list[AfterDraws]:
        """The bounds on the first 8, 16, ... draws of a question, and on all.

        Its draws are taken one by one, as on the page. Empty unless n was fixed and every draw has
        a score.
        """
        known = self._fixed()
        if known is None or question not in known.scores.query_ids:
            return []
        mine = known.scores.of((question,))
        if mine.missing.any():
            return []
        keys = Keys.read(known.order.keys((question,)), 1)
        ordered = in_order(mine, 0, known.order)[None]
        sizes = sizes_of(ordered.shape[1])
        return [_after(ordered[:, :size], known.binary, keys, confidence) for size in sizes]

    def repeated(self, confidence: float) -> Mapping[int, Interval]:
        """The mean over the questions of leak@k by k, bounds that hold for all k at once.

        Each k has its share of alpha; there is none where blocks of k draws are too few to say
        anything, nor where n was not fixed. As leak@k grows with k and all of them hold at once,
        what is known of fewer draws is known of more from below, and the reverse from above.
        """
        known = self._fixed()
        if known is None:
            return {}
        n = known.scores.n
        sizes = [k for k in STANDARD_K if k <= n.min() and (n // k).sum() >= FEWEST_BLOCKS]
        each = 1 - (1 - confidence) / max(len(sizes), 1)
        found = [_interval(known.mean_leak_at_k(k, confidence=each, side="both")) for k in sizes]
        lowers = accumulate((one.lower for one in found), max)
        uppers = [*accumulate((one.upper for one in reversed(found)), min)][::-1]
        ends = zip(sizes, found, lowers, uppers, strict=True)
        return {k: replace(one, lower=low, upper=high) for k, one, low, high in ends}

    def _fixed(self) -> Fixed | None:
        """The evidence of the arm where its n was fixed beforehand."""
        return ArmEvidence(self.arm, make_scorer(self.scorer)).fixed


def _after(scores: NDArray[np.float64], binary: bool, keys: Keys, confidence: float) -> AfterDraws:
    """Bounds on one question's draws, one row."""
    n, seed = scores.shape[1], keys.seed
    if binary:
        hits = (scores > 0).sum(axis=1)
        leakage = stats.proportion_bound(hits, [n], confidence=confidence, side="both")
        spread = stats.std_proportion_bound(hits, [n], confidence=confidence, side="both")
    else:
        leakage = stats.mean_bound(scores, confidence=confidence, side="both", seed=seed)
        spread = stats.std_bound(scores, confidence=confidence, side="both", seed=seed)
    return AfterDraws(n, _interval(leakage), _interval(spread))


def _interval(estimate: Estimate) -> Interval:
    """An estimate of one number."""
    value, lower, upper = (
        float(np.asarray(end).item()) for end in (estimate.value, estimate.lower, estimate.upper)
    )
    return Interval(None if np.isnan(value) else value, lower, upper)
