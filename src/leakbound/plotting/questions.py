"""Figures of single questions: each beside its greedy answer, and what one of them looks like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbound.plotting.material import (
    LackingError,
    Material,
    PaperFigure,
    R,
    by,
    panels_of,
    stated,
)
from leakbound.plotting.style import GREY
from leakbound.stats import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakbound.plotting.canvas import Canvas

BINS = 40
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_PANEL, _LOW_PANEL = 0.9, 0.65  # inches: the height of one panel of several


@dataclass(frozen=True, slots=True)
class QuestionBar:
    """A question's leakage under a model, with its bounds, those of the control, and greedy."""

    model: str
    question: str
    quantity: str
    confidence: float
    value: float | None
    lower: float
    upper: float
    greedy: float | None
    control_lower: float | None
    control_upper: float | None


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """The scores of a question's draws: quantiles and mean, beside the greedy answer's."""

    model: str
    question: str
    draws: int
    p5: float
    p25: float
    median: float
    p75: float
    p95: float
    mean: float
    greedy: float | None


@dataclass(frozen=True, slots=True)
class BinRow:
    """The share of one question's draws whose score lies from `left` to `right`."""

    model: str
    question: str
    draws: int
    left: float
    right: float
    share: float
    mean: float
    greedy: float | None


@dataclass(frozen=True, slots=True)
class TailRow:
    """Pr[X > x] of one question, with bounds that hold at all these x at once."""

    model: str
    question: str
    confidence: float
    x: float
    value: float | None
    lower: float
    upper: float


def question_rows(material: Material) -> Iterator[QuestionBar]:
    """Questions of every target, from the one that leaks least to the one that leaks most."""
    for model in material.view.targets:
        control, mine = material.view.control_of(model), []
        for question in material.view.questions:
            cell = model.at(question.id, material.scorer)
            beside = control.at(question.id, material.scorer) if control else None
            if cell is None:
                continue
            named = (model.label, question.id, material.quantity, *stated(cell.leakage))
            low, high = (beside.leakage.lower, beside.leakage.upper) if beside else (None, None)
            mine.append(QuestionBar(*named, cell.greedy, low, high))
        yield from sorted(mine, key=lambda row: (row.value or 0.0, row.upper))


def draw_questions(rows: Sequence[QuestionBar], canvas: Canvas) -> None:
    """A panel a model; bars are bounds, hollow marks greedy answers, grey bars the control's."""
    for axes, model, mine, places in _ranked(rows, canvas):
        colour, width = canvas.series[model].colour, _bar_width(canvas, len(mine))
        beside = [
            (at, row.control_lower, row.control_upper)
            for at, row in zip(places, mine, strict=True)
            if row.control_lower is not None and row.control_upper is not None
        ]
        if beside:
            at, low, high = zip(*beside, strict=True)
            axes.vlines(at, low, high, color=GREY, alpha=0.55, linewidth=2 * width, zorder=1)
            canvas.tell("control", color=GREY, alpha=0.55, linewidth=2.5)
        lower, upper = [row.lower for row in mine], [row.upper for row in mine]
        axes.vlines(places, lower, upper, color=colour, linewidth=width, zorder=3)
        canvas.tell(f"{percent(rows[0].confidence)} bounds", color="black", linewidth=1.4)
        canvas.hollow(axes, model, places, [row.greedy for row in mine], _mark_size(len(mine)))
    canvas.tell_hollow()
    canvas.label(f"question, sorted by {rows[0].quantity}", rows[0].quantity)


def answer_rows(material: Material) -> Iterator[AnswerRow]:
    """Questions of every target by the mean of their scores."""
    if material.scorer.binary:
        raise LackingError(f"{binary_scores(material)}; see `questions`")
    for model in material.view.targets:
        mine = []
        for question, drawn in material.scores[model.label].items():
            cell = model.at(question, material.scorer)
            p5, p25, median, p75, p95 = drawn.quantiles(QUANTILES)
            greedy = cell.greedy if cell else None
            spread = (p5, p25, median, p75, p95, drawn.mean)
            mine.append(AnswerRow(model.label, question, drawn.n, *spread, greedy))
        yield from sorted(mine, key=lambda row: (row.mean, row.question))


def draw_answers(rows: Sequence[AnswerRow], canvas: Canvas) -> None:
    """A panel a model; thin bars hold 90 % of a question's draws, thick ones half of them."""
    for axes, model, mine, places in _ranked(rows, canvas):
        colour, width = canvas.series[model].colour, _bar_width(canvas, len(mine))
        thin, thick = max(0.35 * width, 0.3), 1.8 * width
        for low, high, wide, alpha in (("p5", "p95", thin, 1.0), ("p25", "p75", thick, 0.45)):
            ends = [[getattr(row, name) for row in mine] for name in (low, high)]
            axes.vlines(places, *ends, color=colour, linewidth=wide, alpha=alpha, zorder=2)
        axes.plot(
            places, [row.mean for row in mine], linestyle="none", marker="_", color="black",
            markersize=_mark_size(len(mine)) + 1, markeredgewidth=0.8, zorder=3,
        )  # fmt: skip
        canvas.hollow(axes, model, places, [row.greedy for row in mine], _mark_size(len(mine)))
    canvas.tell("90 % of draws", color="black", linewidth=0.8)
    canvas.tell("50 % of draws", color="black", linewidth=4, alpha=0.45)
    canvas.tell("mean", color="black", linestyle="none", marker="_", markersize=5)
    canvas.tell_hollow()
    canvas.label("question, sorted by mean score", "score")


