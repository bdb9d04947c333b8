"""Bounds for an arm with rewritings: the outputs of a question come from all its queries.

Let mu_ij be the expected score of an output to query j of question i, and let
C_i be the number of queries of question i. The bounds are about the score of an
output to one of these queries, drawn uniformly. Its mean is (1/C_i) sum_j
mu_ij. In a `fresh` design (one output per query), the queries are independent
draws from an input distribution. The bounds are then about the score of an
output to a query from this distribution. `stats.pool` proves for which designs
the outputs of one question are i.i.d., and bounds the mean over N questions.
Outputs of different questions are independent. Under `fresh`, the number of
outputs depends on the accepted rewritings, not on their scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.bounding.drawn import Drawn
from leakbound.store import QueryShares
from leakbound.types import Query


@dataclass(frozen=True, kw_only=True)
class Pooled(Drawn):
    """The evidence of an arm whose draws are divided among each question's queries.

    `members` has the ids of the queries of each question, including queries without outputs.
    Questions with a failed query are left out.
    """

    members: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(
        cls,
        scores: stats.Rows,
        queries: Sequence[Query],
        shares: QueryShares,
        **how: Any,
    ) -> Pooled:
        """Return the pooled scores of an arm's queries, without questions with a failed query."""
        members: dict[str, tuple[str, ...]] = {}
        for query in queries:
            members[query.prompt_id] = (*members.get(query.prompt_id, ()), query.id)
        there = set(scores.ids)
        whole = {
            prompt_id: ids
            for prompt_id, ids in members.items()
            if all(query_id in there for query_id in ids if shares.draws_per_query[query_id])
        }
        question = {query_id: prompt_id for prompt_id, ids in whole.items() for query_id in ids}
        rows = scores.among(question)
        places = {prompt_id: place for place, prompt_id in enumerate(whole)}
        pool = stats.Pool.of(
            rows,
            design=shares.design,
            target="inputs" if shares.design == "fresh" else "queries",
            owners=[places[question[query_id]] for query_id in rows.ids],
            queries=list(map(len, whole.values())),
            ids=tuple(whole),
        )
        return cls(pool, members=whole, **how)

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Yield estimates of every quantity, and of the worst query, for every question."""
        yield from super().each(confidence)
        if self.has_queries:
            yield self.worst_queries(confidence=confidence, side="both")

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """Yield estimates about all questions, and about the worst of all queries."""
        yield from super().together(confidence)
        if self.has_queries:
            every = [query_id for ids in self.members.values() for query_id in ids]
            worst = self._worst(every, confidence, "both")
            about = replace(worst.about, scope="worst question", over=len(every))
            yield replace(worst, about=about)

    @property
    def has_queries(self) -> bool:
        """Return whether single queries have bounds; they have none in a `fresh` design."""
        return self.pool.design != "fresh"

    def each_query(self, confidence: float) -> tuple[tuple[str, ...], stats.Estimate]:
        """Return all query ids and the leakage of each query ([0, 1] without outputs)."""
        ids = tuple(query_id for own in self.members.values() for query_id in own)
        return ids, self._single(ids).leakage(confidence=confidence, side="both")

    def worst_queries(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """Bound the leakage of the worst query of every question, one entry per question.

        The lower bound of each entry is corrected for the selection among the question's queries.
        """
        return stats.stack([self._worst(ids, confidence, side) for ids in self.members.values()])

    def _worst(self, ids: Sequence[str], confidence: float, side: stats.Side) -> stats.Estimate:
        """Bound the worst of these queries, including queries without outputs."""
        worst = self._single(ids).worst(confidence=confidence, side=side)
        return replace(worst, about=replace(worst.about, scope="question", inputs="worst query"))

    def _single(self, ids: Sequence[str]) -> Drawn:
        """Return the draws of each query as evidence; they are i.i.d., and there may be none."""
        rows = self.pool.rows
        drawn = {query_id: place for place, query_id in enumerate(rows.ids)}
        places = [drawn.get(query_id, -1) for query_id in ids]
        padded = (
            np.concatenate([column, np.zeros_like(column[:1])])[places]
            for column in (rows.values, rows.counts, rows.missing)
        )
        single = stats.Rows.of(*padded, binary=self.binary, empty=True)
        return Drawn(replace(single, ids=tuple(ids)), order=self.order)

    @property
    def pool(self) -> stats.Pool:
        """Return the evidence as a pool."""
        assert isinstance(self.evidence, stats.Pool)
        return self.evidence

    def _seed(self, quantity: stats.Quantity) -> NDArray[np.int64]:
        """Return one key per query for the mean in a fixed design, else one key per question."""
        unlike = quantity.over == "mean" and self.pool.design == "fixed"
        return self.order(self.pool.rows.ids) if unlike else self.keys

    def _put(self, estimate: stats.Estimate) -> stats.Estimate:
        return self.pool.about(estimate)
