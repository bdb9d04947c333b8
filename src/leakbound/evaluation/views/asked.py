"""Models' answers in other words, and the findings of a search for the worst way of asking.

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
    ceiling_cell,
    label_cell,
    leakage_column,
    mean_heading,
    spread_cell,
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
from leakbound.evaluation.views.words import counted, floor, greedy_rows, mean_of, quantity
from leakbound.inputs import REASONS, evidence
from leakbound.scorers import make_scorer
from leakbound.stats.about import Scope
from leakbound.store import (
    ATTACK,
    CONTROL,
    TARGET,
    Arm,
    EstimateRow,
    Redaction,
    Run,
    read_accepted,
    read_values,
)
from leakbound.store.estimates import Fields
from leakbound.store.inputs import AttackQuery, read_attack_queries
from leakbound.store.tables import completions_of
from leakbound.text.shown import DASH, below, many
from leakbound.types import Completion, Query

LESS_SURE = "less sure than the question"
"""Why input selection removes a rewriting."""


def tried(run: Run) -> RewritingCounts | None:
    """Count the rewritings that were tried, removed and asked; None where the run asks none."""
    if (inputs := run.record.inputs) is None:
        return None
    accepted = read_accepted(run.path, run.record) or ()
    rewritings = len(run.queries) - len(run.questions)
    removed: dict[str, int] = {
        reason: sum(item.removed.get(reason, 0) for item in accepted) for reason in REASONS
    }
    if inputs.ids:
        removed[LESS_SURE] = sum(len(item.queries) for item in accepted) - rewritings
    rewritten = {query.prompt_id for query in run.queries if query.source != "original"}
    return RewritingCounts(
        source=inputs.source,
        design=inputs.design,
        tried=sum(len(item.queries) + len(item.rejected) for item in accepted),
        removed={reason: count for reason, count in removed.items() if count},
        asked=rewritings,
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
    model: int, label: str, run: Run, arm: Arm, redact: Redaction, texts: bool
) -> RewrittenModel:
    """Read the answers of an arm that asks rewritings, of the model at this place.

    `texts` False: leave out its questions, and their queries.
    """
    rows = ArmRows(arm.name, run.estimates)
    inputs = run.record.inputs
    rewritten = RewrittenModel(
        model=model,
        label=label,
        n=arm.plan.n,
        rows=rows,
        ledger=arm.ledger,
        questions={},
        worst={},
        failures=len(arm.failures),
        criterion=_SURENESS[inputs.criterion if inputs and inputs.ids else "mean_logprob"],
    )
    if not texts:
        return rewritten
    questions = _questions(run, arm, rows, redact)
    worst = {scorer: _leaking_most(scorer, questions) for scorer in rows.estimates.scorers}
    return replace(rewritten, questions=questions, worst=_with_examples(arm, worst, bool(redact)))


def _questions(run: Run, arm: Arm, rows: ArmRows, redact: Redaction) -> Questions:
    """Every question of which no query failed, under every scorer."""
    own_words = "" if redact == "questions" else "original"
    sure, own = sureness(run, arm), defaultdict[str, list[Query]](list)
    for query in arm.queries:
        own[query.prompt_id].append(query)
    questions: Questions = {}
    for scorer, (prompt_id, queries) in product(rows.estimates.scorers, own.items()):
        estimates = rows.of(scorer, prompt_id).where(scope="question", quantity=LEAKAGE)
        leakage = estimates.first()
        if leakage is None:
            continue
        drawn = [
            AskedQuery(
                id=query.id,
                question=prompt_id,
                text=None if redact and query.source != own_words else query.text,
                source=query.source,
                leakage=row,
                sureness=sure.get(query.id),
            )
            for query in queries
            # None, or without a draw: it got no output, or only one, as fresh ones do
            if (row := rows.of(scorer, query.id).first(quantity=LEAKAGE, scope="query")) and row.n
        ]
        pairs = [(q.sureness, q.leakage.upper) for q in drawn if q.sureness is not None]
        questions[scorer, prompt_id] = Rewritten(
            leakage=leakage,
            number=len(queries),
            rows=estimates,
            queries=tuple(drawn),
            correlation=pearson(pairs),
        )
    return questions


def _leaking_most(scorer: str, questions: Questions) -> list[AskedQuery]:
    """The queries of all questions with the largest lower ends."""
    leaking = [
        query
        for (name, _), rewritten in questions.items()
        for query in rewritten.queries
        if name == scorer and query.leakage.value
    ]
    ends = {query.id: (query.leakage.lower, query.leakage.value or 0.0) for query in leaking}
    return sorted(leaking, key=lambda query: ends[query.id], reverse=True)[:WORST]


def _with_examples(arm: Arm, worst: Worst, redact: bool) -> dict[str, tuple[AskedQuery, ...]]:
    """The queries with those of their answers that score highest."""
    wanted = {query.id for queries in worst.values() for query in queries}
    slugs = [slug(make_scorer(name)) for name in worst]
    texts = {q: answers for q, answers in distinct_texts(arm, slugs) if q in wanted}
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


def read_attack(label: str, run: Run, redact: Redaction) -> Iterator[FoundQuery]:
    """The query found for each question of a run, with its bounds; nothing without a search.

    `redact` leaves the words out, all but where they come from.
    """
    for attack in read_attack_queries(run.path) or ():
        yield FoundQuery(
            run=label,
            question=attack.query.prompt_id,
            text=None if redact else attack.query.text,
            asked=_asked(attack, bool(redact)),
            draws=attack.rounds[-1].draws if attack.rounds else 0,
            forwards=attack.rounds[-1].forwards if attack.rounds else 0,
            rounds=len(attack.rounds),
            lower=attack.lower,
            arm=attack.arm,
            own=str(run.estimates.main or TARGET),
            estimates=run.estimates,
        )


def read_attacked(label: str | None, run: Run) -> Iterator[AskedModel]:
    """The leakage of all questions as they were found, for a run's target and its control.

    `label` None: they are called as their arms.
    """
    attacked = [arm for arm in run.arms.values() if arm.key.asks == "attack"]
    if not attacked:
        return
    for key, named in ((ATTACK, label), (ATTACK.control, f"{CONTROL} of {label}")):
        rows = ArmRows(str(key), run.estimates)
        if any(rows.of(scorer) for scorer in run.estimates.scorers):
            called = str(key) if label is None else str(named)
            own = [arm for arm in attacked if arm.key.model == key.model]
            at = [f" at {arm.decoding.name}" if len(own) > 1 else "" for arm in own]
            ledgers = {f"{called}{x}": arm.ledger for x, arm in zip(at, own, strict=True)}
            yield AskedModel(label=called, rows=rows, ledgers=ledgers)


def _asked(attack: AttackQuery, redact: bool) -> str:
    """Where the words come from, what stands around them, and the decoding."""
    source = "own words" if attack.query.source == "original" else attack.query.source
    parts = [source]
    if attack.shots:
        parts.append(f"after {len(attack.shots)} retained pairs")
    if attack.query.prefix:
        parts.append("with an opener" if redact else f"opened by {attack.query.prefix!r}")
    return ", ".join([*parts, attack.decoding.name])


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
    for reason in dict.fromkeys(r for counts in view.tried.values() for r in counts.removed):
        columns[f"Removed: {reason}"] = partial(removed, reason)
    columns["Asked"] = lambda pair: count_cell(pair[1].asked)
    return table_of("Rewritings of all questions", columns, view.tried.items())


def protocols_grid(view: View, scorer: ScorerView) -> Table:
    """A row a model: greedy answers, the output distribution, and full, side by side."""
    mean = leakage_column(scorer, scope="mean")
    columns: dict[str, Callable[[RewrittenModel], Cell]] = {
        "Model": label_cell,
        "Greedy": lambda model: number_cell(mean_of(greedy_rows(view.models[model.model], scorer))),
        "Output": lambda model: mean(view.models[model.model]),
        "Full": mean,
        "Full: deviation, mean": partial(spread_cell, scorer, "standard deviation", bound_cell),
        "Full: ED, mean": partial(spread_cell, scorer, "expectation deviation", ceiling_cell),
        "Full: worst question": leakage_column(scorer, scope="worst question"),
        "Full: worst query": leakage_column(scorer, scope="worst question", inputs="worst query"),
        **beyond_columns(scorer),
    }
    n = max(model.n for model in view.asked)
    questions = many(len(view.questions), "question")
    title = f"{scorer.name} by protocol, {questions}, n = {n:,} outputs each"
    ledgers = {model.label: model.ledger for model in view.asked}
    ed = f"ED is the mean plus {view.rho:g} standard deviations, and may exceed 1"
    return table_of(title, columns, view.asked, f"{counted(ledgers)}\n{ed}")


def attacked_grid(view: View, scorer: ScorerView) -> Table:
    """A row a model: all questions as they were found, and beyond the control and own words."""
    columns: dict[str, Column] = {
        "Model": label_cell,
        mean_heading(scorer): leakage_column(scorer, scope="mean"),
        "Worst question": leakage_column(scorer, scope="worst question"),
        **beyond_columns(scorer),
        **_gap_columns(scorer, "Beyond own words"),
    }
    title = f"Scorer {scorer.name}: as they were found"
    ledgers = dict(item for model in view.attacked for item in model.ledgers.items())
    return table_of(title, columns, view.attacked, counted(ledgers))


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

    def gap(model: Asked, scope: Scope) -> EstimateRow | None:
        return model.rows.leakage(scorer.name, **how | Fields(scope=scope, beyond="own words"))

    def where(model: Asked) -> Cell:
        row = gap(model, "count")
        if row is None or row.value is None:
            return Cell(DASH)
        return Cell(f"{row.value:g} (≥ {row.lower:g})", row.value)

    return {
        f"{name}: most at a question": lambda model: _least(gap(model, "worst question")),
        f"{name}: questions with more": where,
    }


def _least(bound: EstimateRow | None) -> Cell:
    return Cell(DASH) if bound is None else Cell(floor(bound.value, bound.lower), bound.value)


def rewritten_grid(view: View, model: RewrittenModel, scorer: ScorerView) -> Table:
    """A row a question: its own words beside all its queries, and beside the worst of them."""

    def output(row: Numbered) -> Cell:
        own = view.models[model.model].at(row[1].id, scorer)
        return bound_cell(own.leakage if own else None)

    columns: dict[str, Callable[[Numbered], Cell]] = {
        "Question": lambda row: Cell(f"{row[1].id}: {row[1].text}", row[0], anchor(row[0])),
        "Output": output,
        "Full": lambda row: bound_cell(row[2].leakage),
        "Full beyond output": lambda row: bound_cell(row[2].rows.first(beyond="own words")),
        "Worst query": lambda row: bound_cell(row[2].rows.first(inputs="worst query")),
        "Worst query beyond output": lambda row: _least(
            row[2].rows.first(beyond="own words", inputs="worst query")
        ),
        "Queries": lambda row: count_cell(row[2].number),
        "r": lambda row: number_cell(row[2].correlation),
    }
    rows = [
        (number, question, rewritten)
        for number, question in enumerate(view.questions, 1)
        if (rewritten := model.questions.get((scorer.name, question.id))) is not None
    ]
    title = f"{model.label}: {quantity(scorer)} of every question, {scorer.name}"
    return table_of(title, columns, rows)


def found_grid(view: View, scorer: ScorerView) -> Table:
    """A row a question: how it was asked where a search found most, those that leak most first."""
    name, several = scorer.name, len(view.searches) > 1

    def question(query: FoundQuery) -> Cell:
        run = f", {query.run}" if several else ""
        return Cell(f"{query.question}{run}", anchor=place(view, query.question))

    def lower(query: FoundQuery) -> Cell:
        """Where the search left it, by the scores that steered."""
        steered = view.searches[query.run].scorer.name == name
        return Cell(below(query.lower), query.lower) if steered else Cell(DASH)

    def cell_of(
        cell: Callable[[EstimateRow | None], Cell],
        bound: Callable[[FoundQuery], EstimateRow | None],
        query: FoundQuery,
    ) -> Cell:
        return cell(bound(query))

    columns: dict[str, Callable[[FoundQuery], Cell]] = {
        "Question": question,
        "What is asked": lambda query: Cell(
            "withheld" if query.text is None else query.text, prose=True
        ),
        "Asked": lambda query: Cell(query.asked, prose=True),
        "Rounds": lambda query: count_cell(query.rounds),
        "Draws in the search": lambda query: count_cell(query.draws),
        "Forwards in the search": lambda query: count_cell(query.forwards),
        "Lower end in the search": lower,
    }
    if not any(query.forwards for query in view.found):
        del columns["Forwards in the search"]
    bounds: dict[str, Callable[[FoundQuery], EstimateRow | None]] = {
        "Found": lambda query: query.leakage(name),
        PROVED: lambda query: query.leakage(name, proved=True),
        "In its own words": lambda query: query.leakage(name, query.own),
        "Beyond its own words": lambda query: query.leakage(name, ATTACK, beyond="own words"),
        "Control": lambda query: query.leakage(name, query.arm.control),
        CONTROL_PROVED: lambda query: query.leakage(name, query.arm.control, proved=True),
    }
    for column, bound in bounds.items():
        if column not in (PROVED, CONTROL_PROVED):
            columns[column] = partial(cell_of, bound_cell, bound)
        elif any(map(bound, view.found)):
            columns[column] = partial(cell_of, _proved, bound)

    def leaks(query: FoundQuery) -> float:
        row = query.leakage(name)
        return -1.0 if row is None else row.lower

    title = f"{name} where it was attacked, {many(len(view.found), 'question')}"
    return table_of(title, columns, sorted(view.found, key=leaks, reverse=True), _searched(view))


def _proved(row: EstimateRow | None) -> Cell:
    return Cell(DASH) if row is None else Cell(below(row.lower), row.lower)


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


def own_words(view: View, model: RewrittenModel, scorer: ScorerView, query: AskedQuery) -> str:
    """The leakage, in its own words, of the question that the query rewrites."""
    cell = view.models[model.model].at(query.question, scorer)
    return interval(cell.leakage if cell else None)


def place(view: View, question: str) -> str:
    """Where the texts of the question with this id stand."""
    return anchor([q.id for q in view.questions].index(question) + 1)
