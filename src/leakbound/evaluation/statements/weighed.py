"""What is proved, and what weighted draws add: the leakage of every question, with both ends.

The proofs' antichain was there before the draws, which count 0 inside it. So the leakage is that
inside, known to within the margin, plus the mean of the weighted scores outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from leakbound import stats
from leakbound.evaluation.scoring.ordering import draws_key
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.rows import stack
from leakbound.stats.about import Quantity
from leakbound.store import Arm, WeighedDraws, WeighedQuery
from leakbound.types import Scorer

_OURS = ("least", "logprob", "most")
_THEIRS = ("proposal_least", "proposal_logprob", "proposal_most")


@dataclass(frozen=True, slots=True)
class WeighedArm:
    """The weighted draws of an arm, scored by one scorer; `order` keys the bets."""

    drawn: WeighedDraws
    binary: bool
    order: int
    scorer: str

    @classmethod
    def of(cls, arm: Arm, scorer: Scorer) -> WeighedArm | None:
        """Of what is stored; None where nothing is."""
        drawn = arm.weighed.read(slug(scorer))
        if drawn is None or not drawn.queries:
            return None
        return cls(drawn, scorer.binary, draws_key(arm), scorer.name)

    @property
    def query_ids(self) -> list[str]:
        """The queries that were drawn."""
        return [one.query_id for one in self.drawn.queries]

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The expected leakage of every question, each by itself, in the order of `query_ids`."""
        each = [self._leakage(one, confidence, side) for one in self.drawn.queries]
        return replace(stack(each), about=each[0].about)

    def each(self, confidence: float) -> Iterator[tuple[str, stats.Estimate]]:
        """(query id, its leakage with both ends and the standard error of its value)."""
        for one in self.drawn.queries:
            made = self._leakage(one, confidence, "both")
            error = float(stats.standard_error(*self._scored(one)))
            yield one.query_id, replace(made, standard_error=None if error != error else error)

    def worst(self, confidence: float) -> stats.Estimate:
        """The largest of them, which has paid for the choice."""
        questions = len(self.drawn.queries)
        return stats.worst_question(self.leakage, questions, confidence=confidence, side="both")

    def _leakage(self, one: WeighedQuery, confidence: float, side: stats.Side) -> stats.Estimate:
        scores, weights, counts = self._scored(one)
        missing = self.drawn.draws - int(counts.sum())
        fixed = {
            "draws": self.order,
            "scorer": self.scorer,
            "question": one.query_id,
            "weighed": [self.drawn.draws, self.drawn.mix],
        }
        outside = stats.importance_bound(
            scores, weights, counts,
            confidence=confidence, side=side, missing=missing, seed=stats.order_key(fixed),
        )  # fmt: skip
        lower, upper = float(outside.lower), float(outside.upper)
        quantity: Quantity = "importance-sampled mean leakage"
        if self.binary:
            quantity = "importance-sampled leak probability"
        return replace(
            outside,
            about=replace(outside.about, quantity=quantity),
            value=one.proved + float(outside.value),
            lower=0.0 if side == "upper" else min(one.proved + lower, 1.0),
            upper=1.0 if side == "lower" else min(one.proved_most + upper, 1.0),
            method=f"proof + {outside.method}",
        )

    def _scored(self, one: WeighedQuery) -> tuple[np.ndarray, stats.DrawWeights, np.ndarray]:
        """The scores outside the antichain, their weights, and how often each was drawn."""
        texts = [
            text
            for text in one.texts
            if text.logprob is not None and text.proposal_logprob is not None
            if text.inside or text.score is not None
        ]
        scores = [0.0 if text.inside else text.score or 0.0 for text in texts]
        p, r = (
            tuple(np.array([getattr(text, name) for text in texts], np.float64) for name in names)
            for names in (_OURS, _THEIRS)
        )
        weights = stats.DrawWeights.between(p, r, mix=self.drawn.mix)
        return np.array(scores), weights, np.array([text.count for text in texts], dtype=np.int64)
