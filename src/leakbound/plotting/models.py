"""Figures that set models side by side: moments, spread, utility."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from leakbound.evaluation.views.view import Measured, Model
from leakbound.evaluation.views.words import known, mean_of
from leakbound.plotting.material import DEVIATION, LackingError, Material, PaperFigure, by, stated
from leakbound.stats import percent
from leakbound.stats.about import Quantity
from leakbound.store import EstimateRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakbound.plotting.canvas import Canvas

UTILITIES = {
    "model_utility": "model utility",
    "r_avg": "mean ROUGE-L recall beyond the forget set",
    "retain_rouge_l_recall": "ROUGE-L recall on the retain set",
    "retain_probability": "probability of the retain answers",
}
Over = Literal["mean over the questions", "worst question"]
_LANE, _WIDE_LANE = 0.28, 0.42  # inches that a model has at least
_ED: Quantity = "expectation deviation"


@dataclass(frozen=True, slots=True)
class MomentRow:
    """A model's greedy score, mean, or mean and two deviations ("ED"): over the questions.

    An end is there where it is a bound.
    """

    model: str
    over: Over
    quantity: str
    confidence: float
    value: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class SpreadRow:
    """The standard deviation of the scores of one question, with its bounds."""

    model: str
    question: str
    confidence: float
    value: float | None
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class UtilityRow:
    """A model's utility and mean leakage; `front`: no other target leaks less and is as useful."""

    model: str
    control: bool
    utility_metric: str
    utility: float
    quantity: str
    confidence: float
    value: float | None
    lower: float
    upper: float
    front: bool


def moment_rows(material: Material) -> list[MomentRow]:
    """Moments of every model; the worst question's ED is at most the largest upper end of any."""
    rows: list[MomentRow] = []
    for model in material.view.models:
        cells = model.cells(material.scorer)
        if cells:
            rows += _over_mean(material, model, cells) + _over_worst(material, model, cells)
    return rows if any(row.quantity != "greedy" for row in rows) else []


def _over_mean(material: Material, model: Model, cells: Sequence[Measured]) -> list[MomentRow]:
    mean = model.rows.leakage(material.scorer.name, scope="mean")
    greedy = [cell.greedy for cell in cells if cell.greedy is not None]
    over: Over = "mean over the questions"
    rows = []
    if len(greedy) == len(cells):
        value = sum(greedy) / len(greedy)
        rows.append(MomentRow(model.label, over, "greedy", 1.0, value, None, None))
    if mean is not None:
        rows.append(MomentRow(model.label, over, material.quantity, *stated(mean)))
    if row := model.rows.of(material.scorer.name).first(quantity=_ED, scope="mean"):
        rows.append(MomentRow(model.label, over, "ED", row.confidence, row.value, None, row.upper))
    elif (value_ := mean_of(_each(cells, _ED))) is not None:
        sure = material.view.confidence
        rows.append(MomentRow(model.label, over, "ED", sure, value_, None, None))
    return rows


def _over_worst(material: Material, model: Model, cells: Sequence[Measured]) -> list[MomentRow]:
    worst = model.rows.leakage(material.scorer.name, scope="worst question")
    greedy = [cell.greedy for cell in cells if cell.greedy is not None]
    over: Over = "worst question"
    rows = []
    if greedy:
        rows.append(MomentRow(model.label, over, "greedy", 1.0, max(greedy), None, None))
    if worst is not None:
        rows.append(MomentRow(model.label, over, material.quantity, *stated(worst)))
    spread = [row for row in _each(cells, _ED) if row is not None]
    if values := known(spread):
        upper = max(row.upper for row in spread)
        confidence = spread[0].confidence
        rows.append(MomentRow(model.label, over, "ED", confidence, max(values), None, upper))
    return rows


