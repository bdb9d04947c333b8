"""Charts that compare models: moments, spread, utility."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from leakbound.evaluation.views.view import Measured, Model
from leakbound.evaluation.views.words import known, mean_of
from leakbound.plotting.material import (
    DEVIATION,
    MEAN,
    WORST,
    Chart,
    LackingError,
    Material,
    Row,
    by,
    stated,
)
from leakbound.plotting.style import BLACK
from leakbound.stats.about import Quantity
from leakbound.store import EstimateRow

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

UTILITIES = {
    "model_utility": "model utility",
    "r_avg": "mean ROUGE-L recall beyond the forget set",
    "retain_rouge_l_recall": "ROUGE-L recall on the retain set",
    "retain_probability": "probability of the retain answers",
}
FRONT = "front of the targets"
_LANE, _WIDE_LANE = 0.28, 0.42  # inches that a model has at least
_ED: Quantity = "expectation deviation"
_MARKS: Mapping[str, tuple[str, float]] = {"greedy": ("o", -0.24), "ED": ("D", 0.24)}
"""The mark of a moment, and how far from the middle of its lane it is drawn."""


def moment_rows(material: Material) -> list[Row]:
    """Return greedy score, mean and ED of every model, on average and at the worst question.

    The worst question's ED is at most the largest upper bound of any question.
    """
    rows: list[Row] = []
    for model in material.view.models:
        if cells := model.cells(material.scorer):
            rows += _over_mean(material, model, cells) + _over_worst(material, model, cells)
    return rows if any(row.quantity != "greedy" for row in rows) else []


def _over_mean(material: Material, model: Model, cells: Sequence[Measured]) -> list[Row]:
    greedy = [cell.greedy for cell in cells if cell.greedy is not None]
    rows = []
    if len(greedy) == len(cells):
        rows.append(Row(model.label, "greedy", sum(greedy) / len(greedy), group=MEAN))
    if mean := model.rows.leakage(material.scorer.name, scope="mean"):
        rows.append(Row(model.label, material.quantity, *stated(mean), group=MEAN))
    if row := model.rows.of(material.scorer.name).first(quantity=_ED, scope="mean"):
        own = Row(model.label, "ED", row.value, None, row.upper, row.confidence, group=MEAN)
        rows.append(own)
    elif (value := mean_of(_each(cells, _ED))) is not None:
        rows.append(Row(model.label, "ED", value, group=MEAN))
    return rows


def _over_worst(material: Material, model: Model, cells: Sequence[Measured]) -> list[Row]:
    greedy = [cell.greedy for cell in cells if cell.greedy is not None]
    rows = []
    if greedy:
        rows.append(Row(model.label, "greedy", max(greedy), group=WORST))
    if worst := model.rows.leakage(material.scorer.name, scope="worst question"):
        rows.append(Row(model.label, material.quantity, *stated(worst), group=WORST))
    spread = [row for row in _each(cells, _ED) if row is not None]
    if values := known(spread):
        upper, sure = max(row.upper for row in spread), spread[0].confidence
        rows.append(Row(model.label, "ED", max(values), None, upper, sure, group=WORST))
    return rows


def draw_moments(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a lane per model: greedy hollow, the mean with its bounds, ED with its upper bound."""
    models, overs = list(by(rows, "model")), by(rows, "group")
    overs = {over: overs[over] for over in (MEAN, WORST) if over in overs}
    panels = canvas.lanes(models, len(overs), _LANE)
    for axes, (over, mine) in zip(panels, overs.items(), strict=True):
        for row in mine:
            mark, aside = _MARKS.get(row.quantity, ("o", 0.0))
            at, colour = models.index(row.model) + aside, canvas.series[row.model].colour
            if row.value is not None and row.quantity == "greedy":
                canvas.hollow(axes, row.model, [row.value], [at])
            elif row.value is not None:
                canvas.bars(axes, [at], [row], caps=True, across=True, color=colour, linewidth=0.9)
                axes.plot([row.value], [at], mark, color=colour, markersize=3)
        axes.set_xlabel(canvas.folded(f"score, {over}", 0.25 * canvas.width))
    top = max(axes.dataLim.x1 for axes in panels) or 1.0
    panels[0].set_xlim(-0.02 * top, 1.04 * top)
    quantity = next(row.quantity for row in rows if row.quantity not in _MARKS)
    canvas.tell_hollow()
    canvas.tell(quantity, color=BLACK, marker="o", linestyle="none", markersize=3)
    canvas.tell_bounds(rows, color=BLACK)
    canvas.tell("mean + 2 sd (ED)", color=BLACK, marker="D", linestyle="none", markersize=3)


def spread_rows(material: Material) -> Iterator[Row]:
    """Yield the deviation of every question by model, in rising order."""
    for model in material.view.models:
        rows = []
        for question in material.view.questions:
            cell = model.at(question.id, material.scorer)
            if cell and (row := cell.rows.first(quantity=DEVIATION)):
                rows.append(Row(model.label, DEVIATION, *stated(row), question=question.id))
        yield from sorted(rows, key=lambda row: (row.value or 0.0, row.upper))


