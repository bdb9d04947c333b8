"""Tables with a row per question, and the queries of a question that leak most.

For each question the Pearson correlation, over its queries, of cumulative log-probability and the
upper bound on expected leakage measures the premise of input selection (Cheng et al. 2025,
Figures 1 and 2: mostly .6 to .8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack

import numpy as np

from leakbound.bounding.rows import CLAIMS
from leakbound.presenting.sentences import decision, quantity, searched
from leakbound.presenting.table import (
    Cell,
    Table,
    bound_cell,
    count_cell,
    floor_cell,
    lower_cell,
    number_cell,
    table_of,
)
from leakbound.presenting.texts import Text, distinct_texts, withheld
from leakbound.presenting.view import ArmView, Row, View
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.store import ATTACK, TARGET, EstimateRow
from leakbound.store.estimates import Fields
from leakbound.store.inputs import AttackQuery
from leakbound.text.shown import DASH, below, many
from leakbound.types import Prompt, Query, Scorer

Numbered = tuple[int, Prompt]


def anchor(number: int) -> str:
    """The place of the texts of a question, numbered from 1, on a page."""
    return f"q-{number}"


def place(view: View, question: str) -> str:
    """The place of the texts of the question with this id."""
    return anchor([q.id for q in view.questions].index(question) + 1)


def _question_cell(row: Numbered) -> Cell:
    number, question = row
    return Cell(f"{question.id}: {question.question}", number, anchor(number))


def _columns_of(model: ArmView, scorer: Scorer, beyond: bool) -> dict[str, Callable[[str], Cell]]:
    """The columns of a model, each of which makes the cell of a question's id."""
    greedy = model.greedy(scorer)

    def greedy_cell(question: str) -> Cell:
        sampled = question in model.questions(scorer) and question in greedy
        return number_cell(greedy[question].value if sampled else None)

    def claim_cell(question: str) -> Cell:
        claim = model.first(scorer, question, quantity=CLAIMS)
        return Cell(f"{decision(claim)} after {claim.n:,}", claim.n) if claim else Cell(DASH)

    columns: dict[str, Callable[[str], Cell]] = {
        "greedy": greedy_cell,
        quantity(scorer): lambda q: bound_cell(model.leakage(scorer, q), "not sampled"),
    }
    claims = model.per_question(scorer, quantity=CLAIMS)
    columns |= dict.fromkeys((claim.about.claimed for claim in claims if claim), claim_cell)
    if beyond:
        columns["beyond the control"] = lambda q: bound_cell(
            model.leakage(scorer, q, beyond="control")
        )
    return columns


