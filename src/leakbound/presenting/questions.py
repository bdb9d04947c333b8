"""Tables with a row per question, and the queries of a question that leak most.

Input selection assumes that queries with more confident answers leak more. To check this
assumption, a table shows the Pearson correlation for each question. It is the correlation, over the
question's queries, between the log-probability of the answers and the upper bound on the leakage.
Cheng et al. (2025, Figures 1 and 2) found mostly .6 to .8.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias, Unpack

import numpy as np

from leakbound.bounding.rows import CLAIMS
from leakbound.presenting.sentences import searched
from leakbound.presenting.table import (
    Cell,
    Shown,
    Table,
    lower_cell,
    table_of,
)
from leakbound.presenting.templates import decision, quantity
from leakbound.presenting.texts import Text, tallies, texts_in, withheld
from leakbound.presenting.view import ArmView, Row, View
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.store import ATTACK, TARGET, EstimateRow
from leakbound.store.estimates import Fields
from leakbound.store.inputs import AttackQuery
from leakbound.text.shown import DASH, below, many
from leakbound.types import Prompt, Query, Scorer


def anchor(number: int) -> str:
    """Return the anchor on a page of the texts of a question; `number` starts at 1."""
    return f"q-{number}"


def place(view: View, question: str) -> str:
    """Return the anchor of the texts of the question with this id."""
    return anchor([q.id for q in view.questions].index(question) + 1)


Trait = Literal["beyond", "hidden", "shown", "open", "unsampled"]
TRAITS: dict[Trait, str] = {
    "beyond": "leaks more than the control",
    "hidden": "sampled answers leak more than the greedy answer",
    "shown": "has a leaking text on this page",
    "open": "has a claim that is not decided",
    "unsampled": "was not sampled",
}
"""The properties by which a reader can filter the questions of a page, with their labels."""


def by_question(view: View, scorer: Scorer) -> Table:
    """Return a table with a row per question, sorted by the largest leakage of a target.

    The first cell of a row has the position of the question in the benchmark, starting at 1. Each
    model has a column for its greedy score, its leakage with bounds, and the decision on its claim.
    If exactly one model has a control, there is also a column for its excess.
    """
    controlled = [model for model in view.models if model.control]
    headings = ["Question"]
    cells: dict[str, list[Shown]] = {q.id: [i] for i, q in enumerate(view.questions, 1)}
    for model in view.models:
        greedy, bounded = model.greedy_scores(scorer), set(model.questions(scorer))
        claims = [row.about.claimed for row in model.per_question(scorer, quantity=CLAIMS) if row]
        excess = ["excess over the control"] if controlled == [model] else []
        names = ["greedy score", quantity(scorer), *dict.fromkeys(claims), *excess]
        headings += [f"{model.label}: {name}" for name in names]
        for question, own in cells.items():
            own.append(greedy.get(question) if question in bounded else None)
            own.append(model.leakage(scorer, question) or "not sampled")
            claim = model.first(scorer, question, quantity=CLAIMS)
            after = Cell(f"{decision(claim)} after {claim.n:,} draws", claim.n) if claim else None
            own += [after] * len({*claims})
            own += [model.leakage(scorer, question, beyond="control") for _ in excess]

    def most(question: str) -> tuple[float, float]:
        rows = (model.leakage(scorer, question) for model in view.targets)
        return max(((row.value or 0.0, row.lower) for row in rows if row), default=(-1.0, -1.0))

    order = sorted(cells, key=most, reverse=True)
    title = f"Scorer {scorer.name}: every question, the largest leakage first"
    return Table.plain(title, headings, map(cells.__getitem__, order))


def traits(view: View, scorer: Scorer, question: str) -> tuple[Trait, ...]:
    """Return the properties in `TRAITS` that at least one target has at a question."""
    has = dict.fromkeys(TRAITS, False)
    for model in view.targets:
        leakage, score = model.leakage(scorer, question), model.greedy_scores(scorer).get(question)
        if texts := model.texts.get(question):
            has["shown"] |= any(text.leaks for text in texts.shown)
        if leakage is None:
            has["unsampled"] = True
            continue
        excess = model.leakage(scorer, question, beyond="control", family="questions")
        has["beyond"] |= excess is not None and excess.lower > 0
        has["hidden"] |= score is not None and leakage.lower > score
        claim = model.first(scorer, question, quantity=CLAIMS)
        has["open"] |= claim is not None and claim.value is None
    return tuple(trait for trait in TRAITS if has[trait])


WORST = 8  # number of queries whose answers are shown
EXAMPLES = 3  # answers shown per query
LEAST = 3  # smallest number of queries: with two, the correlation is always 1 or -1
_SURENESS = {
    "mean_prob": "log of the mean probability of the answers to the query",
    "mean_logprob": "mean log-probability of the answers to the query",
    "mean_logprob_per_token": "mean log-probability per token of the answers to the query",
}


def criterion(model: ArmView) -> str:
    """Return in words how the model's confidence in its answers to a query is measured."""
    inputs = model.run.record.inputs
    return _SURENESS[inputs.criterion if inputs and inputs.ids else "mean_logprob"]


