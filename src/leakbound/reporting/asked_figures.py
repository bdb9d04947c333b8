"""Charts of what models answer in other words: the papers' Figures 1 to 3."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leakbound.evaluation.views.grids import anchor, question_at
from leakbound.evaluation.views.table import Bound, Interval, interval
from leakbound.evaluation.views.view import BINS, RewrittenModel, ScorerView, View
from leakbound.evaluation.views.words import clipped, greedy_rows, mean_of, quantity
from leakbound.reporting.charts import (
    Axes,
    Lane,
    Mark,
    Spot,
    histogram_chart,
    lanes_chart,
    scatter_chart,
    style_of,
)
from leakbound.reporting.figures import ENDS, Data, Figure, ends, highest, rising, round_height
from leakbound.stats import percent
from leakbound.text.shown import many, number

_HALVES = tuple(((r + 1) / 2, f"{r:g}".replace("-", "−")) for r in (-1, -0.5, 0, 0.5, 1))


def protocol_figures(view: View, scorer: ScorerView) -> list[Figure]:
    """A chart a model: how leakage spreads over the questions, asked in three ways."""
    return [_protocols(view, model, scorer) for model in view.asked]


def _protocols(view: View, model: RewrittenModel, scorer: ScorerView) -> Figure:
    lanes = _lanes(view, model, scorer)
    axes = Axes(
        title=f"{model.label}: greedy, output and full, {scorer.name}",
        description=(
            f"In every lane a mark for each question, sorted by what it leaks: its greedy answer, "
            f"its output distribution, all its queries, and the worst of these, with "
            f"{percent(view.confidence)} bounds. A dashed line is the mean over the questions. The "
            "tables hold the same figures."
        ),
        x_label="how the questions are asked",
        y_label=quantity(scorer),
        top=round_height(max(map(highest, lanes), default=1.0)),
    )
    style = style_of(model.model)
    rows = [
        (lane.label, question_at(view, mark.anchor).id, mark.greedy, *ends(mark.bound))
        for lane in lanes
        for mark in lane.marks
    ]
    data = Data(("asked", "question", "greedy", *ENDS), rows)
    caption = f"{model.label}, axis to {axes.top:g}"
    return Figure(caption, lanes_chart(axes, lanes), data, style)


def _lanes(view: View, model: RewrittenModel, scorer: ScorerView) -> list[Lane]:
    """One a way of asking; that of the worst query where queries can be told apart."""
    own, name = view.models[model.model], scorer.name
    average = mean_of(greedy_rows(own, scorer))
    means: dict[str, Bound | None] = {
        "greedy": None if average is None else Interval(average, average, average),
        "output": own.rows.leakage(name, scope="mean"),
        "full": model.rows.leakage(name, scope="mean"),
        "worst query": None,
    }
    marks: dict[str, list[Mark]] = {way: [] for way in means}
    for number_, question in enumerate(view.questions, 1):
        cell, rewritten = own.at(question.id, scorer), model.questions.get((name, question.id))
        if cell and cell.greedy is not None:
            title = f"{question.id}: greedy {number(cell.greedy)}"
            marks["greedy"].append(Mark(anchor(number_), title, None, cell.greedy))
        bounds = {
            "output": cell.leakage if cell else None,
            "full": rewritten.leakage if rewritten else None,
            "worst query": rewritten.rows.first(inputs="worst query") if rewritten else None,
        }
        for way, bound in bounds.items():
            if bound is not None:
                title = f"{question.id}: {way} {interval(bound)}"
                marks[way].append(Mark(anchor(number_), title, bound))
    style = style_of(model.model)
    return [Lane(way, rising(mine), means[way], style) for way, mine in marks.items() if mine]


def correlation_figures(view: View, scorer: ScorerView) -> list[Figure]:
    """For each model the histogram of r over the questions, and the question of median r."""
    figures = []
    for model in view.asked:
        pairs = sorted(
            (rewritten.correlation, question)
            for question, rewritten in model.under(scorer).items()
            if rewritten.correlation is not None
        )
        if pairs:
            median = pairs[len(pairs) // 2][1]
            figures += [
                _histogram(model, [r for r, _ in pairs], scorer),
                _scatter(model, scorer, median),
            ]
    return figures


def _histogram(model: RewrittenModel, correlations: Sequence[float], scorer: ScorerView) -> Figure:
    counts = [0] * BINS
    for r in correlations:
        counts[min(int((r + 1) / 2 * BINS + 1e-9), BINS - 1)] += 1
    top = 4 * math.ceil(max(counts) / 4)  # quarters of it are whole questions
    caption = f"{model.label}: r over {many(len(correlations), 'question')} ({scorer.name})"
    axes = Axes(
        title=caption,
        description=(
            f"How many questions have which Pearson correlation, over their queries, of "
            f"{model.criterion} and the upper bound on leakage. The median is "
            f"{number(correlations[len(correlations) // 2])}."
        ),
        x_label="Pearson's r over the queries of a question",
        y_label="questions",
        x_ticks=_HALVES,
        top=top,
    )
    style = style_of(model.model)
    data = Data(("from r", "questions"), [(2 * i / BINS - 1, n) for i, n in enumerate(counts)])
    return Figure(caption, histogram_chart(axes, counts, style), data, style)


def _scatter(model: RewrittenModel, scorer: ScorerView, question: str) -> Figure:
    """Draw the question of median r, a dot a query."""
    rewritten = model.questions[scorer.name, question]
    queries = [(query, query.sureness) for query in rewritten.queries if query.sureness is not None]
    least, most = (end([sure for _, sure in queries]) for end in (min, max))
    ceiling = round_height(max(query.leakage.upper for query, _ in queries))
    r = f"r = {number(rewritten.correlation)} ({scorer.name}), the question of median r"
    caption = f"{model.label}, {question}: {r}"
    axes = Axes(
        title=caption,
        description=(
            f"A dot for each of {len(queries)} queries; the dark one is the "
            f"question in its own words. Across: {model.criterion}; up: the upper bound on leakage."
        ),
        x_label=model.criterion,
        y_label=f"upper bound, {quantity(scorer)}",
        x_ticks=[
            (_inset(at), f"{least + at * (most - least):.1f}".replace("-", "−"))
            for at in (0, 0.5, 1)
        ],
        top=ceiling,
    )
    spots = [
        Spot(
            f"{query.id}: {clipped(query.text or 'withheld')} {interval(query.leakage)}",
            _inset((sure - least) / (most - least)),
            query.leakage.upper / ceiling,
            query.source == "original",
        )
        for query, sure in queries
    ]
    style = style_of(model.model)
    rows = [(query.id, sure, query.leakage.upper) for query, sure in queries]
    data = Data(("query", model.criterion, "upper"), rows)
    return Figure(caption, scatter_chart(axes, spots, style), data, style)


def _inset(share: float) -> float:
    """Off the edges of the chart, so that no dot or figure is cut."""
    return 0.04 + 0.92 * share
