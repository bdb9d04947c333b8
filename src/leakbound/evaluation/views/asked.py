"""Arms that ask rewritings to what the page says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.evaluation.statements.rows import bound_of
from leakbound.evaluation.views.correlation import Point, pearson, points, sureness
from leakbound.evaluation.views.measured import overall
from leakbound.evaluation.views.texts import distinct_texts, withheld
from leakbound.evaluation.views.view import (
    AskedQuery,
    Full,
    Interval,
    Rewritten,
    RewrittenModel,
    Text,
)
from leakbound.scorers import make_scorer
from leakbound.store import ALL, Arm, EstimateRow, Estimates, Run
from leakbound.types import Query

WORST = 8  # queries whose answers are shown
EXAMPLES = 3  # of these answers
_SURENESS = {
    "mean_prob": "log of the mean probability of its answers",
    "mean_logprob": "mean log-probability of its answers",
    "mean_logprob_per_token": "mean log-probability of its answers, per token",
}

Questions = dict[tuple[str, str], Rewritten]
Worst = Mapping[str, Sequence[AskedQuery]]


def read_asked(
    model: int, label: str, run: Run, arm: Arm, estimates: Estimates, redact: bool
) -> RewrittenModel:
    """What an arm that asks rewritings found, of the model at this place; may leave texts out."""
    questions = _Reader(run, arm, estimates, redact).questions()
    worst = {scorer: _leaking_most(scorer, questions) for scorer in estimates.scorers}
    inputs = run.record.inputs
    return RewrittenModel(
        model=model,
        label=label,
        overall={
            s: read_full(estimates.where(arm=arm.name, scorer=s, query_id=ALL))
            for s in estimates.scorers
        },
        questions=questions,
        worst=_with_examples(arm, worst, redact),
        failures=len(arm.failures),
        criterion=_SURENESS[inputs.criterion if inputs and inputs.ids else "mean_logprob"],
    )


@dataclass(frozen=True)
class _Reader:
    """An arm of a run, the run's estimates, and whether rewritings are left out."""

    run: Run
    arm: Arm
    estimates: Estimates
    redact: bool

    def questions(self) -> Questions:
        """Every question of which no query failed, under every scorer."""
        found: Questions = {}
        sure = sureness(self.run, self.arm)
        for scorer in self.estimates.scorers:
            rows = self.estimates.where(scorer=scorer)
            for prompt_id, known in points(self.arm, rows, sure).items():
                asked = self._question(scorer, prompt_id, known)
                if asked is not None:
                    found[scorer, prompt_id] = asked
        return found

    def _question(self, scorer: str, prompt_id: str, known: Sequence[Point]) -> Rewritten | None:
        place = self.estimates.where(arm=self.arm.name, scorer=scorer, query_id=prompt_id)
        rows = place.where(scope="question", quantity=LEAKAGE)
        leakage = rows.first()
        if leakage is None:
            return None
        sure = {point.query_id: point.sureness for point in known}
        asked = (self._query(scorer, query, sure.get(query.id)) for query in self._own[prompt_id])
        return Rewritten(
            leakage=Interval.of(leakage),
            number=len(self._own[prompt_id]),
            worst=bound_of(rows, inputs="worst query"),
            gap=bound_of(rows, beyond="own words"),
            worst_gap=bound_of(rows, beyond="own words", inputs="worst query"),
            queries=tuple(query for query in asked if query is not None),
            correlation=pearson(known),
        )

    def _query(self, scorer: str, query: Query, sureness: float | None) -> AskedQuery | None:
        """One query; None where it got no output, or only one, as fresh ones do."""
        rows = self.estimates.where(arm=self.arm.name, scorer=scorer, query_id=query.id)
        row = rows.first(quantity=LEAKAGE, scope="query")
        if row is None or not row.n:
            return None
        hidden = self.redact and query.source != "original"
        return AskedQuery(
            id=query.id,
            question=query.prompt_id,
            text=None if hidden else query.text,
            source=query.source,
            leakage=Interval.of(row),
            n=row.n,
            sureness=sureness,
        )

    @cached_property
    def _own(self) -> Mapping[str, Sequence[Query]]:
        """The queries of every question."""
        found: dict[str, list[Query]] = {}
        for query in self.arm.queries:
            found.setdefault(query.prompt_id, []).append(query)
        return found


def read_full(rows: Estimates) -> Full:
    """What holds of all questions in all their queries, or as they were found."""
    leakage = rows.where(quantity=LEAKAGE)
    gaps = leakage.where(beyond="own words")
    return Full(
        overall=overall(rows),
        worst_query=bound_of(leakage, scope="worst question", inputs="worst query"),
        gap=bound_of(leakage, scope="mean", beyond="own words"),
        largest={_asked(row): Interval.of(row) for row in gaps.where(scope="worst question")},
        where={_asked(row): Interval.of(row) for row in gaps.where(scope="count")},
    )


def _asked(row: EstimateRow) -> str:
    """Whether a question was asked in all its queries, or in the worst."""
    return "worst query" if row.about.inputs == "worst query" else "full"


def _leaking_most(scorer: str, questions: Questions) -> list[AskedQuery]:
    """The queries of all questions with the largest lower ends."""
    leaking = [
        query
        for (name, _), asked in questions.items()
        for query in asked.queries
        if name == scorer and query.leakage.value
    ]
    ends = {query.id: (query.leakage.lower, query.leakage.value or 0.0) for query in leaking}
    return sorted(leaking, key=lambda query: ends[query.id], reverse=True)[:WORST]


def _with_examples(arm: Arm, worst: Worst, redact: bool) -> dict[str, tuple[AskedQuery, ...]]:
    """The queries with those of their answers that score highest."""
    wanted = {query.id for queries in worst.values() for query in queries}
    slugs = [slug(make_scorer(name)) for name in worst]
    texts = {q: found for q, found in distinct_texts(arm, slugs) if q in wanted}
    return {
        scorer: tuple(
            replace(query, examples=tuple(_examples(texts[query.id], i, redact)))
            for query in queries
        )
        for i, (scorer, queries) in enumerate(worst.items())
    }


def _examples(texts: Iterable[Text], scorer: int, redact: bool) -> Iterator[Text]:
    """The answers that score highest under the scorer with this index."""
    scores = [(text.scores[scorer] or 0.0, text.count, text) for text in texts]
    leaking = [each for each in scores if each[0]]
    for *_, text in sorted(leaking, key=lambda each: each[:2], reverse=True)[:EXAMPLES]:
        yield withheld(text, redact)