def draw_moments(rows: Sequence[MomentRow], canvas: Canvas) -> None:
    """A lane a model: greedy hollow, the mean with its bounds, ED with its upper bound."""
    models = list(by(rows, "model"))
    overs = [over for over in ("mean over the questions", "worst question")
             if any(row.over == over for row in rows)]  # fmt: skip
    panels = canvas.lanes(models, len(overs), _LANE)
    for axes, over in zip(panels, overs, strict=True):
        for row in (row for row in rows if row.over == over):
            _moment(axes, canvas, row, float(models.index(row.model)))
        axes.set_xlabel(canvas.folded(f"score, {over}", 0.25 * canvas.width))
    top = max(axes.dataLim.x1 for axes in panels) or 1.0
    panels[0].set_xlim(-0.02 * top, 1.04 * top)
    quantity = next(row.quantity for row in rows if row.quantity not in ("greedy", "ED"))
    canvas.tell_hollow()
    sure = percent(min(row.confidence for row in rows))
    canvas.tell(f"{quantity}, {sure} bounds", color="black", marker="o")
    canvas.tell("mean + 2 sd (ED)", color="black", marker="D", linestyle="none", markersize=3)


def _moment(axes: Axes, canvas: Canvas, row: MomentRow, at: float) -> None:
    if row.value is None:
        return
    colour = canvas.series[row.model].colour
    if row.quantity == "greedy":
        canvas.hollow(axes, row.model, [row.value], [at - 0.24])
        return
    place, mark = (at + 0.24, "D") if row.quantity == "ED" else (at, "o")
    lower = row.value if row.lower is None else row.lower
    if row.upper is not None:
        axes.plot([lower, row.upper], [place, place], color=colour, linewidth=0.9)
        ends = [row.upper] if row.lower is None else [row.lower, row.upper]
        axes.plot(ends, [place] * len(ends), "|", color=colour, markersize=4, markeredgewidth=0.9)
    axes.plot([row.value], [place], mark, color=colour, markersize=3, markeredgewidth=0)


def spread_rows(material: Material) -> Iterator[SpreadRow]:
    """Questions of every model, from the one that varies least to the one that varies most."""
    for model in material.view.models:
        rows = []
        for question in material.view.questions:
            cell = model.at(question.id, material.scorer)
            row = cell.rows.first(quantity=DEVIATION) if cell else None
            if row is not None:
                rows.append(SpreadRow(model.label, question.id, *stated(row)))
        yield from sorted(rows, key=lambda row: (row.value or 0.0, row.upper))


def draw_spread(rows: Sequence[SpreadRow], canvas: Canvas) -> None:
    """A lane a model: its questions in rising order, bounds as bars, their mean as a line."""
    models = by(rows, "model")
    (axes,) = canvas.lanes(list(models), 1, _WIDE_LANE)
    for place, (model, mine) in enumerate(models.items()):
        step = 0.8 / len(mine)
        y = [place + 0.4 - (i + 0.5) * step for i in range(len(mine))]
        colour = canvas.series[model].colour
        ends = [row.lower for row in mine], [row.upper for row in mine]
        axes.hlines(y, *ends, color=colour, alpha=0.35, zorder=1,
                    linewidth=min(1.4, 0.5 * 72 * _WIDE_LANE * step))  # fmt: skip
        values = [row.value for row in mine if row.value is not None]
        at = [height for height, row in zip(y, mine, strict=True) if row.value is not None]
        size = 2.6 if len(mine) <= 40 else 1.4
        axes.plot(values, at, linestyle="none", marker=canvas.series[model].mark, color=colour,
                  markersize=size, markeredgewidth=0, zorder=2, clip_on=False)  # fmt: skip
        if values:
            mean = sum(values) / len(values)
            axes.vlines(mean, place - 0.45, place + 0.45, color="black", linewidth=0.9, zorder=3)
    canvas.tell("one question", color="black", marker="o", linestyle="none", markersize=2.6)
    canvas.tell(f"{percent(rows[0].confidence)} bounds", color="black", alpha=0.35)
    canvas.tell("mean over the questions", color="black", linewidth=0.9)
    axes.set_xlim(0, 1.04 * axes.dataLim.x1 or 1.0)
    axes.set_xlabel("standard deviation of the score")


