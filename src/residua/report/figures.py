"""Which charts the page has: views in, SVG out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from residua.evaluation.bound import STANDARD_K
from residua.report.charts import (
    Axes,
    Mark,
    Series,
    curves_chart,
    histogram_chart,
    questions_chart,
    style_of,
)
from residua.report.grids import anchor, mean_leak_at_k
from residua.report.view import BINS, Bound, Measured, Model, ScorerView, View
from residua.report.words import cells_of, interval, percent, quantity
from residua.text.figures import number

_QUARTERS = tuple((step / 4, f"{step / 4:g}") for step in range(5))


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart under its caption; `style` is the model's, where it shows only one."""

    caption: str
    svg: Markup
    style: str = ""


def greedy_figures(view: View, scorer: ScorerView) -> list[Figure]:
    """A chart a model: every question's greedy score against the bounds on its leakage."""
    controls = {model.label: model for model in view.models}
    return [
        _greedy_figure(view, model, scorer, controls.get(model.control or ""), style_of(i))
        for i, model in enumerate(view.models)
    ]


def _greedy_figure(
    view: View, model: Model, scorer: ScorerView, control: Model | None, style: str
) -> Figure:
    marks = _marks(view, model, scorer, control)
    axes = Axes(
        title=f"{model.label}: greedy score against the distribution, {scorer.name}",
        description=(
            f"For each of {len(view.questions)} questions, sorted by {quantity(scorer)}, a bar "
            f"between the {percent(view.confidence)} bounds and a dot at the greedy answer's "
            "score. The table of every question holds the same figures."
        ),
        x_label=f"questions, sorted by {quantity(scorer)}",
        y_label=quantity(scorer),
        top=_scale(marks),
    )
    zoomed = f" (axis to {axes.top:g})" if axes.top < 1 else ""
    return Figure(f"{model.label}{zoomed}", questions_chart(axes, marks, style), style)


def _scale(marks: Sequence[Mark]) -> float:
    """The least round height that shows every bar and dot."""
    bounds = [b for mark in marks for b in (mark.bound, mark.control) if b is not None]
    highest = max([b.upper for b in bounds] + [mark.greedy or 0.0 for mark in marks], default=1.0)
    return next((top for top in (0.02, 0.04, 0.1, 0.2, 0.4) if highest <= top), 1.0)


def repeated_figure(view: View, scorer: ScorerView) -> Figure:
    """leak@k of every model, the mean over the questions of the unbiased estimates."""
    series = []
    for i, model in enumerate(view.models):
        cells = cells_of(view, model, scorer)
        means = {k: mean_leak_at_k(cells, k) for k in _common_k(cells)}
        bounds = {k: Bound(value, value, value) for k, value in means.items() if value is not None}
        series.append(Series(model.label, style_of(i), _over_k(bounds)))
    caption = f"leak@k, mean over the questions ({scorer.name})"
    return Figure(caption, curves_chart(_k_axes(caption), series))


def worst_tail_figure(view: View, scorer: ScorerView) -> Figure:
    """Pr[X > x] of every model at the question where its own mean score is largest."""
    series = []
    for i, model in enumerate(view.models):
        cells = cells_of(view, model, scorer)
        worst = max(cells, key=lambda cell: cell.leakage.value or 0, default=None)
        points = sorted(worst.tail.items()) if worst else []
        series.append(Series(model.label, style_of(i), points))
    caption = f"Pr[X > x] at each model's own worst question ({scorer.name})"
    return Figure(caption, curves_chart(_tail_axes(caption), series))


def question_figures(view: View, number_: int) -> list[Figure]:
    """What the distributions of one question look like, under every scorer."""
    question = view.questions[number_ - 1].id
    found: list[Figure] = []
    for scorer in view.scorers:
        cells = {
            i: model.measured[scorer.name, question]
            for i, model in enumerate(view.models)
            if (scorer.name, question) in model.measured
        }
        if not cells:
            continue
        caption = f"leak@k ({scorer.name})"
        repeated = _series(view, cells, lambda cell: _over_k(cell.leak_at_k))
        found.append(Figure(caption, curves_chart(_k_axes(caption), repeated)))
        if not scorer.binary:
            caption = f"Pr[X > x] ({scorer.name})"
            tails = _series(view, cells, lambda cell: sorted(cell.tail.items()))
            found.append(Figure(caption, curves_chart(_tail_axes(caption), tails)))
            found += [
                _histogram(view.models[i].label, cell, scorer, style_of(i))
                for i, cell in cells.items()
            ]
    return found


def _marks(view: View, model: Model, scorer: ScorerView, control: Model | None) -> list[Mark]:
    marks = []
    for number_, question in enumerate(view.questions, 1):
        key = (scorer.name, question.id)
        cell = model.measured.get(key)
        if cell is None:
            continue
        beside = control.measured.get(key) if control else None
        title = (
            f"{question.id}: {question.text} {quantity(scorer)} {interval(cell.leakage)}, "
            f"greedy {number(cell.greedy)}"
        )
        marks.append(
            Mark(
                anchor(number_),
                title + (f", control {interval(beside.leakage)}" if beside else ""),
                cell.leakage,
                cell.greedy,
                beside.leakage if beside else None,
            )
        )
    return sorted(marks, key=lambda mark: mark.bound.value or 0)


def _histogram(label: str, cell: Measured, scorer: ScorerView, style: str) -> Figure:
    drawn = max(sum(cell.histogram), 1)
    shares = [count / drawn for count in cell.histogram]
    top = max(math.ceil(5 * max(shares, default=0)) / 5, 0.2)  # quarters of it read well
    caption = f"{label}: sampled scores, greedy dashed ({scorer.name})"
    axes = Axes(
        title=caption,
        description=(
            f"Share of {drawn:,} scored draws in {BINS} bins of the score; the greedy answer "
            f"scores {number(cell.greedy)}."
        ),
        x_label="score",
        y_label="share of draws",
        x_ticks=_QUARTERS,
        top=top,
    )
    return Figure(caption, histogram_chart(axes, shares, cell.greedy, style), style)


def _series(
    view: View,
    cells: Mapping[int, Measured],
    points: Callable[[Measured], list[tuple[float, Bound]]],
) -> list[Series]:
    return [Series(view.models[i].label, style_of(i), points(cell)) for i, cell in cells.items()]


def _over_k(bounds: Mapping[int, Bound]) -> list[tuple[float, Bound]]:
    return [(_place(k), bound) for k, bound in sorted(bounds.items())]


def _place(k: int) -> float:
    return math.log2(k) / math.log2(STANDARD_K[-1])


def _common_k(cells: Iterable[Measured]) -> list[int]:
    sets = [set(cell.leak_at_k) for cell in cells]
    return sorted(set.intersection(*sets)) if sets else []


def _k_axes(title: str) -> Axes:
    return Axes(
        title=title,
        description="The expected largest score of k draws, k on a logarithmic scale.",
        x_label="k draws",
        y_label="leak@k",
        x_ticks=[(_place(k), str(k)) for k in STANDARD_K],
    )


def _tail_axes(title: str) -> Axes:
    return Axes(
        title=title,
        description="The probability of a score above x, with simultaneous bounds.",
        x_label="x",
        y_label="Pr[X > x]",
        x_ticks=_QUARTERS,
    )