def queries_of(model: ArmView, scorer: Scorer, question: str) -> list[tuple[Query, EstimateRow]]:
    """Return the queries of a question that have a statement on their leakage, with the statement.

    A query without outputs has no statement. A query of a `fresh` design has no statement either,
    because it has only one output.
    """
    queries = (query for query in model.arm.queries if query.prompt_id == question)
    rows = ((query, model.leakage(scorer, query.id, scope="query")) for query in queries)
    return [(query, row) for query, row in rows if row and row.n]


def correlation(model: ArmView, scorer: Scorer, question: str) -> float | None:
    """Return Pearson's r of confidence and upper bound on leakage, over a question's queries.

    The result is None for fewer than three queries, or if confidence or bound does not vary.
    """
    pairs = [
        (model.sureness[query.id], row.upper)
        for query, row in queries_of(model, scorer, question)
        if query.id in model.sureness
    ]
    if len(pairs) < LEAST or not np.ptp(pairs, axis=0).all():
        return None
    return float(np.corrcoef(np.array(pairs).T)[0, 1])


def rewritten_table(view: View, model: ArmView, scorer: Scorer) -> Table:
    """Return the leakage of each question with its original query, all queries, the worst query."""

    def full(question: Prompt, /, **wanted: Unpack[Fields]) -> Row:
        return model.leakage(scorer, question.id, **Fields(scope="question") | wanted)

    rows = [
        [
            Cell(f"{question.id}: {question.question}", number, anchor(number)),
            model.in_own_words.leakage(scorer, question.id),
            whole,
            full(question, beyond="own words"),
            full(question, inputs="worst query"),
            full(question, beyond="own words", inputs="worst query"),
            sum(query.prompt_id == question.id for query in model.arm.queries),
            correlation(model, scorer, question.id),
        ]
        for number, question in enumerate(view.questions, 1)
        if (whole := full(question))
    ]
    columns = (
        "Question", "Original wording", "Full", "Full minus original", "Worst query",
        "Worst query minus original", "Number of queries", "r",
    )  # fmt: skip
    title = f"{model.label}: {quantity(scorer)} of every question, scorer {scorer.name}"
    return Table.plain(title, columns, rows)


def leaking_most(model: ArmView) -> dict[str, list[tuple[Query, EstimateRow, list[Text]]]]:
    """Return, by scorer, the queries with the largest lower bounds and their leaking answers."""
    scorers = [make_scorer(name) for name in model.estimates.scorers]
    questions = dict.fromkeys(query.prompt_id for query in model.arm.queries)
    worst: dict[str, list[tuple[Query, EstimateRow]]] = {}
    for scorer in scorers:
        whole = (q for q in questions if model.leakage(scorer, q, scope="question"))
        drawn = [shown for question in whole for shown in queries_of(model, scorer, question)]
        leaking = [shown for shown in drawn if shown[1].value]
        leaking.sort(key=lambda shown: (shown[1].lower, shown[1].value), reverse=True)
        worst[scorer.name] = leaking[:WORST]
    wanted = {query.id for queries in worst.values() for query, _ in queries}
    slugs = [slug(scorer) for scorer in scorers]
    texts = {q: texts_in(rows) for q, rows in tallies(model.arm, slugs) if q in wanted}

    def examples(query: Query, i: int) -> list[Text]:
        """Return the answers with the highest scores by scorer number `i`."""
        scored = [(text.scores[i] or 0.0, text.count, text) for text in texts[query.id]]
        scored = sorted(scored, key=lambda score: score[:2], reverse=True)[:EXAMPLES]
        return [withheld(text, bool(model.redacted)) for score, _, text in scored if score]

    return {
        name: [(query, row, examples(query, i)) for query, row in queries]
        for i, (name, queries) in enumerate(worst.items())
    }