def binary_scores(material: Material) -> str:
    """That a figure needs scores between 0 and 1, and which of the runs' scorers has some."""
    return f"scores by {material.scorer.name} are 0 or 1 (name another scorer with --scorer)"


def bin_rows(material: Material) -> list[BinRow]:
    """One question of every model."""
    if material.scorer.binary:
        raise LackingError(binary_scores(material))
    edges = [i / BINS for i in range(BINS + 1)]
    rows = []
    for model in material.view.models:
        drawn = material.scores[model.label].get(material.question)
        cell = model.at(material.question, material.scorer)
        if drawn is None:
            continue
        marks = (drawn.mean, cell.greedy if cell else None)
        for left, right, share in zip(edges, edges[1:], drawn.histogram(edges), strict=False):
            rows.append(BinRow(model.label, material.question, drawn.n, left, right, share, *marks))
    if not rows:
        raise LackingError(f"{material.question!r} has no draws of the whole distribution")
    return rows


def draw_histogram(rows: Sequence[BinRow], canvas: Canvas) -> None:
    """A panel a model: draws as bars, their mean as a line, the greedy answer dashed."""
    right = max(max(row.mean, row.greedy or 0.0, row.right if row.share else 0.0) for row in rows)
    for axes, model, mine in panels_of(canvas, rows, _LOW_PANEL):
        colour = canvas.series[model].colour
        lefts, widths = [row.left for row in mine], [row.right - row.left for row in mine]
        shares = [row.share for row in mine]
        axes.bar(lefts, shares, widths, align="edge", color=colour, alpha=0.75, linewidth=0)
        axes.axvline(mine[0].mean, color="black", linewidth=0.9)
        if (greedy := mine[0].greedy) is not None:
            axes.axvline(greedy, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
            canvas.hollow(axes, model, [greedy], [1.08 * max(shares)])
        axes.set_xlim(-0.02 * right, 1.02 * right)
    canvas.tell("mean of the draws", color="black", linewidth=0.9)
    canvas.tell(
        "greedy", color="black", linewidth=0.9, linestyle=(0, (3, 2)), marker="o",
        markerfacecolor="none", markersize=3.6, markeredgewidth=0.7,
    )  # fmt: skip
    canvas.label("score", "share of draws")


def tail_rows(material: Material) -> list[TailRow]:
    """One question of every model; of a scorer that is not binary."""
    rows = []
    for model in material.view.models:
        cell = model.at(material.question, material.scorer)
        for x, row in sorted(cell.by_parameter("tail").items()) if cell else ():
            named = (model.label, material.question, row.confidence, x)
            rows.append(TailRow(*named, *stated(row)[1:]))
    if not rows:
        raise LackingError(f"{binary_scores(material)}, or there are none")
    return rows


def draw_tail(rows: Sequence[TailRow], canvas: Canvas) -> None:
    """Steps between the points, so that the band holds there too: a tail never rises."""
    (axes,) = canvas.panels()
    for model, mine in by(rows, "model").items():
        x = [*(row.x for row in mine), 1.0]
        # between two points the tail is at most its upper end before, at least its lower end after
        edges = [at for at in x for _ in (0, 1)][1:-1]
        upper = [row.upper for row in mine for _ in (0, 1)]
        lower = [low for row in mine[1:] for low in (row.lower, row.lower)] + [0.0, 0.0]
        canvas.band(axes, model, edges, lower, upper)
        canvas.line(axes, model, x[:-1], [row.value for row in mine])
    canvas.tell_bounds(f"{percent(rows[0].confidence)} bounds, all x at once")
    axes.set_xlim(-0.02, 1.0)
    canvas.rise(axes)
    axes.set_xlabel("score x")
    axes.set_ylabel("Pr[X > x]")


def _ranked(
    rows: Sequence[R], canvas: Canvas
) -> Iterator[tuple[Axes, str, Sequence[R], Sequence[float]]]:
    """A panel a model with its questions side by side: where to draw which of them."""
    for axes, model, mine in panels_of(canvas, rows, _PANEL):
        yield axes, model, mine, [float(i) for i in range(1, len(mine) + 1)]
        axes.set_xlim(0.5, len(mine) + 0.5)
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)


def _bar_width(canvas: Canvas, questions: int) -> float:
    """The width of a bar in points: half of what a question has."""
    return min(2.0, 0.45 * 72 * canvas.panel / questions)


def _mark_size(questions: int) -> float:
    return 3.6 if questions <= 40 else 2.4 if questions <= 150 else 1.5


KINDS = (
    PaperFigure(
        "questions",
        "every question's leakage with its bounds, sorted, beside its greedy answer",
        "Scholten et al. Fig. 3a; Fig. 6 right",
        "a run with sampled answers",
        question_rows,
        draw_questions,
        "no question of a sampled model has bounds",
    ),
    PaperFigure(
        "histogram",
        "scores of one question's draws by model, the greedy answer marked",
        "Scholten et al. Fig. 3b, 3c; Fig. 6 left",
        "a scorer that is not binary",
        bin_rows,
        draw_histogram,
    ),
    PaperFigure(
        "tail",
        "Pr[X > x] of one question by model, with a band that holds at all x",
        "Scholten et al. Fig. 3d",
        "a scorer that is not binary",
        tail_rows,
        draw_tail,
    ),
    PaperFigure(
        "answers",
        "every question's draws as quantiles, beside its greedy answer",
        "Scholten et al. Fig. 6",
        "a scorer that is not binary",
        answer_rows,
        draw_answers,
        "no model has draws of the whole distribution with scores",
    ),
)
