"""The chart of a comparison: how far every question moved from the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound.evaluation.views.compared import ModelMoves
from leakbound.plotting.material import Chart, Row, by, panels_of
from leakbound.plotting.style import BLACK, COLOURS, GREY

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

_PANEL = 1.2  # inches
_PENS = {"rose": (COLOURS[1], "^"), "fell": (COLOURS[0], "v"), "not shown": (GREY, "")}


def difference_rows(models: Sequence[ModelMoves]) -> list[Row]:
    """Return the difference at every question by model, those that fell most first."""
    rows = []
    for model in models:
        for move in sorted(model.each, key=lambda move: move.bound.value or 0.0):
            bound = move.bound.value, move.bound.lower, move.bound.upper
            rows.append(Row(model.label, move.moved, *bound, question=move.question))
        if (mean := model.mean) is not None:
            rows.append(Row(model.label, "mean", mean.value, mean.lower, mean.upper))
    return rows


def draw_differences(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a panel per model; colours and points mark the questions that are shown to differ."""
    for axes, _, mine in panels_of(canvas, rows, _PANEL):
        questions = [row for row in mine if row.quantity != "mean"]
        width = min(4.0, 0.6 * 72 * canvas.panel / len(questions))
        axes.axhline(0, color=BLACK, linewidth=0.6)
        for moved, own in by(questions, "quantity").items():
            at = [float(questions.index(row) + 1) for row in own]
            colour, mark = _PENS[moved]
            canvas.bars(axes, at, own, color=colour, linewidth=width)
            if mark:
                axes.plot(at, [row.value for row in own], linestyle="none", marker=mark,
                          color=colour, markersize=min(5.0, max(2.0, 2 * width)))  # fmt: skip
        ends = 0.5, len(questions) + 0.5
        for row in mine[len(questions) :]:
            axes.fill_between(ends, row.lower, row.upper, color=BLACK, alpha=0.12, lw=0)
            axes.plot(ends, [row.value] * 2, color=BLACK, linewidth=0.8, linestyle=(0, (5, 3)))
        axes.set_xlim(*ends)
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    for moved, (colour, mark) in _PENS.items():
        if any(row.quantity == moved for row in rows):
            canvas.tell(moved, color=colour, marker=mark, linewidth=2, markersize=4)
    if any(row.quantity == "mean" for row in rows):
        canvas.tell("mean", color=BLACK, linewidth=0.8, linestyle=(0, (5, 3)))
    canvas.label("question, sorted by difference", "difference from the baseline")


DIFFERENCES = Chart(
    "differences",
    "how far every question moved from the baseline, with bounds, those that fell most first",
    "",
    "a comparison of runs",
    "model question moved=quantity value lower upper",
    difference_rows,
    draw_differences,
)
