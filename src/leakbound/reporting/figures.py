"""Which charts the page has: views in, SVG out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from leakbound.evaluation.statements.rows import STANDARD_K
from leakbound.evaluation.views.draws import KnownAtK, known_of_mean, known_of_worst
from leakbound.evaluation.views.grids import anchor, question_at
from leakbound.evaluation.views.table import Bound, Interval, interval
from leakbound.evaluation.views.view import DecodingGrid, Measured, Model, ScorerView, View
from leakbound.evaluation.views.words import COMPUTED, MOST_NAME, clipped, means_by, quantity
from leakbound.reporting.charts import (
    Axes,
    Frame,
    Lane,
    Mark,
    Series,
    curves_chart,
    heat_chart,
    known_chart,
    lanes_chart,
    style_of,
)
from leakbound.stats import percent
from leakbound.text.shown import many, number

_DECADES = tuple(10**i for i in range(7))
STANDARD, WIDE = Frame(), Frame(760, 330)
PANELS = (Frame(760, 240), Frame(400, 240))  # side by side: of all models, and of the low ones
APART = 10  # times lower than the highest is what an axis hides
SMALL, LARGE = 6.5, 11.0  # widths of a letter, the second where a page is narrow
ROUND = (40, 60, 80, 100, 120, 160, 200, 240, 320)
_QUARTERS = tuple((step / 4, f"{step / 4:g}") for step in range(5))


@dataclass(frozen=True, slots=True)
class Data:
    """The data that a chart is drawn from, as they are saved: rows in the units of the axes."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str | float | None, ...]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart under its caption, and its data; `style` is the model's, where it shows only one."""

    caption: str
    svg: Markup
    data: Data
    style: str = ""


ENDS = ("estimate", "lower", "upper")


def ends(bound: Bound | None) -> tuple[float | None, ...]:
    """An estimate with its ends, as data has them."""
    return (None,) * len(ENDS) if bound is None else (bound.value, bound.lower, bound.upper)


def first_figures(view: View, scorer: ScorerView, frame: Frame | None = None) -> list[Figure]:
    """Every question's greedy score against the bounds on its leakage, of the page's models.

    All of them on one axis; those that it hides, `APART` times lower than the highest, once more
    on an axis of their own. `frame`: of each chart (None: as a page has room).
    """
    panels, rest = [], [lane_of(view, model, scorer) for model in view.targets]
    alone = len(rest) == 1
    while rest:
        panels.append(rest)
        hidden = max(map(highest, rest)) / APART
        rest = [lane for lane in rest if highest(lane) < hidden]
    return [
        questions_figure(view, scorer, lanes, frame or (WIDE if alone else PANELS[i % 2]), i > 0)
        for i, lanes in enumerate(panels)
    ]


def questions_figure(
    view: View, scorer: ScorerView, lanes: Sequence[Lane], frame: Frame, again: bool = False
) -> Figure:
    """A chart of these lanes on one axis; `again`: on another axis they are shown before."""
    names = ", ".join(lane.label for lane in lanes)
    axes = Axes(
        title=f"{names}: greedy score against the distribution, {scorer.name}",
        description=(
            f"For each of {many(len(view.questions), 'question')}, sorted by "
            f"{quantity(scorer)}, a bar between the {percent(view.confidence)} bounds and a dot at "
            "the greedy answer's score. The table of every question holds the same figures."
        ),
        x_label=f"questions, sorted by {quantity(scorer)}",
        y_label=quantity(scorer),
        top=round_height(max(map(highest, lanes))),
        frame=frame,
    )
    rows = [
        (
            lane.label,
            question_at(view, mark.anchor).id,
            mark.greedy,
            *ends(mark.bound),
            *ends(mark.control)[1:],
        )
        for lane in lanes
        for mark in lane.marks
    ]
    data = Data(("model", "question", "greedy", *ENDS, "control lower", "control upper"), rows)
    axis = f"own axis, to {axes.top:g}" if again else f"axis to {axes.top:g}"
    named = names if len(lanes) == 1 else f"{len(lanes)} models" if again else "every model"
    style = lanes[0].style if len(lanes) == 1 else ""
    return Figure(f"{named}: {axis}", lanes_chart(axes, _ticked(view, lanes, frame)), data, style)


def _ticked(view: View, lanes: Sequence[Lane], frame: Frame) -> list[Lane]:
    """The lanes under their names, or under their numbers on the page where names do not fit."""
    room = frame.across / len(lanes) / (SMALL if frame.width < WIDE.width else LARGE)
    if all(len(lane.label) <= room for lane in lanes):
        return list(lanes)
    labels = [model.label for model in view.targets]
    return [replace(lane, label=str(labels.index(lane.label) + 1)) for lane in lanes]