Searched: TypeAlias = tuple[ArmView, AttackQuery]
PROVED, CONTROL_PROVED = "Query found, proved", "Control, query found, proved"
ORIGINAL, QUERY, CONTROL_QUERY = "Original question", "Query found", "Control, query found"
SEARCH_BOUND, SEARCH_PREFIXES = "Lower bound in the search", "Prefixes forwarded in the search"
SEARCHED_COLUMNS = (
    "Question", ORIGINAL, QUERY, PROVED, CONTROL_QUERY, CONTROL_PROVED, SEARCH_BOUND, "Source",
)  # fmt: skip
"""The columns that a console shows."""


def way_of(model: ArmView, attack: AttackQuery) -> str:
    """Return in words the source of a query, the texts added to it, and the decoding."""
    parts = ["original question" if attack.query.source == "original" else attack.query.source]
    if attack.shots:
        parts.append(f"after {len(attack.shots)} question–answer pairs of the retain set")
    if attack.query.prefix:
        given = "a given text" if model.redacted else repr(attack.query.prefix)
        parts.append(f"the answer begins with {given}")
    return ", ".join([*parts, attack.decoding.name])


def searched_leakage(row: Searched, scorer: Scorer, /, **wanted: Unpack[Fields]) -> Row:
    """Return a question's leakage with the query that a search found, or in the arm in `wanted`."""
    model, attack = row
    return model.leakage(scorer, attack.query.prompt_id, **Fields(arm=str(attack.arm)) | wanted)


def searched_table(view: View, scorer: Scorer) -> Table:
    """Return a row per question with the query that the search selected, most leakage first."""

    def question(row: Searched) -> Cell:
        run = f", {row[0].run_label}" if len(view.searches) > 1 else ""
        return Cell(f"{row[1].query.prompt_id}{run}", anchor=place(view, row[1].query.prompt_id))

    def lower(row: Searched) -> Shown:
        """Return the lower bound of the search; None if the search used another scorer."""
        steered = view.searches[row[0].run_label].scorer.name == scorer.name
        return Cell(below(row[1].lower), row[1].lower) if steered else None

    def last(row: Searched, name: str) -> int:
        return int(getattr(row[1].rounds[-1], name)) if row[1].rounds else 0

    def leakage(row: Searched, /, **wanted: Unpack[Fields]) -> Row:
        return searched_leakage(row, scorer, **wanted)

    def own(row: Searched) -> str:
        return row[0].estimates.main or str(TARGET)

    columns: dict[str, Callable[[Searched], Shown]] = {
        "Question": question,
        "Query": lambda row: Cell("withheld" if view.redacted else row[1].query.text, prose=True),
        "Source": lambda row: Cell(way_of(*row), prose=True),
        "Rounds": lambda row: len(row[1].rounds),
        "Draws in the search": lambda row: last(row, "draws"),
        SEARCH_PREFIXES: lambda row: last(row, "forwards"),
        SEARCH_BOUND: lower,
        QUERY: leakage,
        PROVED: lambda row: lower_cell(leakage(row, proved=True)),
        ORIGINAL: lambda row: leakage(row, arm=own(row)),
        "Query found minus original": partial(leakage, arm=str(ATTACK), beyond="own words"),
        CONTROL_QUERY: lambda row: leakage(row, arm=str(row[1].arm.control)),
        CONTROL_PROVED: lambda row: lower_cell(
            leakage(row, arm=str(row[1].arm.control), proved=True)
        ),
    }

    def leaks(row: Searched) -> float:
        bound = leakage(row)
        return -1.0 if bound is None else bound.lower

    title = f"Scorer {scorer.name} by the worst query found, {many(len(view.attacks), 'question')}"
    rows = sorted(view.attacks, key=leaks, reverse=True)
    table = table_of(title, columns, rows, searched(view))
    for name in (PROVED, CONTROL_PROVED, SEARCH_PREFIXES):
        if {cell.text for (cell,) in table.only(name).rows} <= {DASH, "0"}:
            table = table.only(*(kept for kept in table.columns if kept != name))
    return table


def search_proves(view: View) -> bool:
    """Return whether a leak is proved for any query that a search found."""
    scorers = view.scorers
    return any(searched_leakage(row, s, proved=True) for row in view.attacks for s in scorers)
