"""What models answer in other words, and what a search for the worst way of asking found.

For each question the Pearson correlation, over its queries, of cumulative log-probability and the
upper bound on expected leakage is the premise of input selection, measured (Cheng et al. 2025,
Figures 1 and 2: mostly .6 to .8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Unpack

import numpy as np

from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.rows import LEAKAGE
from leakbound.evaluation.views.grids import (
    Asked,
    Column,
    anchor,
    beyond_columns,
    label_cell,
    leakage_column,
    mean_heading,
)
from leakbound.evaluation.views.table import (
    Cell,
    Table,
    bound_cell,
    count_cell,
    interval,
    number_cell,
    table_of,
)
from leakbound.evaluation.views.texts import distinct_texts, withheld
from leakbound.evaluation.views.view import (
    ArmRows,
    AskedModel,
    AskedQuery,
    FoundQuery,
    Question,
    RewritingCounts,
    Rewritten,
    RewrittenModel,
    ScorerView,
    Text,
    View,
)
from leakbound.evaluation.views.words import at_least, floor, greedy_rows, mean_of, quantity
from leakbound.inputs import REASONS, evidence
from leakbound.scorers import make_scorer
from leakbound.stats.about import Scope
from leakbound.store import (
    ATTACK,
    CONTROL,
    TARGET,
    Arm,
    EstimateRow,
    Run,
    read_accepted,
    read_values,
)
from leakbound.store.estimates import Fields
from leakbound.store.inputs import AttackQuery, read_attack_queries
from leakbound.store.tables import completions_of
from leakbound.text.shown import DASH, many
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
            rows=mine,
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
    for found in read_attack_queries(run.path) or ():
        yield FoundQuery(
            run=label,
            question=found.query.prompt_id,
            text=None if redact else found.query.text,
            asked=_asked(found, redact),
            draws=found.rounds[-1].draws if found.rounds else 0,
            forwards=found.rounds[-1].forwards if found.rounds else 0,
            rounds=len(found.rounds),
            lower=found.lower,
            arm=found.arm,
            own=str(run.estimates.main or TARGET),
            estimates=run.estimates,
        )


def read_attacked(label: str | None, run: Run) -> Iterator[AskedModel]:
    """What all questions as they were found come to, for a run's target and its control.

    `label` None: they are called as their arms.
    """
    if not any(arm.key.asks == "attack" for arm in run.arms.values()):
        return
    for key, named in ((ATTACK, label), (ATTACK.control, f"{CONTROL} of {label}")):
        rows = ArmRows(str(key), run.estimates)
        if any(rows.of(scorer) for scorer in run.estimates.scorers):
            yield AskedModel(label=str(key) if label is None else str(named), rows=rows)


def _asked(found: AttackQuery, redact: bool) -> str:
    """Where the words come from, what stands around them, and the decoding."""
    source = "own words" if found.query.source == "original" else found.query.source
    words = [source]
    if found.shots:
        words.append(f"after {len(found.shots)} retained pairs")
    if found.query.prefix:
        words.append("with an opener" if redact else f"opened by {found.query.prefix!r}")
    return ", ".join([*words, found.decoding.name])


Pair = tuple[str, RewritingCounts]
PROVED, CONTROL_PROVED = "Proved", "Control, proved"
Numbered = tuple[int, Question, Rewritten]


def tried_grid(view: View) -> Table:
    """A row a run: how many rewritings were tried, removed for which reason, and asked."""

    def removed(reason: str, pair: Pair) -> Cell:
        return count_cell(pair[1].removed.get(reason, 0))

    columns: dict[str, Callable[[Pair], Cell]] = {
        "Run": lambda pair: Cell(pair[0]),
        "Source": lambda pair: Cell(pair[1].source),
        "Design": lambda pair: Cell(pair[1].design),
        "Tried": lambda pair: count_cell(pair[1].tried),
    }
    for reason in dict.fromkeys(r for one in view.tried.values() for r in one.removed):
        columns[f"Removed: {reason}"] = partial(removed, reason)
    columns["Asked"] = lambda pair: count_cell(pair[1].asked)
    return table_of("Rewritings of all questions", columns, view.tried.items())


def protocols_grid(view: View, scorer: ScorerView) -> Table:
    """A row a model: greedy answers, the output distribution, and full, side by side."""
    mean = leakage_column(scorer, scope="mean")
    columns: dict[str, Callable[[RewrittenModel], Cell]] = {
        "Model": label_cell,
        "Greedy": lambda asked: number_cell(mean_of(greedy_rows(view.models[asked.model], scorer))),
        "Output": lambda asked: mean(view.models[asked.model]),
        "Full": mean,
        "Full: worst question": leakage_column(scorer, scope="worst question"),
        "Full: worst query": leakage_column(scorer, scope="worst question", inputs="worst query"),
        **beyond_columns(scorer),
    }
    n = max(asked.n for asked in view.asked)
    questions = many(len(view.questions), "question")
    title = f"{scorer.name} by protocol, {questions}, n = {n:,} outputs each"
    return table_of(title, columns, view.asked)


def attacked_grid(view: View, scorer: ScorerView) -> Table:
    """A row a model: all questions as they were found, and beyond the control and own words."""
    columns: dict[str, Column] = {
        "Model": label_cell,
        mean_heading(scorer): leakage_column(scorer, scope="mean"),
        "Worst question": leakage_column(scorer, scope="worst question"),
        **beyond_columns(scorer),
        **_gap_columns(scorer, "Beyond own words"),
    }
    return table_of(f"Scorer {scorer.name}: as they were found", columns, view.attacked)


def gaps_grid(view: View, scorer: ScorerView) -> Table:
    """A row a model: how much more is found beyond the questions' own words, and where."""
    columns: dict[str, Column] = {
        "Model": label_cell,
        "Mean over the questions": leakage_column(scorer, scope="mean", beyond="own words"),
        **_gap_columns(scorer, "Full"),
        **_gap_columns(scorer, "Worst query", inputs="worst query"),
    }
    return table_of(f"Scorer {scorer.name}: more than output", columns, view.asked)


