"""Arms that ask rewritings to what is said of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.rows import LEAKAGE
from leakbound.evaluation.views.correlation import pearson, sureness
from leakbound.evaluation.views.texts import distinct_texts, withheld
from leakbound.evaluation.views.view import ArmRows, AskedQuery, Rewritten, RewrittenModel, Text
from leakbound.scorers import make_scorer
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
    model: int, label: str, run: Run, arm: Arm, redact: bool, texts: bool
) -> RewrittenModel:
    """What an arm that asks rewritings found, of the model at this place; may leave texts out."""
    rows = ArmRows(arm.name, run.estimates)
    inputs = run.record.inputs
    found = RewrittenModel(
        model=model,
        label=label,
        n=arm.plan.n,
        rows=rows,
        questions={},
        worst={},
        failures=len(arm.failures),
        criterion=_SURENESS[inputs.criterion if inputs and inputs.ids else "mean_logprob"],
    )
    if not texts:
        return found
    questions = _questions(run, arm, rows, redact)
    worst = {scorer: _leaking_most(scorer, questions) for scorer in rows.estimates.scorers}
    return replace(found, questions=questions, worst=_with_examples(arm, worst, redact))


def _questions(run: Run, arm: Arm, rows: ArmRows, redact: bool) -> Questions:
    """Every question of which no query failed, under every scorer."""
    sure, own = sureness(run, arm), defaultdict[str, list[Query]](list)
    for query in arm.queries:
        own[query.prompt_id].append(query)
    found: Questions = {}
    for scorer, (prompt_id, queries) in product(rows.estimates.scorers, own.items()):
        mine = rows.of(scorer, prompt_id).where(scope="question", quantity=LEAKAGE)
        leakage = mine.first()
        if leakage is None:
            continue
        asked = [
            AskedQuery(
                id=query.id,
                question=prompt_id,
                text=None if redact and query.source != "original" else query.text,
                source=query.source,
                leakage=row,
                sureness=sure.get(query.id),
            )
            for query in queries
            # None, or without a draw: it got no output, or only one, as fresh ones do
            if (row := rows.of(scorer, query.id).first(quantity=LEAKAGE, scope="query")) and row.n
        ]
        pairs = [(one.sureness, one.leakage.upper) for one in asked if one.sureness is not None]
        found[scorer, prompt_id] = Rewritten(
            leakage=leakage,
            number=len(queries),
            worst=mine.first(inputs="worst query"),
            gap=mine.first(beyond="own words"),
            worst_gap=mine.first(beyond="own words", inputs="worst query"),
            queries=tuple(asked),
            correlation=pearson(pairs),
        )
    return found


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
            replace(query, examples=_examples(texts[query.id], i, redact)) for query in queries
        )
        for i, (scorer, queries) in enumerate(worst.items())
    }


def _examples(texts: Iterable[Text], scorer: int, redact: bool) -> tuple[Text, ...]:
    """The answers that score highest under the scorer with this index."""
    leaking = [text for text in texts if text.scores[scorer]]
    leaking.sort(key=lambda text: (text.scores[scorer] or 0.0, text.count), reverse=True)
    return tuple(withheld(text, redact) for text in leaking[:EXAMPLES])
