"""Tables of what models answer in other words."""

from __future__ import annotations

from leakbound.evaluation.views.grids import (
    BEYOND,
    Cell,
    Grid,
    anchor,
    bound_cell,
    number_cell,
    others_grid,
)
from leakbound.evaluation.views.table import interval
from leakbound.evaluation.views.view import AskedQuery, Interval, RewrittenModel, ScorerView, View
from leakbound.evaluation.views.words import cells_of, floor, mean, quantity
from leakbound.text.figures import DASH


def tried_grid(view: View) -> Grid:
    """A row a run: how many rewritings were tried, removed for which reason, and asked."""
    reasons = tuple(dict.fromkeys(r for one in view.tried.values() for r in one.removed))
    columns = ("Run", "Source", "Design", "Tried", *(f"Removed: {r}" for r in reasons), "Asked")
    rows = tuple(
        (
            Cell(label),
            Cell(one.source),
            Cell(one.design),
            *(
                Cell(f"{count:,}", count)
                for count in (one.tried, *(one.removed.get(r, 0) for r in reasons), one.asked)
            ),
        )
        for label, one in view.tried.items()
    )
    return Grid("Rewritings of all questions", columns, rows)


def protocols_grid(view: View, scorer: ScorerView) -> Grid:
    """A row a model: greedy answers, the output distribution, and full, side by side."""
    columns = (
        "Model",
        "Greedy",
        "Output",
        "Full",
        "Full: worst question",
        "Full: worst query",
        *BEYOND,
    )
    rows = []
    for asked in view.asked:
        model, full = view.models[asked.model], asked.overall[scorer.name]
        greedy = [c.greedy for c in cells_of(view, model, scorer) if c.greedy is not None]
        output = model.overall[scorer.name].mean
        of_all = full.overall
        bounds = (output, of_all.mean, of_all.worst, full.worst_query)
        beyond = (of_all.excess, of_all.worst_excess)
        rows.append(
            (Cell(asked.label), number_cell(mean(greedy)), *map(bound_cell, bounds + beyond))
        )
    return Grid(f"Scorer {scorer.name}: greedy, output, full", columns, tuple(rows))


def asked_statements_grid(view: View, scorer: ScorerView) -> Grid | None:
    """A row a model: what else holds of all questions in all their queries; None without."""
    said = [(asked.label, asked.overall[scorer.name].overall) for asked in view.asked]
    return others_grid(f"Scorer {scorer.name}: full, more on all questions", said)


def attacked_grid(view: View, scorer: ScorerView) -> Grid:
    """A row a model: all questions as they were found, and beyond the control and own words."""
    columns = (
        "Model",
        f"Mean {quantity(scorer)}" if scorer.binary else "Mean score",
        "Worst question",
        *BEYOND,
        "Beyond own words: most at a question",
        "Beyond own words: questions with more",
    )
    rows = []
    for one in view.attacked:
        full = one.overall[scorer.name]
        of_all = full.overall
        bounds = (of_all.mean, of_all.worst, of_all.excess, of_all.worst_excess)
        gaps = (_least(full.largest.get("full")), _least_count(full.where.get("full")))
        rows.append((Cell(one.label), *map(bound_cell, bounds), *gaps))
    return Grid(f"Scorer {scorer.name}: as they were found", columns, tuple(rows))


def attacked_statements_grid(view: View, scorer: ScorerView) -> Grid | None:
    """A row a model: what else holds of all questions as they were found; None without."""
    said = [(one.label, one.overall[scorer.name].overall) for one in view.attacked]
    return others_grid(f"Scorer {scorer.name}: as they were found, more on all questions", said)


def gaps_grid(view: View, scorer: ScorerView) -> Grid:
    """A row a model: how much more is found beyond the questions' own words, and where."""
    columns = (
        "Model",
        "Mean over the questions",
        "Full: most at a question",
        "Full: questions with more",
        "Worst query: most at a question",
        "Worst query: questions with more",
    )
    rows = []
    for asked in view.asked:
        full = asked.overall[scorer.name]
        gaps = []
        for what in ("full", "worst query"):
            gaps += [_least(full.largest.get(what)), _least_count(full.where.get(what))]
        rows.append((Cell(asked.label), bound_cell(full.gap), *gaps))
    return Grid(f"Scorer {scorer.name}: more than output", columns, tuple(rows))


def _least(bound: Interval | None) -> Cell:
    return Cell(DASH) if bound is None else Cell(floor(bound.value, bound.lower), bound.value)


def _least_count(bound: Interval | None) -> Cell:
    if bound is None or bound.value is None:
        return Cell(DASH)
    return Cell(f"{bound.value:g} (≥ {bound.lower:g})", bound.value)


def rewritten_grid(view: View, asked: RewrittenModel, scorer: ScorerView) -> Grid:
    """A row a question: its own words beside all its queries, and beside the worst of them."""
    columns = (
        "Question",
        "Output",
        "Full",
        "Full beyond output",
        "Worst query",
        "Worst query beyond output",
        "Queries",
        "r",
    )
    model = view.models[asked.model]
    rows = []
    for number, question in enumerate(view.questions, 1):
        found = asked.questions.get((scorer.name, question.id))
        if found is None:
            continue
        own = model.measured.get((scorer.name, question.id))
        bounds = (own.leakage if own else None, found.leakage, found.gap, found.worst)
        rows.append(
            (
                Cell(f"{question.id}: {question.text}", number, anchor(number)),
                *map(bound_cell, bounds),
                _least(found.worst_gap),
                Cell(f"{found.number:,}", found.number),
                number_cell(found.correlation),
            )
        )
    caption = f"{asked.label}: {quantity(scorer)} of every question, {scorer.name}"
    return Grid(caption, columns, tuple(rows))


def own_words(view: View, asked: RewrittenModel, scorer: ScorerView, query: AskedQuery) -> str:
    """What the question that the query rewrites leaks in its own words."""
    cell = view.models[asked.model].measured.get((scorer.name, query.question))
    return interval(cell.leakage if cell else None)


def place(view: View, question: str) -> str:
    """Where the texts of the question with this id stand."""
    return anchor([one.id for one in view.questions].index(question) + 1)