Trait = Literal["beyond", "hidden", "shown", "open", "unsampled"]
TRAITS: dict[Trait, str] = {
    "beyond": "leaks beyond the control",
    "hidden": "leaks more than the greedy answer, each by itself",
    "shown": "with a leak in a text shown",
    "open": "claim not decided",
    "unsampled": "not sampled",
}
"""The traits that a question may be chosen by, in the words of a page."""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question in the table of all.

    Attributes:
        number: its place in the benchmark, from 1.
        cells: one per column, but for the first.
        traits: the traits that it has of one target at least.
    """

    number: int
    cells: tuple[Cell, ...]
    traits: tuple[Trait, ...]


def by_question(view: View, scorer: Scorer) -> tuple[list[str], list[QuestionRow]]:
    """The headings, and every question: what leaks most of any target comes first.

    Each model has its greedy score, expected leakage with its bounds, and claim; if exactly one
    model has a control, also how much more it leaks than that.
    """
    controlled = [model for model in view.models if model.control]
    columns = {
        f"{model.label}: {name}": cell
        for model in view.models
        for name, cell in _columns_of(model, scorer, controlled == [model]).items()
    }

    def most(row: QuestionRow) -> tuple[float, float]:
        question = view.questions[row.number - 1].id
        rows = (model.leakage(scorer, question) for model in view.targets)
        return max(((row.value or 0.0, row.lower) for row in rows if row), default=(-1.0, -1.0))

    rows = [
        QuestionRow(
            number,
            tuple(cell(question.id) for cell in columns.values()),
            _traits(view.targets, scorer, question.id),
        )
        for number, question in enumerate(view.questions, 1)
    ]
    return ["Question", *columns], sorted(rows, key=most, reverse=True)


def _traits(targets: Sequence[ArmView], scorer: Scorer, question: str) -> tuple[Trait, ...]:
    texts = [model.texts[question] for model in targets if question in model.texts]
    sampled = [model for model in targets if model.leakage(scorer, question)]

    def beyond(model: ArmView) -> bool:
        row = model.leakage(scorer, question, beyond="control", jointly=True)
        return row is not None and row.lower > 0

    def hidden(model: ArmView) -> bool:
        row, answer = model.leakage(scorer, question), model.greedy(scorer).get(question)
        score = answer.value if answer else None
        return row is not None and score is not None and row.lower > score

    def undecided(model: ArmView) -> bool:
        claim = model.first(scorer, question, quantity=CLAIMS)
        return claim is not None and claim.value is None

    has: dict[Trait, bool] = {
        "beyond": any(map(beyond, sampled)),
        "hidden": any(map(hidden, sampled)),
        "shown": any(text.leaks for group in texts for text in group.shown),
        "open": any(map(undecided, sampled)),
        "unsampled": len(sampled) < len(targets),
    }
    return tuple(trait for trait in TRAITS if has[trait])


WORST = 8  # queries whose answers are shown
EXAMPLES = 3  # of these answers
LEAST = 3  # queries: two always lie on a line
_SURENESS = {
    "mean_prob": "log of the mean probability of its answers",
    "mean_logprob": "mean log-probability of its answers",
    "mean_logprob_per_token": "mean log-probability of its answers, per token",
}


def criterion(model: ArmView) -> str:
    """Return the meaning of the sureness of a query, in words."""
    inputs = model.run.record.inputs
    return _SURENESS[inputs.criterion if inputs and inputs.ids else "mean_logprob"]


@dataclass(frozen=True, slots=True)
class LeakingQuery:
    """A query of a question, with a bound on the leakage of its answers.

    Attributes:
        query: the query.
        leakage: the bound.
        examples: answers that leak most, of the queries that leak most; else empty.
    """

    query: Query
    leakage: EstimateRow
    examples: tuple[Text, ...] = ()


def queries_of(model: ArmView, scorer: Scorer, question: str) -> list[LeakingQuery]:
    """The queries of a question that got an output and can be told apart.

    A query has no statement if it got no output, or only one, as fresh queries do.
    """
    queries = (query for query in model.arm.queries if query.prompt_id == question)
    rows = ((query, model.leakage(scorer, query.id, scope="query")) for query in queries)
    return [LeakingQuery(query, row) for query, row in rows if row and row.n]


def correlation(model: ArmView, scorer: Scorer, question: str) -> float | None:
    """Pearson's r, over the queries of a question, of sureness and the upper bound on leakage.

    None for fewer than three queries, or if one of the two does not vary.
    """
    pairs = [
        (model.sureness[shown.query.id], shown.leakage.upper)
        for shown in queries_of(model, scorer, question)
        if shown.query.id in model.sureness
    ]
    if len(pairs) < LEAST or not np.ptp(pairs, axis=0).all():
        return None
    return float(np.corrcoef(np.array(pairs).T)[0, 1])


def rewritten_table(view: View, model: ArmView, scorer: Scorer) -> Table:
    """A row per question: its own words, all its queries, and the worst of them."""

    def column(
        form: Callable[[Row], Cell] = bound_cell, /, **wanted: Unpack[Fields]
    ) -> Callable[[Numbered], Cell]:
        how: Fields = {"scope": "question"}
        return lambda row: form(model.leakage(scorer, row[1].id, **how | wanted))

    def count(row: Numbered) -> Cell:
        return count_cell(sum(query.prompt_id == row[1].id for query in model.arm.queries))

    columns: dict[str, Callable[[Numbered], Cell]] = {
        "Question": _question_cell,
        "Output": lambda row: bound_cell(model.in_own_words.leakage(scorer, row[1].id)),
        "Full": column(),
        "Full beyond output": column(beyond="own words"),
        "Worst query": column(inputs="worst query"),
        "Worst query beyond output": column(floor_cell, beyond="own words", inputs="worst query"),
        "Queries": count,
        "r": lambda row: number_cell(correlation(model, scorer, row[1].id)),
    }
    rows = [
        (number, question)
        for number, question in enumerate(view.questions, 1)
        if model.leakage(scorer, question.id, scope="question")
    ]
    title = f"{model.label}: {quantity(scorer)} of every question, {scorer.name}"
    return table_of(title, columns, rows)


def leaking_most(model: ArmView) -> dict[str, list[LeakingQuery]]:
    """By scorer, the queries of all questions with the largest lower bounds, and their answers."""
    scorers = [make_scorer(name) for name in model.estimates.scorers]
    questions = dict.fromkeys(query.prompt_id for query in model.arm.queries)
    worst: dict[str, list[LeakingQuery]] = {}
    for scorer in scorers:
        whole = (q for q in questions if model.leakage(scorer, q, scope="question"))
        drawn = [shown for question in whole for shown in queries_of(model, scorer, question)]
        leaking = [(s.leakage.lower, s.leakage.value, s) for s in drawn if s.leakage.value]
        leaking.sort(key=lambda bound: bound[:2], reverse=True)
        worst[scorer.name] = [shown for _, _, shown in leaking[:WORST]]
    wanted = {shown.query.id for queries in worst.values() for shown in queries}
    slugs = [slug(scorer) for scorer in scorers]
    texts = {q: answers for q, answers in distinct_texts(model.arm, slugs) if q in wanted}

    def examples(query: Query, i: int) -> tuple[Text, ...]:
        """The answers that score highest under the scorer with this index."""
        scored = [(text.scores[i] or 0.0, text.count, text) for text in texts[query.id]]
        scored = sorted(scored, key=lambda score: score[:2], reverse=True)[:EXAMPLES]
        return tuple(withheld(text, bool(model.redacted)) for score, _, text in scored if score)

    return {
        name: [replace(shown, examples=examples(shown.query, i)) for shown in queries]
        for i, (name, queries) in enumerate(worst.items())
    }


Found = tuple[ArmView, AttackQuery]
PROVED, CONTROL_PROVED = "Proved", "Control, proved"
FOUND_COLUMNS = (
    "Question", "In its own words", "Found", PROVED, "Control", CONTROL_PROVED,
    "Lower end in the search", "Asked",
)  # fmt: skip
"""The columns that a console has room for."""


def how_asked(model: ArmView, attack: AttackQuery) -> str:
    """The source of a query, the words around it, and the decoding."""
    parts = ["own words" if attack.query.source == "original" else attack.query.source]
    if attack.shots:
        parts.append(f"after {len(attack.shots)} retained pairs")
    if attack.query.prefix:
        opener = "with an opener" if model.redacted else f"opened by {attack.query.prefix!r}"
        parts.append(opener)
    return ", ".join([*parts, attack.decoding.name])


def found_leakage(row: Found, scorer: Scorer, /, **wanted: Unpack[Fields]) -> Row:
    """The leakage of the question of a found query, in the arm that was asked it, or another."""
    model, attack = row
    return model.leakage(scorer, attack.query.prompt_id, **Fields(arm=str(attack.arm)) | wanted)


def found_table(view: View, scorer: Scorer) -> Table:
    """A row per question: how it was asked where a search found most, the leakiest first."""

    def question(row: Found) -> Cell:
        run = f", {row[0].run_label}" if len(view.searches) > 1 else ""
        return Cell(f"{row[1].query.prompt_id}{run}", anchor=place(view, row[1].query.prompt_id))

    def lower(row: Found) -> Cell:
        """The lower bound of the search, by the scorer that steered it."""
        steered = view.searches[row[0].run_label].scorer.name == scorer.name
        return Cell(below(row[1].lower), row[1].lower) if steered else Cell(DASH)

    def last(row: Found, name: str) -> int:
        return int(getattr(row[1].rounds[-1], name)) if row[1].rounds else 0

    def column(
        form: Callable[[Row], Cell], wanted: Callable[[Found], Fields]
    ) -> Callable[[Found], Cell]:
        return lambda row: form(found_leakage(row, scorer, **wanted(row)))

    def control(row: Found) -> Fields:
        return {"arm": str(row[1].arm.control)}

    columns: dict[str, Callable[[Found], Cell]] = {
        "Question": question,
        "What is asked": lambda row: Cell(
            "withheld" if view.redacted else row[1].query.text, prose=True
        ),
        "Asked": lambda row: Cell(how_asked(*row), prose=True),
        "Rounds": lambda row: count_cell(len(row[1].rounds)),
        "Draws in the search": lambda row: count_cell(last(row, "draws")),
        "Forwards in the search": lambda row: count_cell(last(row, "forwards")),
        "Lower end in the search": lower,
        "Found": column(bound_cell, lambda row: {}),
        PROVED: column(lower_cell, lambda row: {"proved": True}),
        "In its own words": column(
            bound_cell, lambda row: {"arm": row[0].estimates.main or str(TARGET)}
        ),
        "Beyond its own words": column(
            bound_cell, lambda row: {"arm": str(ATTACK), "beyond": "own words"}
        ),
        "Control": column(bound_cell, control),
        CONTROL_PROVED: column(lower_cell, lambda row: control(row) | {"proved": True}),
    }

    def leaks(row: Found) -> float:
        leakage = found_leakage(row, scorer)
        return -1.0 if leakage is None else leakage.lower

    title = f"{scorer.name} where it was attacked, {many(len(view.attacks), 'question')}"
    rows = sorted(view.attacks, key=leaks, reverse=True)
    table = table_of(title, columns, rows, searched(view))
    for name in (PROVED, CONTROL_PROVED, "Forwards in the search"):
        if {cell.text for (cell,) in table.only(name).rows} <= {DASH, "0"}:
            table = table.only(*(kept for kept in table.columns if kept != name))
    return table


def proofs_found(view: View) -> bool:
    """Whether a leak of a found query is proved."""
    scorers = view.scorers
    return any(found_leakage(row, s, proved=True) for row in view.attacks for s in scorers)
