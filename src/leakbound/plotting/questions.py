"""Charts of single questions, each with its greedy answer, and of one question's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from leakbound.plotting.material import Chart, LackingError, Material, Row, by, panels_of, stated
from leakbound.plotting.style import BLACK, GREY

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

BINS = 40
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST, HALF = "90 % of draws", "50 % of draws"
_PANEL, _LOW_PANEL = 0.9, 0.65  # inches: the height of one panel of several
_TICK = 0.32  # half the width of the mark at an estimate, where a question has 1


def question_rows(material: Material) -> Iterator[Row]:
    """Yield the questions of every target, the one that leaks least first."""
    for model in material.view.targets:
        control = material.view.control_of(model)
        mine = []
        for question in material.view.questions:
            cell = model.at(question.id, material.scorer)
            if cell is None:
                continue
            bounds = {material.quantity: cell.leakage}
            if control and (other := control.at(question.id, material.scorer)):
                bounds["control"] = other.leakage
            rows = [Row(model.label, name, *stated(bound), question=question.id)
                    for name, bound in bounds.items()]  # fmt: skip
            if cell.greedy is not None:
                rows.append(Row(model.label, "greedy", cell.greedy, question=question.id))
            mine.append(rows)
        for rows in sorted(mine, key=lambda rows: (rows[0].value or 0.0, rows[0].upper)):
            yield from rows


def draw_questions(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a panel per model: bars are bounds, hollow marks greedy answers, grey the control."""
    quantity = rows[0].quantity
    _ranked(rows, canvas, {"control": (2.0, 0.55), quantity: (1.0, 1.0)}, quantity)
    canvas.tell_bounds(rows, color=BLACK, linewidth=1.4)
    if any(row.quantity == "control" for row in rows):
        canvas.tell("control", color=GREY, alpha=0.55, linewidth=2.5)
    canvas.tell_hollow()
    canvas.label(f"question, sorted by {quantity}", quantity)


def answer_rows(material: Material) -> Iterator[Row]:
    """Yield the questions of every target by the mean of their scores."""
    if material.scorer.binary:
        raise LackingError(f"{material.binary_scores}; see `questions`")
    for model in material.view.targets:
        drawn = material.scores[model.label]
        for question in sorted(drawn, key=lambda q: (drawn[q].mean, q)):
            p5, p25, median, p75, p95 = drawn[question].quantiles(QUANTILES)
            yield Row(model.label, MOST, median, p5, p95, question=question)
            yield Row(model.label, HALF, median, p25, p75, question=question)
            yield Row(model.label, "mean", drawn[question].mean, question=question)
            cell = model.at(question, material.scorer)
            if cell and cell.greedy is not None:
                yield Row(model.label, "greedy", cell.greedy, question=question)


def draw_answers(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a panel per model; thin bars hold 90 % of a question's draws, thick ones half."""
    _ranked(rows, canvas, {MOST: (0.35, 1.0), HALF: (1.8, 0.45)}, "mean")
    canvas.tell(MOST, color=BLACK, linewidth=0.8)
    canvas.tell(HALF, color=BLACK, linewidth=4, alpha=0.45)
    canvas.tell("mean", color=BLACK, linestyle="none", marker="_", markersize=5, markeredgewidth=1)
    canvas.tell_hollow()
    canvas.label("question, sorted by mean score", "score")


def _ranked(
    rows: Sequence[Row], canvas: Canvas, bars: Mapping[str, tuple[float, float]], estimate: str
) -> None:
    """Draw a panel per model with its questions side by side.

    bars: the width and the opacity of the bounds, by quantity.
    estimate: the quantity whose values are marked.
    """
    for axes, model, mine in panels_of(canvas, rows, _PANEL):
        places = {question: float(i) for i, question in enumerate(by(mine, "question"), 1)}
        room = min(2.0, 0.45 * 72 * canvas.panel / len(places))
        groups = {name: ([places[row.question] for row in own], own)
                  for name, own in by(mine, "quantity").items()}  # fmt: skip
        for name, (width, alpha) in bars.items():
            colour = GREY if name == "control" else canvas.series[model].colour
            width = max(width * room, 0.3)
            canvas.bars(axes, *groups.get(name, ((), ())), color=colour, linewidth=width,
                        alpha=alpha, zorder=1 if name == "control" else 2)  # fmt: skip
        marks = [Row(model, "", None, at - _TICK, at + _TICK) for at in groups[estimate][0]]
        values = [row.value for row in groups[estimate][1]]
        known = [(value, mark) for value, mark in zip(values, marks, strict=True)
                 if value is not None]  # fmt: skip
        canvas.bars(axes, [value for value, _ in known], [mark for _, mark in known], across=True,
                    color=BLACK, linewidth=0.8, zorder=3)  # fmt: skip
        at, greedy = groups.get("greedy", ((), ()))
        size = 3.6 if len(places) <= 40 else 2.4 if len(places) <= 150 else 1.5
        canvas.hollow(axes, model, at, [row.value for row in greedy], size)
        axes.set_xlim(0.5, len(places) + 0.5)
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)


