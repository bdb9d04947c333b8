"""What models answer in other words, and what a search for the worst way of asking found.

For each question the Pearson correlation, over its queries, of cumulative log-probability and the
upper bound on expected leakage is the premise of input selection, measured (Cheng et al. 2025,
Figures 1 and 2: mostly .6 to .8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from leakbound.evaluation.planning.attack_queries import AttackQuery, read_attack_queries
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.evaluation.views.texts import distinct_texts, withheld
from leakbound.evaluation.views.view import (
    ArmRows,
    AskedQuery,
    Bounds,
    FoundModel,
    FoundQuery,
    RewritingCounts,
    Rewritten,
    RewrittenModel,
    Text,
)
from leakbound.inputs import REASONS, evidence
from leakbound.scorers import make_scorer
from leakbound.stats.about import Beyond
from leakbound.store import ATTACK, CONTROL, TARGET, Arm, Run, read_accepted, read_values
from leakbound.store.tables import completions_of
from leakbound.types import Completion, Query

LESS_SURE = "less sure than the question"
"""Why input selection removes a rewriting."""


def tried(run: Run) -> RewritingCounts | None:
    """What became of them; None where the run asks none."""
    if (inputs := run.record.inputs) is None:
        return None
    accepted = read_accepted(run.path, run.record) or ()
    asked = len(run.queries) - len(run.questions)
    removed: dict[str, int] = {
        reason: sum(one.removed.get(reason, 0) for one in accepted) for reason in REASONS
    }
    if inputs.ids:
        removed[LESS_SURE] = sum(len(one.queries) for one in accepted) - asked
    rewritten = {query.prompt_id for query in run.queries if query.source != "original"}
    return RewritingCounts(
        source=inputs.source,
        design=inputs.design,
        tried=sum(len(one.queries) + len(one.rejected) for one in accepted),
        removed={reason: count for reason, count in removed.items() if count},
        asked=asked,
        alone=tuple(query.id for query in run.questions if query.prompt_id not in rewritten),
    )


LEAST = 3  # queries: two always lie on a line


def sureness(run: Run, arm: Arm) -> Mapping[str, float]:
    """How sure the model is of its answers to every query, natural log, where it is known.

    What input selection found, where it was made; else `drawn_sureness`.
    """
    return read_values(run.path) or drawn_sureness(arm)


def drawn_sureness(arm: Arm) -> Mapping[str, float]:
    """The mean log-probability, at T = 1, of the arm's own draws of every query."""
    drawn: dict[str, list[Completion]] = {}
    for part in arm.parts:
        for query_id, completion in completions_of(arm.completions(part)):
            if completion.count:
                drawn.setdefault(query_id, []).append(completion)
    return {
        query_id: evidence(completions, "mean_logprob")
        for query_id, completions in drawn.items()
        if all(completion.model_logprob is not None for completion in completions)
    }


def pearson(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's r of these; None below three, or where one of the two does not vary."""
    if len(pairs) < LEAST or not np.ptp(pairs, axis=0).all():
        return None
    return float(np.corrcoef(np.array(pairs).T)[0, 1])


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


def read_attack(label: str, run: Run, redact: bool) -> Iterator[FoundQuery]:
    """The query found for each question of a run, with its bounds; nothing without a search.

    `redact` leaves the words out, all but where they come from.
    """

    estimates = run.estimates

    def bounds(
        found: AttackQuery, arm: object, beyond: Beyond | None = None, *, proved: bool = False
    ) -> Bounds:
        """The leakage of the question in an arm, as it is or beyond another, by scorer."""
        rows = (
            ArmRows(str(arm), estimates)
            .of(scorer, found.query.prompt_id)
            .first(quantity=LEAKAGE, beyond=beyond, proved=proved)
            for scorer in estimates.scorers
        )
        return {row.scorer: row for row in rows if row is not None}

    for found in read_attack_queries(run) or ():
        yield FoundQuery(
            run=label,
            question=found.query.prompt_id,
            text=None if redact else found.query.text,
            asked=_asked(found, redact),
            draws=found.rounds[-1].draws if found.rounds else 0,
            forwards=found.rounds[-1].forwards if found.rounds else 0,
            rounds=len(found.rounds),
            lower=found.lower,
            leakage=bounds(found, found.arm),
            control=bounds(found, found.arm.control),
            own=bounds(found, estimates.main or TARGET),
            gap=bounds(found, ATTACK, "own words"),
            proved=bounds(found, found.arm, proved=True),
            control_proved=bounds(found, found.arm.control, proved=True),
        )


def read_attacked(label: str | None, run: Run) -> Iterator[FoundModel]:
    """What all questions as they were found come to, for a run's target and its control.

    `label` None: they are called as their arms.
    """
    if not any(arm.key.asks == "attack" for arm in run.arms.values()):
        return
    for key, named in ((ATTACK, label), (ATTACK.control, f"{CONTROL} of {label}")):
        rows = ArmRows(str(key), run.estimates)
        if any(rows.of(scorer) for scorer in run.estimates.scorers):
            yield FoundModel(label=str(key) if label is None else str(named), rows=rows)


def _asked(found: AttackQuery, redact: bool) -> str:
    """Where the words come from, what stands around them, and the decoding."""
    source = "own words" if found.query.source == "original" else found.query.source
    words = [source]
    if found.shots:
        words.append(f"after {len(found.shots)} retained pairs")
    if found.query.prefix:
        words.append("with an opener" if redact else f"opened by {found.query.prefix!r}")
    return ", ".join([*words, found.decoding.name])
