"""Tables of what models answer in other words, and of what a search for the worst found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Unpack

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
from leakbound.evaluation.views.view import (
    AskedQuery,
    FoundQuery,
    Question,
    RewritingCounts,
    Rewritten,
    RewrittenModel,
    ScorerView,
    View,
)
from leakbound.evaluation.views.words import at_least, floor, greedy_rows, mean_of, quantity
from leakbound.stats.about import Scope
from leakbound.store import EstimateRow
from leakbound.store.estimates import Fields
from leakbound.text.figures import DASH, many

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
    measured = view.models[asked.model].measured

    def output(one: Numbered) -> Cell:
        own = measured.get((scorer.name, one[1].id))
        return bound_cell(own.leakage if own else None)

    columns: dict[str, Callable[[Numbered], Cell]] = {
        "Question": lambda one: Cell(f"{one[1].id}: {one[1].text}", one[0], anchor(one[0])),
        "Output": output,
        "Full": lambda one: bound_cell(one[2].leakage),
        "Full beyond output": lambda one: bound_cell(one[2].gap),
        "Worst query": lambda one: bound_cell(one[2].worst),
        "Worst query beyond output": lambda one: _least(one[2].worst_gap),
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
        "Found": lambda found: bound_cell(found.leakage.get(name)),
        PROVED: lambda found: _proved(found.proved.get(name)),
        "In its own words": lambda found: bound_cell(found.own.get(name)),
        "Beyond its own words": lambda found: bound_cell(found.gap.get(name)),
        "Control": lambda found: bound_cell(found.control.get(name)),
        CONTROL_PROVED: lambda found: _proved(found.control_proved.get(name)),
    }
    for column, known in (
        ("Forwards in the search", any(found.forwards for found in view.found)),
        (PROVED, any(name in found.proved for found in view.found)),
        (CONTROL_PROVED, any(name in found.control_proved for found in view.found)),
    ):
        if not known:
            del columns[column]

    def leaks(found: FoundQuery) -> float:
        return found.leakage[name].lower if name in found.leakage else -1.0

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
    cell = view.models[asked.model].measured.get((scorer.name, query.question))
    return interval(cell.leakage if cell else None)


def place(view: View, question: str) -> str:
    """Where the texts of the question with this id stand."""
    return anchor([one.id for one in view.questions].index(question) + 1)