def highest(lane: Lane) -> float:
    """The height that the axis of a lane has to reach."""
    bounds = [b for mark in lane.marks for b in (mark.bound, mark.control) if b is not None]
    return max([b.upper for b in bounds] + [mark.greedy or 0.0 for mark in lane.marks], default=0.0)


def round_height(reached: float) -> float:
    """The least round height of an axis that reaches this; quarters of it have two digits."""
    heights = (step * 10.0**power for power in (-4, -3, -2) for step in ROUND)
    return next((round(top, 6) for top in heights if reached <= top), 1.0)


def rising(marks: Sequence[Mark]) -> list[Mark]:
    """From the least leakage to the most; of the greedy scores, where they are all there is."""
    return sorted(marks, key=lambda mark: (mark.bound.value if mark.bound else mark.greedy) or 0.0)


def grid_figures(view: View, scorer: ScorerView) -> list[Figure]:
    """Heat maps of every grid of decodings: the mean leakage, and leak@k where it is bounded."""
    grids = [(label, grid) for label, grid in view.grids if grid.scorer == scorer.name]
    figures = []
    for i, (label, grid) in enumerate(grids):
        name = "leak probability" if scorer.binary else "score"
        caption = f"{label}: {name}, mean over the questions ({scorer.name})"
        figures.append(_heat_figure(grid, grid.leakage, caption, style_of(i)))
        if grid.k:
            caption = f"{label}: leak@{grid.k}, mean over the questions ({scorer.name})"
            figures.append(_heat_figure(grid, grid.leak_at_k, caption, style_of(i)))
    return figures


def _heat_figure(
    grid: DecodingGrid, cells: Mapping[tuple[float, float], Bound], caption: str, style: str
) -> Figure:
    axes = Axes(
        title=caption,
        description=(
            f"A cell for each of {len(grid.temperatures)} temperatures and {len(grid.top_ps)} "
            f"top-p with its estimate and its bounds, which hold at {percent(grid.confidence)} for "
            "all cells at once. The table of every decoding holds the same figures."
        ),
        x_label="top-p",
        y_label="temperature",
        x_ticks=[(i / len(grid.top_ps), f"{p:g}") for i, p in enumerate(grid.top_ps)],
    )
    rows = [[cells[t, p] for p in grid.top_ps] for t in grid.temperatures]
    svg = heat_chart(axes, [f"{t:g}" for t in grid.temperatures], rows, style)
    data = Data(("temperature", "top-p", *ENDS), [(*at, *ends(cells[at])) for at in cells])
    return Figure(caption, svg, data, style)


def repeated_figures(view: View, scorer: ScorerView) -> list[Figure]:
    """leak@k and Pr[X > x] of every model: on average, and at its own worst question."""
    worst = {
        i: max(cells, key=lambda cell: cell.leakage.value or 0)
        for i, model in enumerate(view.models)
        if (cells := model.cells(scorer))
    }
    caption = f"leak@k, mean over the questions ({scorer.name})"
    return [
        *_k_figure(caption, _mean_curves(view, scorer), view, bounded=False),
        *_curves(f" at each model's own worst question ({scorer.name})", view, worst),
    ]


def _curves(where: str, view: View, cells: Mapping[int, Measured]) -> Iterator[Figure]:
    """leak@k and Pr[X > x] of one question for each model's index, as far as they are known."""
    bounded = {
        i: (cell.by_parameter("leak@k"), means_by([cell], "worst of k"))
        for i, cell in cells.items()
    }
    yield from _k_figure(f"leak@k{where}", bounded, view)
    yield from _tail_figure(f"Pr[X > x]{where}", view, cells)


def lane_of(view: View, model: Model, scorer: ScorerView) -> Lane:
    """The mark of each question of a model, its control's behind, from the least leakage up."""
    control, marks = view.control_of(model), []
    for number_, question in enumerate(view.questions, 1):
        cell = model.at(question.id, scorer)
        if cell is None:
            continue
        beside = control.at(question.id, scorer) if control else None
        name = clipped(question.id, MOST_NAME)
        title = f"{name}: {interval(cell.leakage)}, greedy {number(cell.greedy)}"
        mark = Mark(anchor(number_), title, cell.leakage, cell.greedy)
        if beside:
            title = f"{title}, control {interval(beside.leakage)}"
            mark = replace(mark, title=title, control=beside.leakage)
        marks.append(mark)
    return Lane(model.label, rising(marks), style=style_of(view.models.index(model)))


Curve = tuple[Mapping[float, Bound], Mapping[float, float]]
"""leak@k of a model: bounds by k, and the naive estimates."""


