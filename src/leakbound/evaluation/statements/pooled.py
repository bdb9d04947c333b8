"""Bounds for an arm that asks rewritings too: a question's outputs are those of all its queries.

Let mu_ij be the expected score of an output to query j of question i, C_i how many queries it has.
What is bounded of a question is the score of an output to one of its queries, each as likely as
the others, with mean (1/C_i) sum_j mu_ij; or, for a `fresh` design, of an output over the input
distribution, of which the queries are independent draws. `stats.pool` proves for which design the
outputs of one question are i.i.d. The mean over N questions follows.

*allocated, fresh.* The outputs of a question are i.i.d., those of two questions independent: to
every statement about questions, a pool is a question with one law, and n_i draws of it. Under
`fresh` n_i depends on which rewritings were accepted, not on their scores.

*fixed.* The outputs are independent, each with the law of its query, m_i to every query of
question i. The mean over the questions, sum_ij mu_ij / (N C_i), is a mean over all the queries
with weights 1/C_i, fixed beforehand: `stats.mean_over_questions` with a row for each query. The
C_i m_i outputs of a question are no draws of one law, so deviations and tails have no bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from leakbound import stats
from leakbound.evaluation.statements.drawn import Fixed
from leakbound.evaluation.statements.rows import (
    MEAN,
    UNLIKE,
    UNLIKE_ALSO,
    Evidence,
    StatedBound,
    first,
    stack,
    together,
)
from leakbound.stats.about import Inputs
from leakbound.store import ArmScores, QueryShares
from leakbound.types import Query


@dataclass(frozen=True)
class Pooled(Evidence):
    """The scores of an arm whose draws are shared among each question's queries.

    `scores` are those of each question, of whichever of its queries; `asked` has a row for each
    query with outputs, `members` the queries of each question of which none failed, those without
    outputs included.
    """

    asked: ArmScores
    members: Mapping[str, tuple[str, ...]]
    design: stats.Design

    LEAKAGE = UNLIKE
    ALSO = UNLIKE_ALSO

    @classmethod
    def of(
        cls,
        scores: ArmScores,
        queries: Sequence[Query],
        shares: QueryShares,
        binary: bool,
        **how: Any,
    ) -> Pooled:
        """From the scores of an arm's queries; questions with a query that failed are left out."""
        members: dict[str, tuple[str, ...]] = {}
        for query in queries:
            members[query.prompt_id] = (*members.get(query.prompt_id, ()), query.id)
        there = set(scores.query_ids)
        whole = {
            prompt_id: ids
            for prompt_id, ids in members.items()
            if all(query_id in there for query_id in ids if shares.draws_per_query[query_id])
        }
        question = {query_id: prompt_id for prompt_id, ids in whole.items() for query_id in ids}
        rows = scores.of(question.keys())
        owned = replace(rows, query_ids=tuple(question[query_id] for query_id in rows.query_ids))
        own = ArmScores.joined([owned], tuple(whole))
        return cls(own, binary, rows, whole, shares.design, **how)

    @property
    def pools(self) -> tuple[int, ...]:
        """How many queries each question has."""
        return tuple(map(len, self.members.values()))

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The expected leakage of every question: Pr[leak] for a binary scorer."""
        if self._iid is not None:
            return self._each(self._iid.leakage(confidence=confidence, side=side))
        return super().leakage(confidence=confidence, side=side)

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean over these questions, each counting alike however many queries it has."""
        if self._iid is not None:
            return self._all(self._iid.mean(confidence=confidence, side=side))
        weights = [1 / len(ids) for ids in self.members.values() for _ in ids]
        weighted = replace(first(MEAN, self.binary), at={"weights": weights})
        estimate = self._single(self.asked).made(weighted, confidence=confidence, side=side)
        # weighted over the queries, and so the plain mean over the questions
        about = replace(estimate.about, scope="mean", over=len(self.members))
        return self._all(replace(estimate, about=about))

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Every quantity of every question that has a bound for the design, and its worst query."""
        if self._iid is not None:
            yield from map(self._each, self._iid.each(confidence))
        else:
            yield from super().each(confidence)
        if self.has_queries:
            yield self.worst_queries(confidence=confidence, side="both")

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """Statements about all questions, and the worst query of all."""
        bounds = together(self, confidence) if self._iid is None else self._iid.together(confidence)
        yield from map(self._all, bounds)
        if self.has_queries:
            every = [query_id for ids in self.members.values() for query_id in ids]
            worst = self._worst(every, confidence, "both")
            about = replace(worst.about, scope="worst question", over=len(every))
            yield replace(worst, about=about)

    @property
    def has_queries(self) -> bool:
        """True if single queries can be told apart: a fresh one has one output, which is little."""
        return self.design != "fresh"

    def each_query(self, confidence: float) -> tuple[tuple[str, ...], stats.Estimate]:
        """The ids of all queries, and the leakage of each; [0, 1] for one that got no output."""
        ids = tuple(query_id for own in self.members.values() for query_id in own)
        bound = self._single(self.asked).leakage
        outputs = self._outputs(ids)
        return ids, stats.each_query(bound, outputs, confidence=confidence, side="both")

    def worst_queries(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The leakage of the worst query of every question, one entry a question.

        The lower end of each has paid for the choice among all the queries of its question.
        """
        return stack([self._worst(ids, confidence, side) for ids in self.members.values()])

    def made(self, row: StatedBound, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The estimate that a row states of every question, from its pool of unlike queries."""
        keys = self.order.keys(tuple(self.members)).tolist()
        how = {"binary": self.binary, "confidence": confidence, "side": side}
        pools = zip(self._unlike, keys, strict=True)
        return self._each(stack([row.made({"pool": p, "seed": key, **how}) for p, key in pools]))

    def _worst(self, ids: Sequence[str], confidence: float, side: stats.Side) -> stats.Estimate:
        """The worst of these queries."""
        bound = self._single(self.asked.of(set(ids))).leakage
        outputs = self._outputs(ids)
        return stats.worst_query(bound, outputs, confidence=confidence, side=side)

    def _outputs(self, ids: Sequence[str]) -> list[int]:
        drawn = dict(zip(self.asked.query_ids, self.asked.n.tolist(), strict=True))
        return [drawn.get(query_id, 0) for query_id in ids]

    def _single(self, scores: ArmScores) -> Fixed:
        """Rows that are each i.i.d. draws of one law."""
        return Fixed(scores, self.binary, order=self.order, rho=self.rho)

    @cached_property
    def _iid(self) -> Fixed | None:
        """The pools as questions with draws of one law; None where they are not."""
        return None if self.design == "fixed" else self._single(self.scores)

    @cached_property
    def _unlike(self) -> list[stats.Pool]:
        """The pools as what they are under a `fixed` design."""
        own = [self.asked.of(set(ids)) for ids in self.members.values()]
        return [stats.Pool.read(s.scores, s.counts, s.missing, design=self.design) for s in own]

    @property
    def _inputs(self) -> Inputs:
        return "input distribution" if self.design == "fresh" else "these queries"

    def _each(self, estimate: stats.Estimate) -> stats.Estimate:
        """The estimate, saying that each question is asked in all its queries."""
        about = replace(estimate.about, scope="question", inputs=self._inputs, over=self.pools)
        return replace(estimate, about=about)

    def _all(self, estimate: stats.Estimate) -> stats.Estimate:
        return replace(estimate, about=replace(estimate.about, inputs=self._inputs))
