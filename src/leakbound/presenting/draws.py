"""Estimates from single draws: the first n of a question, all of them, and far beyond them.

Of a scorer of 0 and 1 what is known of p is known of leak@k for every k at once: see
`stats.carried` and `stats.mean_leak_at_k_of_counts`. What is proved of p, given the measured
margin, holds without chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.bounding.evidence import drawn_of
from leakbound.bounding.rows import FEWEST_BLOCKS, LEAKAGE, STANDARD_K
from leakbound.presenting.table import Interval
from leakbound.presenting.view import ArmView
from leakbound.scoring.ordering import Order
from leakbound.scoring.score import slug
from leakbound.stats.about import Scope
from leakbound.stats.order import Keys, one_by_one
from leakbound.store import Arm, ArmScores
from leakbound.types import Scorer

FEWEST = 8  # draws of the first step


def in_order(scores: ArmScores, row: int, order: Order) -> NDArray[np.float64]:
    """A question's draws by their scores one by one, NaN where there is none."""
    (key,) = order.keys((scores.query_ids[row],)).tolist()
    return one_by_one(scores.scores[row], scores.counts[row], int(scores.missing[row]), key)


@dataclass(frozen=True, slots=True)
class DrawnScores:
    """The distinct scores of a question's draws, ascending, and how often each was drawn."""

    scores: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """The mean over all draws."""
        return float(self.scores @ self.counts / self.counts.sum())

    def quantiles(self, at: Sequence[float]) -> list[float]:
        """The least scores that at least these shares of the draws do not exceed."""
        wanted = np.ceil(np.asarray(at) * int(self.counts.sum()) - 1e-9)
        places = np.searchsorted(np.cumsum(self.counts), wanted)
        return [float(score) for score in self.scores[places]]

    def histogram(self, edges: Sequence[float]) -> list[float]:
        """The share of the draws in each bin; the last holds its right edge."""
        counts, _ = np.histogram(self.scores, edges, weights=self.counts)
        return [float(share) for share in counts / int(self.counts.sum())]


def drawn_scores(arm: Arm, scorer: Scorer) -> Mapping[str, DrawnScores]:
    """By question, where any draw has a score; empty where they are those of a remainder."""
    if arm.explored:
        return {}
    scores = arm.scores(slug(scorer))
    rows = zip(scores.query_ids, scores.scores, scores.counts, strict=True)
    return {q: DrawnScores(s[n > 0], n[n > 0]) for q, s, n in rows if (n > 0).any()}


def growing(
    arm: Arm, scorer: Scorer, question: str, confidence: float
) -> Mapping[int, Sequence[Interval]]:
    """Mean and deviation by the first 8, 16, ... draws of a question, and by all.

    Its draws are taken one by one; each bound is valid separately. Empty unless n was fixed and
    every draw has a score.
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


def repeated(arm: Arm, scorer: Scorer, confidence: float) -> Mapping[int, Interval]:
    """The mean over the questions of leak@k by k, bounds that hold for all k at once.

    There is none where blocks of k draws are too few to say anything, nor where n was not fixed.
    """
    evidence = drawn_of(arm, scorer)
    if evidence.rows is None:
        return {}
    n = evidence.scores.n
    sizes = [k for k in STANDARD_K if k <= n.min() and (n // k).sum() >= FEWEST_BLOCKS]
    if not sizes:
        return {}
    bound = evidence.bound(stats.leak_at(sizes).mean(), confidence=confidence, side="both")
    return {k: Interval.of(bound, i) for i, k in enumerate(sizes)}


FAR = tuple(dict.fromkeys(round(10 ** (i / 10)) for i in range(91)))
"""k from 1 to a thousand million, ten a decade where there are so many."""


def known_at_k(model: ArmView, scorer: Scorer) -> dict[Scope, list[tuple[float, float, float]]]:
    """leak@k of the question that leaks most, and on average over the questions.

    The proof of the worst question is the largest of any, that of the mean is the mean of what is
    proved of each; the bounds on the mean follow from how many questions leak more than x. None
    for a scorer that is not binary, or if not every question was drawn.

    Returns:
        For each k of `FAR` a lower bound without sampling error, and bounds with confidence.
    """
    worst = model.leakage(scorer, scope="worst question")
    counts = model.where(scorer, quantity=LEAKAGE, scope="count", inputs="as asked").rows
    if not scorer.binary or worst is None or not counts:
        return {}
    proofs = [stats.carried(row.estimate, FAR) for row in model.leakages(scorer, proved=True)]
    proved = np.array([proof.lower for proof in proofs]).reshape(len(proofs), len(FAR))
    about = replace(counts[0].about, parameter=tuple(row.parameter or 0.0 for row in counts))
    lower, upper = (np.array([getattr(row, end) for row in counts]) for end in ("lower", "upper"))
    count = replace(counts[0].estimate, about=about, lower=lower, upper=upper)
    largest, mean = proved.max(axis=0, initial=0.0), proved.sum(axis=0) / counts[0].about.over
    of_worst, of_mean = (
        stats.carried(worst.estimate, FAR),
        stats.mean_leak_at_k_of_counts(count, FAR),
    )
    return {
        "worst question": np.stack([largest, of_worst.lower, of_worst.upper], axis=1).tolist(),
        "mean": np.stack([mean, of_mean.lower, of_mean.upper], axis=1).tolist(),
    }
