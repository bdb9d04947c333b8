"""Arms that ask rewritings to what the page says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.gaps import GAP
from leakbound.evaluation.statements.pooled import WORST_QUERY
from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.evaluation.statements.rows import ALL, statement
from leakbound.evaluation.views.correlation import Point, pearson, points, sureness
from leakbound.evaluation.views.measured import Estimates, Rows, bound_of, overall
from leakbound.evaluation.views.texts import distinct_texts, withheld
from leakbound.evaluation.views.view import Asked, AskedQuery, Bound, Full, Rewritten, Text
from leakbound.scorers import make_scorer
from leakbound.stats import about
from leakbound.store import Arm, Run
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
) -> Asked:
    """What an arm that asks rewritings found, of the model at this place; may leave texts out."""
    questions = _Reader(run, arm, estimates, redact).questions()
    worst = {scorer: _leaking_most(scorer, questions) for scorer in estimates.scorers}
    inputs = run.record["inputs"]
    return Asked(
        model=model,
        label=label,
        overall={s: read_full(estimates.of(arm.name, s, ALL)) for s in estimates.scorers},
        questions=questions,
        worst=_with_examples(arm, worst, redact),
        failures=len(arm.failures),
        criterion=_SURENESS[inputs["criterion"] if inputs["ids"] else "mean_logprob"],
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
            rows = [row for row in self.estimates.rows if row["scorer"] == scorer]
            for prompt_id, known in points(self.arm, rows, sure).items():
                asked = self._question(scorer, prompt_id, known)
                if asked is not None:
                    found[scorer, prompt_id] = asked
        return found

    def _question(self, scorer: str, prompt_id: str, known: Sequence[Point]) -> Rewritten | None:
        rows = self._rows(scorer, prompt_id, in_all=True)
        leakage = bound_of(rows, *LEAKAGE)
        if leakage is None:
            return None
        sure = {point.query_id: point.sureness for point in known}
        asked = (self._query(scorer, query, sure.get(query.id)) for query in self._own[prompt_id])
        return Rewritten(
            leakage=leakage,
            number=rows[0]["pool"],
            worst=bound_of(rows, *(f"{leak}, {WORST_QUERY}" for leak in LEAKAGE)),
            gap=bound_of(rows, *(f"{GAP} {leak}" for leak in LEAKAGE)),
            worst_gap=bound_of(rows, *(f"{GAP} {leak}, {WORST_QUERY}" for leak in LEAKAGE)),
            queries=tuple(query for query in asked if query is not None),
            correlation=pearson(known),
        )

    def _query(self, scorer: str, query: Query, sureness: float | None) -> AskedQuery | None:
        """One query; None where it got no output, or only one, as fresh ones do."""
        rows = self._rows(scorer, query.id, in_all=False)
        row = next((row for row in rows if row["estimand"] in LEAKAGE), None)
        if row is None or not row["n"]:
            return None
        hidden = self.redact and query.source != "original"
        return AskedQuery(
            id=query.id,
            question=query.prompt_id,
            text=None if hidden else query.text,
            source=query.source,
            leakage=Bound.of(row),
            n=row["n"],
            sureness=sureness,
        )

    def _rows(self, scorer: str, query_id: str, *, in_all: bool) -> Rows:
        """Of a question `in_all` its queries, or of one query by itself."""
        rows = self.estimates.of(self.arm.name, scorer, query_id)
        return [row for row in rows if (row["pool"] is not None) == in_all]

    @cached_property
    def _own(self) -> Mapping[str, Sequence[Query]]:
        """The queries of every question."""
        found: dict[str, list[Query]] = {}
        for query in self.arm.queries:
            found.setdefault(query.prompt_id, []).append(query)
        return found


def read_full(rows: Rows) -> Full:
    """What holds of all questions in all their queries, or as they were found."""
    largest: dict[str, Bound] = {}
    where: dict[str, Bound] = {}
    for row in rows:
        name = str(row["estimand"])
        what = WORST_QUERY if WORST_QUERY in name else "full"
        if name.startswith(f"questions with {GAP}"):
            where[what] = Bound.of(row)
        elif name.startswith(GAP) and "largest" in name:
            largest[what] = Bound.of(row)
    query = statement(rows, about.WORST_QUERY, *LEAKAGE)
    return Full(
        overall=overall(rows),
        worst_query=None if query is None else Bound.of(query),
        gap=bound_of(rows, *(f"{GAP} {leak}" for leak in LEAKAGE)),
        largest=largest,
        where=where,
    )


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