def bin_rows(material: Material) -> list[Row]:
    """Return the scores of one question by model: the fraction of draws in each bin."""
    if material.scorer.binary:
        raise LackingError(material.binary_scores)
    edges = [i / BINS for i in range(BINS + 1)]
    rows = []
    for model in material.view.models:
        drawn = material.scores[model.label].get(material.question)
        if drawn is None:
            continue
        for left, share in zip(edges, drawn.histogram(edges), strict=False):
            rows.append(Row(model.label, "draws", share, question=material.question, x=left))
        cell = model.at(material.question, material.scorer)
        for name, value in (("mean", drawn.mean), ("greedy", cell.greedy if cell else None)):
            if value is not None:
                rows.append(Row(model.label, name, value, question=material.question))
    if not rows:
        raise LackingError(f"{material.question!r} has no draws of the whole distribution")
    return rows


def draw_histogram(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a panel per model: draws as bars, their mean as a line, the greedy answer dashed."""
    ends = [row.value if row.x is None else row.x + 1 / BINS for row in rows if row.value]
    right = max(end for end in ends if end is not None)
    dashed = {"color": BLACK, "linewidth": 0.9, "linestyle": (0, (3, 2))}
    for axes, model, mine in panels_of(canvas, rows, _LOW_PANEL):
        bins = [row for row in mine if row.x is not None]
        shares = [row.value or 0.0 for row in bins]
        colour = canvas.series[model].colour
        axes.bar([row.x for row in bins], shares, 1 / BINS, align="edge", color=colour, alpha=0.75,
                 linewidth=0)  # fmt: skip
        for row in mine[len(bins) :]:
            if row.quantity == "mean":
                axes.axvline(row.value, color=BLACK, linewidth=0.9)
            else:
                axes.axvline(row.value, **dashed)
                canvas.hollow(axes, model, [row.value or 0.0], [1.08 * max(shares)])
        axes.set_xlim(-0.02 * right, 1.02 * right)
    canvas.tell("mean of the draws", color=BLACK, linewidth=0.9)
    canvas.tell_hollow("greedy", **dashed)
    canvas.label("score", "fraction of draws")


def tail_rows(material: Material) -> list[Row]:
    """Return Pr[X > x] of one question by model, for a scorer that is not binary."""
    rows = [
        Row(model.label, "Pr[X > x]", *stated(row), question=material.question, x=x)
        for model in material.view.models
        if (cell := model.at(material.question, material.scorer))
        for x, row in sorted(cell.by_parameter("tail").items())
    ]
    if not rows:
        raise LackingError(f"{material.binary_scores}, or there are none")
    return rows


def draw_tail(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw steps between the points, so that the band is valid there too: a tail never rises."""
    (axes,) = canvas.panels()
    for model, mine in by(rows, "model").items():
        x = [*(row.x or 0.0 for row in mine), 1.0]
        # between two points the tail is at most its upper end before, at least its lower end after
        edges = [at for at in x for _ in (0, 1)][1:-1]
        upper = [row.upper or 0.0 for row in mine for _ in (0, 1)]
        lower = [row.lower or 0.0 for row in mine[1:] for _ in (0, 1)] + [0.0, 0.0]
        canvas.band(axes, model, edges, list(zip(lower, upper, strict=True)))
        canvas.line(axes, model, x[:-1], [row.value for row in mine])
    canvas.tell_bounds(rows, ", all x simultaneously")
    axes.set_xlim(-0.02, 1.0)
    canvas.rise(axes)
    axes.set_xlabel("score x")
    axes.set_ylabel("Pr[X > x]")


_BOUNDED = "value lower upper confidence"
KINDS = (
    Chart(
        "questions",
        "every question's leakage with its bounds, sorted, with its greedy answer",
        "Scholten et al. Fig. 3a; Fig. 6 right",
        "a run with sampled answers",
        f"model question quantity {_BOUNDED}",
        question_rows,
        draw_questions,
        "no question of a sampled model has bounds",
    ),
    Chart(
        "histogram",
        "scores of one question's draws by model, the greedy answer marked",
        "Scholten et al. Fig. 3b, 3c; Fig. 6 left",
        "a scorer that is not binary",
        "model question quantity score=x value",
        bin_rows,
        draw_histogram,
    ),
    Chart(
        "tail",
        "Pr[X > x] of one question by model, with a band that is valid at all x",
        "Scholten et al. Fig. 3d",
        "a scorer that is not binary",
        f"model question x {_BOUNDED}",
        tail_rows,
        draw_tail,
    ),
    Chart(
        "answers",
        "every question's draws as quantiles, with its greedy answer",
        "Scholten et al. Fig. 6",
        "a scorer that is not binary",
        "model question quantity value lower upper",
        answer_rows,
        draw_answers,
        "no model has draws of the whole distribution with scores",
    ),
)