def _gap_columns(scorer: ScorerView, name: str, /, **how: Unpack[Fields]) -> dict[str, Column]:
    """The largest gap to the questions' own words, and at how many there is one."""

    def gap(asked: Asked, scope: Scope) -> EstimateRow | None:
        return asked.rows.leakage(scorer.name, **how | Fields(scope=scope, beyond="own words"))

    def where(asked: Asked) -> Cell:
        row = gap(asked, "count")
        if row is None or row.value is None:
            return Cell(DASH)
        return Cell(f"{row.value:g} (≥ {row.lower:g})", row.value)

    return {
        f"{name}: most at a question": lambda asked: _least(gap(asked, "worst question")),
        f"{name}: questions with more": where,
    }


def _least(bound: EstimateRow | None) -> Cell:
    return Cell(DASH) if bound is None else Cell(floor(bound.value, bound.lower), bound.value)


def rewritten_grid(view: View, asked: RewrittenModel, scorer: ScorerView) -> Table:
    """A row a question: its own words beside all its queries, and beside the worst of them."""

    def output(one: Numbered) -> Cell:
        own = view.models[asked.model].at(one[1].id, scorer)
        return bound_cell(own.leakage if own else None)

    columns: dict[str, Callable[[Numbered], Cell]] = {
        "Question": lambda one: Cell(f"{one[1].id}: {one[1].text}", one[0], anchor(one[0])),
        "Output": output,
        "Full": lambda one: bound_cell(one[2].leakage),
        "Full beyond output": lambda one: bound_cell(one[2].rows.first(beyond="own words")),
        "Worst query": lambda one: bound_cell(one[2].rows.first(inputs="worst query")),
        "Worst query beyond output": lambda one: _least(
            one[2].rows.first(beyond="own words", inputs="worst query")
        ),
        "Queries": lambda one: count_cell(one[2].number),
        "r": lambda one: number_cell(one[2].correlation),
    }
    known = [
        (number, question, found)
        for number, question in enumerate(view.questions, 1)
        if (found := asked.questions.get((scorer.name, question.id))) is not None
    ]
    title = f"{asked.label}: {quantity(scorer)} of every question, {scorer.name}"
    return table_of(title, columns, known)


