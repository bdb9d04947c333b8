"""Functions that draw the rows of charts; they compute no numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from leakbound.plotting.canvas import HOLLOW, Canvas, places
from leakbound.plotting.material import ChartRow, by
from leakbound.plotting.rows import (
    BINS,
    CONTROL,
    DEVIATION,
    FRONT,
    GREEDY,
    HALF,
    MOST,
    NAIVE,
    PROVED,
    UTILITIES,
)
from leakbound.plotting.style import BLACK, COLOURS, DASHES, GREY, styles
from leakbound.text.shown import above, below, number

_PANEL, _LOW, _HIGH = 0.9, 0.65, 1.2  # inches: heights of a panel if there are several
_CELL, _NARROW, _WIDE = 0.42, 0.34, 0.8  # inches: a cell's height and its two widths
_DARK = 0.55  # the opacity of the darkest cell: figures stay legible on it
_TICK = 0.32  # half the width of an estimate's mark; a question has width 1
_ASIDE = 0.04  # fraction of an axis: the distance of bounds at one setting, so that all are visible
_SHOWN = 1e-3  # proofs of at most this are drawn on the axis
_POINTS = 160  # the largest number of points of a curve: longer curves are averaged
_DASHED: dict[str, Any] = {"color": BLACK, "linewidth": 0.9, "linestyle": (0, (3, 2))}
_DOTTED: dict[str, Any] = {"linewidth": 0.8, "linestyle": (0, (1, 1))}
_CAPPED: dict[str, Any] = {"linewidth": 0.7, "marker": "_", "markeredgewidth": 0.7}
_MOVED = {"rose": (COLOURS[1], "^"), "fell": (COLOURS[0], "v"), "not shown": (GREY, "")}
_TRAINED = {
    "entropy": "entropy of the\nnext token (nats)",
    "probability": "probability of the\ntrue next token",
}
Draw = Callable[[Sequence[ChartRow], Canvas], None]


def _panels(
    canvas: Canvas, rows: Sequence[ChartRow], height: float, field: str = "model"
) -> Iterator[tuple[Axes, str, list[ChartRow]]]:
    """Yield (panel, model, rows) for each model; then set the scales and names of the panels.

    `field`: the field of a row by which the rows are grouped.
    """
    groups = by(rows, field)
    panels = canvas.panels(len(groups), height)
    yield from ((axes, *group) for axes, group in zip(panels, groups.items(), strict=True))
    canvas.name(panels, list(groups))


def _ranked(
    rows: Sequence[ChartRow],
    canvas: Canvas,
    bars: Mapping[str, tuple[float, float]],
    label: str = "",
) -> None:
    """Draw a panel per model, with its questions side by side.

    `bars`: the width and the opacity of the bounds, by quantity. Short horizontal lines mark means;
    without means, they mark the estimates of the last quantity in `bars`.
    """
    for axes, model, mine in _panels(canvas, rows, _PANEL):
        place = {question: float(i) for i, question in enumerate(by(mine, "question"), 1)}
        room = min(2.0, 0.45 * 72 * canvas.panel / len(place))
        groups = {
            name: ([place[row.question] for row in own], own)
            for name, own in by(mine, "quantity").items()
        }
        for name, (width, alpha) in bars.items():
            colour = GREY if name == CONTROL else canvas.series[model].colour
            at, own = groups.get(name, ((), ()))
            how = {"color": colour, "alpha": alpha, "linewidth": max(width * room, 0.3)}
            canvas.bars(axes, at, own, zorder=1 if name == CONTROL else 2, **how)
        at, own = groups.get("mean", groups.get(name, ((), ())))
        canvas.ticks(axes, at, [row.value for row in own], _TICK)
        at, own = groups.get(GREEDY, ((), ()))
        size = 3.6 if len(place) <= 40 else 2.4 if len(place) <= 150 else 1.5
        canvas.hollow(axes, at, own, size)
        axes.set_xlim(0.5, len(place) + 0.5)
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    canvas.tell_bounds(rows, color=BLACK, linewidth=1.4)
    if any(row.quantity == GREEDY for row in rows):
        canvas.tell("greedy answer", **HOLLOW)
    canvas.label(f"question, sorted by {label or name}", label or name)


def _questions(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    if any(row.quantity == CONTROL for row in rows):
        canvas.tell(CONTROL, color=GREY, alpha=0.55, linewidth=2.5)
    _ranked(rows, canvas, {CONTROL: (2.0, 0.55), rows[0].quantity: (1.0, 1.0)})


def _answers(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    canvas.tell(MOST, color=BLACK, linewidth=0.8)
    canvas.tell(HALF, color=BLACK, linewidth=4, alpha=0.45)
    canvas.tell("mean", color=BLACK, linestyle="none", marker="_", markersize=5, markeredgewidth=1)
    _ranked(rows, canvas, {MOST: (0.35, 1.0), HALF: (1.8, 0.45)}, "mean score")


def _differences(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    """Draw the differences of questions, coloured by direction, and the mean difference."""
    for axes, _, mine in _panels(canvas, rows, _HIGH):
        questions = [row for row in mine if row.question]
        width = min(4.0, 0.6 * 72 * canvas.panel / len(questions))
        axes.axhline(0, color=BLACK, linewidth=0.6)
        for moved, own in by(questions, "quantity").items():
            at = [float(questions.index(row) + 1) for row in own]
            colour, mark = _MOVED[moved]
            canvas.bars(axes, at, own, color=colour, linewidth=width, alpha=0.5)
            how = {"color": colour, "marker": mark}
            size = min(5.0, max(2.0, 2 * width))
            values = [row.value for row in own]
            canvas.points(axes, at, values, linestyle="none", markersize=size, **how)
            canvas.tell(moved, linewidth=2, markersize=4, **how)
        ends = 0.5, len(questions) + 0.5
        for row in mine[len(questions) :]:
            lower, upper = row.lower or 0.0, row.upper or 0.0
            axes.fill_between(ends, lower, upper, color=BLACK, alpha=0.12, lw=0)
            canvas.points(axes, ends, [row.value] * 2, **_DASHED)
            canvas.tell("mean", **_DASHED)
        axes.set_xlim(*ends)
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    canvas.label("question, sorted by difference", "difference from the baseline")


def _histogram(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    """Draw a histogram of the draws, with lines at their mean and at the greedy answer."""
    ends = [row.value if row.x is None else row.x + 1 / BINS for row in rows if row.value]
    right = max(end for end in ends if end is not None)
    for axes, model, mine in _panels(canvas, rows, _LOW):
        bins = [row for row in mine if row.x is not None]
        shares = [row.value or 0.0 for row in bins]
        colour = canvas.series[model].colour
        how: dict[str, Any] = {"color": colour, "alpha": 0.75, "linewidth": 0}
        axes.bar(places(bins), shares, 1 / BINS, align="edge", **how)
        for row in mine[len(bins) :]:
            if row.quantity == GREEDY:
                axes.axvline(row.value or 0.0, **_DASHED)
                mark = replace(row, value=1.08 * max(shares))
                canvas.hollow(axes, [row.value or 0.0], [mark])
            else:
                axes.axvline(row.value or 0.0, color=BLACK, linewidth=0.9)
        axes.set_xlim(-0.02 * right, 1.02 * right)
    canvas.tell("mean of the draws", color=BLACK, linewidth=0.9)
    canvas.tell("greedy answer", **HOLLOW | _DASHED)
    canvas.label("score", "fraction of draws")


def _moments(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    """Draw each model's greedy score, its mean with bounds, and its ED with the upper bound."""
    models = list(by(rows, "model"))
    ed = next((row.quantity for row in rows if row.quantity.endswith("(ED)")), "ED")
    for axes, _, mine in _panels(canvas, rows, _HIGH, "group"):
        for row in mine:
            aside, mark = {GREEDY: (-0.24, ""), ed: (0.24, "D")}.get(row.quantity, (0.0, "o"))
            at, colour = [models.index(row.model) + aside], canvas.series[row.model].colour
            if row.quantity == GREEDY:
                canvas.hollow(axes, at, [row])
            else:
                canvas.bars(axes, at, [row], color=colour, **_CAPPED)
                canvas.points(axes, at, [row.value], marker=mark, color=colour, markersize=3)
            canvas.tell(row.model, color=colour, linewidth=2)
        axes.set_xticks([])
        axes.set_xlim(-0.6, len(models) - 0.4)
    quantity = next(row.quantity for row in rows if row.quantity not in (GREEDY, ed))
    canvas.tell("greedy answer", **HOLLOW)
    canvas.tell(quantity, color=BLACK, marker="o", linestyle="none", markersize=3)
    canvas.tell(ed, color=BLACK, marker="D", linestyle="none", markersize=3)
    canvas.tell_bounds(rows, color=BLACK, **_CAPPED)
    canvas.label("models", "score")