def _mean_curves(view: View, scorer: ScorerView) -> dict[int, Curve]:
    """The means over the questions of the estimates, by the index of the model."""
    curves: dict[int, Curve] = {}
    for i, model in enumerate(view.models):
        cells = model.cells(scorer)
        bounds = {k: Interval(mean, mean, mean) for k, mean in means_by(cells, "leak@k").items()}
        curves[i] = (bounds, means_by(cells, "worst of k"))
    return curves


def _k_figure(
    caption: str, curves: Mapping[int, Curve], view: View, bounded: bool = True
) -> Iterator[Figure]:
    """Curves over k as far as any goes, k on a logarithmic scale, by the index of the model.

    `bounded`: whether their ends are bounds, or the estimate itself.
    """
    top = max((k for bounds, _ in curves.values() for k in bounds), default=0)
    if top < 2:
        return

    def place(k: float) -> float:
        return math.log(k) / math.log(top)

    series = [
        Series(
            view.models[i].label,
            style_of(i),
            [(place(k), bound) for k, bound in sorted(bounds.items())],
            [(place(k), value) for k, value in naive.items()],
        )
        for i, (bounds, naive) in curves.items()
    ]
    ticks = STANDARD_K if top <= STANDARD_K[-1] else _DECADES
    band = "the band its bounds for all k at once, " if bounded else ""
    axes = Axes(
        title=caption,
        description=(
            "The expected largest score of k draws, k on a logarithmic scale: the line is the "
            f"estimate where there is one, {band}a circle the naive mean of the worst of k."
        ),
        x_label="k draws",
        y_label="leak@k",
        x_ticks=[(place(k), short(k)) for k in ticks if k <= top],
    )
    shown = ENDS if bounded else ENDS[:1]
    rows = [
        (view.models[i].label, k, *ends(bounds.get(k))[: len(shown)], naive.get(k))
        for i, (bounds, naive) in curves.items()
        for k in sorted({*bounds, *naive})
    ]
    data = Data(("model", "k", *shown, "worst of k"), rows)
    yield Figure(caption, curves_chart(axes, series), data)


def _tail_figure(caption: str, view: View, cells: Mapping[int, Measured]) -> Iterator[Figure]:
    """Pr[X > x] of one question for each model's index; nothing without one."""
    series = [
        Series(view.models[i].label, style_of(i), sorted(tail.items()))
        for i, cell in cells.items()
        if (tail := cell.by_parameter("tail"))
    ]
    axes = Axes(
        title=caption,
        description="The probability of a score above x, with simultaneous bounds.",
        x_label="x",
        y_label="Pr[X > x]",
        x_ticks=_QUARTERS,
    )
    rows = [
        (view.models[i].label, x, *ends(bound))
        for i, cell in cells.items()
        for x, bound in sorted(cell.by_parameter("tail").items())
    ]
    if series:
        yield Figure(caption, curves_chart(axes, series), Data(("model", "x", *ENDS), rows))


def short(k: int) -> str:
    """1k for a thousand, 1M for a million, 1G for a thousand of these."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if k >= size:
            return f"{k // size}{letter}"
    return str(k)


_TICKS = (1, 10**3, 10**6, 10**9)


def far_figures(view: View, scorer: ScorerView) -> list[Figure]:
    """Two charts a target: leak@k of its worst question, and on average over the questions.

    None for scores between 0 and 1.
    """
    figures = []
    for model in view.targets:
        style = style_of(view.models.index(model))
        for known_of, whose in (
            (known_of_worst, "its worst question"),
            (known_of_mean, "the mean over its questions"),
        ):
            if points := known_of(model, scorer):
                caption = f"{model.label}, {whose} ({scorer.name})"
                figures.append(_known_figure(caption, points, view.confidence, style))
    return figures


def _known_figure(caption: str, points: list[KnownAtK], confidence: float, style: str) -> Figure:
    top = points[-1].k

    def place(k: int) -> float:
        return math.log(k) / math.log(top)

    least, most, proved = (
        [(place(at.k), getattr(at, end)) for at in points] for end in ("lower", "upper", "proved")
    )
    sure = percent(confidence)
    axes = Axes(
        title=f"Asked up to 10⁹ times: {caption}",
        description=(
            "The probability of a leak among k answers, k on a logarithmic scale. Solid line: no "
            f"less than this at {sure}. Shaded above it: not known, up to no more than this at "
            f"{sure}. Dashed: proved, {COMPUTED}."
        ),
        x_label="k answers",
        y_label="leak@k",
        x_ticks=[(place(k), short(k)) for k in _TICKS],
    )
    rows = [(at.k, at.proved, at.lower, at.upper) for at in points]
    data = Data(("k", "proved", "at least", "at most"), rows)
    return Figure(caption, known_chart(axes, proved, least, most, style), data, style)