def found_grid(view: View, scorer: ScorerView) -> Table:
    """A row a question: how it was asked where a search found most, those that leak most first."""
    name, several = scorer.name, len(view.searches) > 1

    def question(found: FoundQuery) -> Cell:
        run = f", {found.run}" if several else ""
        return Cell(f"{found.question}{run}", anchor=place(view, found.question))

    def lower(found: FoundQuery) -> Cell:
        """Where the search left it, by the scores that steered."""
        steered = view.searches[found.run].scorer.name == name
        return Cell(at_least(found.lower), found.lower) if steered else Cell(DASH)

    def told(
        cell: Callable[[EstimateRow | None], Cell],
        bound: Callable[[FoundQuery], EstimateRow | None],
        found: FoundQuery,
    ) -> Cell:
        return cell(bound(found))

    columns: dict[str, Callable[[FoundQuery], Cell]] = {
        "Question": question,
        "What is asked": lambda found: Cell(
            "withheld" if found.text is None else found.text, prose=True
        ),
        "Asked": lambda found: Cell(found.asked, prose=True),
        "Rounds": lambda found: count_cell(found.rounds),
        "Draws in the search": lambda found: count_cell(found.draws),
        "Forwards in the search": lambda found: count_cell(found.forwards),
        "Lower end in the search": lower,
    }
    if not any(found.forwards for found in view.found):
        del columns["Forwards in the search"]
    bounds: dict[str, Callable[[FoundQuery], EstimateRow | None]] = {
        "Found": lambda found: found.leakage(name),
        PROVED: lambda found: found.leakage(name, proved=True),
        "In its own words": lambda found: found.leakage(name, found.own),
        "Beyond its own words": lambda found: found.leakage(name, ATTACK, beyond="own words"),
        "Control": lambda found: found.leakage(name, found.arm.control),
        CONTROL_PROVED: lambda found: found.leakage(name, found.arm.control, proved=True),
    }
    for column, bound in bounds.items():
        if column not in (PROVED, CONTROL_PROVED):
            columns[column] = partial(told, bound_cell, bound)
        elif any(map(bound, view.found)):
            columns[column] = partial(told, _proved, bound)

    def leaks(found: FoundQuery) -> float:
        row = found.leakage(name)
        return -1.0 if row is None else row.lower

    title = f"{name} where it was attacked, {many(len(view.found), 'question')}"
    return table_of(title, columns, sorted(view.found, key=leaks, reverse=True), _searched(view))


def _proved(row: EstimateRow | None) -> Cell:
    return Cell(DASH) if row is None else Cell(at_least(row.lower), row.lower)


def _searched(view: View) -> str:
    """How each search was made."""
    several = len(view.searches) > 1
    return "\n".join(
        (f"{run}: " if several else "")
        + f"searched with {many(search.budget, 'draw')} a question"
        + ("" if search.forwards_per_token is None else ", or proofs that cost as much")
        + f", steered by {search.scorer.name}, bounded by fresh draws"
        for run, search in view.searches.items()
    )


def own_words(view: View, asked: RewrittenModel, scorer: ScorerView, query: AskedQuery) -> str:
    """What the question that the query rewrites leaks in its own words."""
    cell = view.models[asked.model].at(query.question, scorer)
    return interval(cell.leakage if cell else None)


def place(view: View, question: str) -> str:
    """Where the texts of the question with this id stand."""
    return anchor([one.id for one in view.questions].index(question) + 1)