def draw_spread(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a lane per model: its questions in rising order with bounds, their mean as a line."""
    models = by(rows, "model")
    (axes,) = canvas.lanes(list(models), 1, _WIDE_LANE)
    for place, (model, mine) in enumerate(models.items()):
        step = 0.8 / len(mine)
        y = [place + 0.4 - (i + 0.5) * step for i in range(len(mine))]
        pen = canvas.series[model]
        wide = min(1.4, 0.5 * 72 * _WIDE_LANE * step)
        canvas.bars(axes, y, mine, across=True, color=pen.colour, alpha=0.35, linewidth=wide)
        known_ = [(row.value, at) for row, at in zip(mine, y, strict=True) if row.value is not None]
        size = 2.6 if len(mine) <= 40 else 1.4
        if known_:
            axes.plot(*zip(*known_, strict=True), linestyle="none", marker=pen.mark, zorder=2,
                      color=pen.colour, markersize=size, clip_on=False)  # fmt: skip
            mean = sum(value for value, _ in known_) / len(known_)
            axes.plot([mean, mean], [place - 0.45, place + 0.45], color=BLACK, linewidth=0.9)
    canvas.tell("one question", color=BLACK, marker="o", linestyle="none", markersize=2.6)
    canvas.tell_bounds(rows, color=BLACK, alpha=0.35)
    canvas.tell(MEAN, color=BLACK, linewidth=0.9)
    axes.set_xlim(0, 1.04 * axes.dataLim.x1 or 1.0)
    axes.set_xlabel("standard deviation of the score")


def utility_rows(material: Material) -> list[Row]:
    """Return leakage and utility of every model whose utility was measured by the same metric."""
    by_model = {model.label: material.metrics(model) for model in material.view.models}
    measured = {label: metrics for label, metrics in by_model.items() if metrics}
    metric = _metric_of(list(measured.values()))
    rows, controls = [], set()
    for model in material.view.models:
        mean = model.rows.leakage(material.scorer.name, scope="mean")
        if metric and model.label in measured and mean is not None:
            at = measured[model.label][metric]
            rows.append(Row(model.label, material.quantity, *stated(mean), group=metric, x=at))
            controls |= {model.label} if model.is_control else set()
    if len(rows) == 1:
        raise LackingError("the utility of only one model was measured")
    return [*rows, *front_of([row for row in rows if row.model not in controls])]


def _metric_of(measured: Sequence[Mapping[str, float]]) -> str:
    """Return the first metric that all models have, preferably one in which they differ."""
    common = [metric for metric in UTILITIES if measured and all(metric in m for m in measured)]
    telling = [metric for metric in common if len({m[metric] for m in measured}) > 1]
    return next(iter(telling or common), "")


def front_of(rows: Sequence[Row]) -> list[Row]:
    """Return the points of the targets that no other target beats, by the estimates."""
    points = {(row.x or 0.0, row.value) for row in rows if row.value is not None}

    def beaten(utility: float, value: float) -> bool:
        return any(u >= utility and v <= value and (u, v) != (utility, value) for u, v in points)

    return [
        Row(row.model, FRONT, row.value, group=row.group, x=row.x)
        for row in sorted(rows, key=lambda row: (row.x or 0.0, row.value or 0.0))
        if row.value is not None and not beaten(row.x or 0.0, row.value)
    ]


def draw_utility(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a point per model with its bounds; the front of the targets dotted."""
    (axes,) = canvas.panels()
    front = [(row.x, row.value) for row in rows if row.quantity == FRONT]
    points = [row for row in rows if row.quantity != FRONT and row.value is not None]
    for row in points:
        pen, at = canvas.series[row.model], [row.x or 0.0]
        canvas.bars(axes, at, [row], caps=True, color=pen.colour, linewidth=0.7, zorder=2)
        how = {"linestyle": "none", "marker": pen.mark, "color": pen.colour, "markersize": 4.5}
        axes.plot(at, [row.value], zorder=3, **how)
        canvas.tell(row.model, **how)
    if len(front) > 1:
        dotted = {"color": BLACK, "linewidth": 0.7, "linestyle": (0, (1, 1.5))}
        axes.step(*zip(*front, strict=True), where="pre", zorder=1, **dotted)
        canvas.tell(FRONT, **dotted)
    canvas.tell_bounds(points, color=BLACK, linewidth=0.7, marker="_", markeredgewidth=0.7)
    canvas.rise(axes)
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(UTILITIES[rows[0].group])
    axes.set_ylabel(f"{rows[0].quantity},\nmean over the questions")


def _each(cells: Sequence[Measured], quantity: Quantity) -> list[EstimateRow | None]:
    return [cell.rows.first(quantity=quantity) for cell in cells]


_BOUNDED = "value lower upper confidence"
KINDS = (
    Chart(
        "moments",
        "greedy, mean and mean + 2 sd (ED) by model: mean over the questions, and the worst",
        "Scholten et al. Table 1",
        "a run in which every question was sampled",
        f"model over=group quantity {_BOUNDED}",
        moment_rows,
        draw_moments,
        "no model was sampled on every question",
    ),
    Chart(
        "spread",
        "standard deviation of every question's scores by model, with bounds",
        "Scholten et al. Fig. 4a",
        "a run of fixed n",
        f"model question {_BOUNDED}",
        spread_rows,
        draw_spread,
        "no standard deviation was bounded: n was not fixed",
    ),
    Chart(
        "utility",
        "mean leakage against utility, a point per model, with bounds",
        "Scholten et al. Fig. 5c",
        "runs of several models with --metrics",
        f"model metric=group utility=x quantity {_BOUNDED}",
        utility_rows,
        draw_utility,
        "no utility was measured of all (evaluate with --metrics all)",
    ),
)