def _utility(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    """Draw models as points with bounds, and the targets' Pareto front as a dotted line."""
    (axes,) = canvas.panels()
    front = [row for row in rows if row.quantity == FRONT]
    points = [row for row in rows if row.quantity != FRONT]
    for row in points:
        pen, at = canvas.series[row.model], [row.x or 0.0]
        canvas.bars(axes, at, [row], color=pen.colour, **_CAPPED)
        how = {"linestyle": "none", "marker": pen.mark, "color": pen.colour, "markersize": 4.5}
        canvas.points(axes, at, [row.value], zorder=3, **how)
        canvas.tell(row.model, **how)
    if len(front) > 1:
        how, values = {"color": BLACK, **_DOTTED}, [row.value or 0.0 for row in front]
        axes.step(places(front), values, where="pre", zorder=1, **how)
        canvas.tell(FRONT, **how)
    canvas.tell_bounds(points, color=BLACK, **_CAPPED)
    canvas.rise(axes)
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(UTILITIES[rows[0].group])
    axes.set_ylabel(f"{rows[0].quantity},\nmean over the questions")


def _tail(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    """Draw tails with bands; bands are valid between points because a tail never increases."""
    (axes,) = canvas.panels()
    for mine in by(rows, "model").values():
        # between two points, the tail is between the right lower and the left upper one
        after = [*mine[1:], replace(mine[-1], x=1.0, lower=0.0)]
        steps = [
            replace(one, x=at.x, lower=other.lower)
            for one, other in zip(mine, after, strict=True)
            for at in (one, other)
        ]
        canvas.band(axes, steps)
        canvas.line(axes, mine)
    canvas.tell_bounds(rows, ", all x simultaneously")
    axes.set_xlim(-0.02, 1.0)
    canvas.rise(axes)
    axes.set_xlabel("score x")
    axes.set_ylabel("Pr[X > x]")


def _curves(
    rows: Sequence[ChartRow], canvas: Canvas, across: str, more: str = "", base: int = 2
) -> None:
    """Draw curves over a logarithmic axis, with one panel per group, below each other."""
    groups = by(rows, "group")
    panels = canvas.panels(len(groups), None if len(groups) == 1 else _HIGH, across=1)
    for axes, (group, own) in zip(panels, groups.items(), strict=True):
        for (model, quantity), mine in by(own, "model", "quantity").items():
            if quantity == NAIVE:
                canvas.hollow(axes, places(mine), mine, 5.4)
                canvas.tell(NAIVE, **HOLLOW)
            elif quantity != PROVED:
                canvas.band(axes, mine)
                known = any(row.value is not None for row in mine)  # else only bounds are known
                canvas.line(axes, mine, end="value" if known else "lower")
            elif max(row.lower or 0.0 for row in mine) > _SHOWN:
                lower, colour = [row.lower for row in mine], canvas.series[model].colour
                canvas.points(axes, places(mine), lower, zorder=2, color=colour, **_DOTTED)
                canvas.tell(PROVED, color=BLACK, **_DOTTED)
        name = group if group == own[0].quantity else f"{own[0].quantity}, {group}"
        axes.set_ylabel(canvas.folded(name, _HIGH))
        canvas.rise(axes)
        canvas.powers(axes, places(rows), base)
    canvas.tell_bounds(rows, more)
    panels[-1].set_xlabel(across)


def _grid(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    """Draw a heat map per run and quantity; each cell shows its estimate above its bounds."""
    maps = by(rows, "model", "quantity")
    heats = sorted({row.group for row in rows}, key=float)
    tops = sorted({row.x or 0.0 for row in rows})
    across = max(1, min(len(maps), int(canvas.width / (_NARROW * len(tops) + 0.6))))
    panels = canvas.panels(len(maps), _CELL * len(heats) + 0.1, across)
    highest = max(row.value or 0.0 for row in rows) or 1.0
    wide = _WIDE * len(tops) <= canvas.panel
    for axes, own in zip(panels, maps.values(), strict=True):
        for row in own:
            x, y = tops.index(row.x or 0.0) + 0.5, heats.index(row.group) + 0.5
            alpha = _DARK * (row.value or 0.0) / highest
            axes.bar(x, 0.96, 0.96, y - 0.48, color=COLOURS[0], linewidth=0, alpha=alpha)
            value = "" if row.value is None else number(row.value)
            axes.text(x, y + 0.1, value, ha="center", va="bottom", fontsize=6.5 if wide else 5.2)
            lower, upper = below(row.lower or 0.0), above(row.upper or 0.0)
            ends = f"[{lower}, {upper}]" if wide else f"{lower}\n{upper}"
            axes.text(x, y + 0.04, ends, ha="center", va="top", fontsize=5.2, linespacing=1)
        axes.set(xlim=(0, len(tops)), ylim=(0, len(heats)))
        axes.set_xticks([i + 0.5 for i in range(len(tops))], [f"{p:g}" for p in tops])
        axes.set_yticks([i + 0.5 for i in range(len(heats))], heats)
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
    several = len({run for run, _ in maps}) > 1
    names = [f"{run}: {quantity}" if several else quantity for run, quantity in maps]
    canvas.titles(panels, [f"{name}, mean over the questions" for name in names])
    canvas.label("top-p", "temperature")


def _temperature(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    """Draw the mean (top) and the deviation (below) by temperature, per model and truncation."""
    moments, lines = by(rows, "group"), list(by(rows, "model"))
    canvas.series = styles([(line, False) for line in lines])
    panels = canvas.panels(len(moments), _HIGH, across=1)
    settings = [row.x or 0.0 for row in rows]
    aside = (max(settings) - min(settings)) * _ASIDE / len(lines)
    for axes, (moment, own) in zip(panels, moments.items(), strict=True):
        for line, mine in by(own, "model").items():
            place = lines.index(line) - (len(lines) - 1) / 2
            at = [(row.x or 0.0) + aside * place for row in mine]
            canvas.line(axes, mine, at)
            canvas.bars(axes, at, mine, color=canvas.series[line].colour, **_CAPPED)
        axes.set_ylabel(canvas.folded(moment, _HIGH))
        canvas.rise(axes)
        axes.margins(x=0.04)
    canvas.tell_bounds(rows, color=BLACK, **_CAPPED)
    panels[-1].set_xlabel("temperature T")


def _confidence(rows: Sequence[ChartRow], canvas: Canvas) -> None:
    """Draw a panel per quantity and a line per split; average the points of long curves."""
    kinds, splits = by(rows, "quantity"), list(by(rows, "group"))
    panels = canvas.panels(len(kinds), _HIGH, across=1)
    for axes, (kind, own) in zip(panels, kinds.items(), strict=True):
        for (model, split), mine in by(own, "model", "group").items():
            pen, dash = canvas.series[model], DASHES[splits.index(split) % 3]
            size = math.ceil(len(mine) / _POINTS)
            parts = [mine[i : i + size] for i in range(0, len(mine), size)]
            x, y = (
                [math.fsum(getattr(row, of) for row in part) / len(part) for part in parts]
                for of in ("x", "value")
            )
            how: dict[str, Any] = {"color": pen.colour, "marker": pen.mark}
            line: dict[str, Any] = {"linestyle": dash, "linewidth": 0.9}
            axes.plot(x, y, markersize=2.6, markevery=max(1, len(x) // 6), **how, **line)
            canvas.tell(model, linestyle="none", **how)
            canvas.tell(f"{split} set", color=BLACK, **line)
        axes.set_ylabel(_TRAINED[kind])
        least = min(row.value or 0.0 for row in own)
        axes.set_ylim(bottom=math.floor(10 * least) / 10 if kind == "probability" else 0)
        axes.margins(x=0.02)
    panels[-1].locator_params(axis="x", integer=True, min_n_ticks=1)
    panels[-1].set_xlabel("training step")


PAINT: Mapping[str, Draw] = {
    "questions": _questions,
    "histogram": _histogram,
    "tail": _tail,
    "answers": _answers,
    "moments": _moments,
    "spread": partial(_ranked, bars={DEVIATION: (1.0, 1.0)}),
    "utility": _utility,
    "convergence": partial(_curves, across="draws n", more=", for each n separately"),
    "leak-at-k": partial(_curves, across="draws k", more=", all k simultaneously"),
    "naive": partial(_curves, across="draws k"),
    "far": partial(_curves, across="answers k", base=10),
    "grid": _grid,
    "temperature": _temperature,
    "confidence": _confidence,
    "differences": _differences,
}
"""The function that draws each chart, by the chart's name."""