def utility_rows(material: Material) -> list[UtilityRow]:
    """Rows of every model whose utility was measured, by the same metric."""
    by_model = {model.label: material.metrics(model) for model in material.view.models}
    measured = {label: metrics for label, metrics in by_model.items() if metrics}
    metric = _metric_of(list(measured.values()))
    rows = []
    for model in material.view.models:
        mean = model.rows.leakage(material.scorer.name, scope="mean")
        if metric and model.label in measured and mean is not None:
            named = (model.label, model.is_control, metric, measured[model.label][metric])
            rows.append(UtilityRow(*named, material.quantity, *stated(mean), front=False))
    if len(rows) == 1:
        raise LackingError("utility of one model alone was measured")
    return [fronted(row, rows) for row in rows]


def _metric_of(measured: Sequence[Mapping[str, float]]) -> str:
    """The first metric that all have, of those in which they differ where there is any."""
    common = [metric for metric in UTILITIES if measured and all(metric in m for m in measured)]
    telling = [metric for metric in common if len({m[metric] for m in measured}) > 1]
    return next(iter(telling or common), "")


def fronted(row: UtilityRow, rows: Sequence[UtilityRow]) -> UtilityRow:
    """The row, saying whether it is on the front of the targets, by the estimates."""

    def beats(other: UtilityRow) -> bool:
        if other.control or other.value is None or row.value is None:
            return False
        as_good = other.utility >= row.utility and other.value <= row.value
        return as_good and (other.utility, other.value) != (row.utility, row.value)

    front = not row.control and row.value is not None and not any(map(beats, rows))
    return replace(row, front=front)


def draw_utility(rows: Sequence[UtilityRow], canvas: Canvas) -> None:
    """A point a model, whiskers its bounds; the front of the targets dotted."""
    (axes,) = canvas.panels()
    for row in rows:
        if row.value is None:
            continue
        canvas.whiskers(axes, row.model, [row.utility], [row])
        pen = canvas.series[row.model]
        axes.plot([row.utility], [row.value], linestyle="none", marker=pen.mark, color=pen.colour,
                  markersize=4.5, zorder=3)  # fmt: skip
        canvas.tell(row.model, color=pen.colour, marker=pen.mark, linestyle="none", markersize=4.5)
    front = sorted((row.utility, row.value or 0.0) for row in rows if row.front)
    if len(front) > 1:
        axes.step(*zip(*front, strict=True), where="pre", color="black", linewidth=0.7,
                  linestyle=(0, (1, 1.5)), zorder=1)  # fmt: skip
        canvas.tell("front of the targets", color="black", linewidth=0.7, linestyle=(0, (1, 1.5)))
    canvas.tell_whiskers(rows)
    canvas.rise(axes)
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(UTILITIES[rows[0].utility_metric])
    axes.set_ylabel(f"{rows[0].quantity},\nmean over the questions")


def _each(cells: Sequence[Measured], quantity: Quantity) -> list[EstimateRow | None]:
    return [cell.rows.first(quantity=quantity) for cell in cells]


KINDS = (
    PaperFigure(
        "moments",
        "greedy, mean and mean + 2 sd (ED) by model: mean over the questions, and the worst",
        "Scholten et al. Table 1",
        "a run in which every question was sampled",
        moment_rows,
        draw_moments,
        "no model was sampled on every question",
    ),
    PaperFigure(
        "spread",
        "standard deviation of every question's scores by model, with bounds",
        "Scholten et al. Fig. 4a",
        "a run of fixed n",
        spread_rows,
        draw_spread,
        "no standard deviation was bounded: n was not fixed",
    ),
    PaperFigure(
        "utility",
        "mean leakage against utility, a point a model, with bounds",
        "Scholten et al. Fig. 5c",
        "runs of several models with --metrics",
        utility_rows,
        draw_utility,
        "no utility was measured of all (evaluate with --metrics all)",
    ),
)
