"""Figures over decodings: temperature and top-p."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakbound.evaluation.views.view import Model
from leakbound.plotting.material import DEVIATION, Material, PaperFigure, by, stated
from leakbound.plotting.style import styles
from leakbound.text.shown import above, below, number

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

Moment = Literal["mean", "standard deviation"]
_CELL, _NARROW, _WIDE = 0.42, 0.34, 0.8  # inches: a wide cell holds an interval in one line
_PANEL = 1.15
_ASIDE = 0.04  # of the axis: over which bounds at one setting are spread, so that all are seen
_DARK = 0.62  # of a heat map's scale: figures stay legible on it


@dataclass(frozen=True, slots=True)
class CellRow:
    """A decoding's mean over the questions, with bounds that hold for all its run's cells."""

    run: str
    quantity: str
    confidence: float
    temperature: float
    top_p: float
    value: float | None
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class KnobRow:
    """The mean over the questions under one decoding; an end is there where it is a bound.

    `line`: what the decodings of one line have in common. `at`: the temperature.
    """

    line: str
    moment: Moment
    quantity: str
    confidence: float
    at: float
    value: float | None
    lower: float | None
    upper: float | None


def cell_rows(material: Material) -> Iterator[CellRow]:
    """The mean, and leak@k where it is bounded, of each cell of every run with a whole grid."""
    for label, grid in material.view.grids:
        if grid.scorer != material.scorer.name:
            continue
        maps = {material.quantity: grid.leakage} | (
            {f"leak@{grid.k}": grid.leak_at_k} if grid.k else {}
        )
        for quantity, cells in maps.items():
            for (t, p), row in cells.items():
                yield CellRow(label, quantity, grid.confidence, t, p, *stated(row)[1:])


def draw_grid(rows: Sequence[CellRow], canvas: Canvas) -> None:
    """A map a run and quantity; each cell says its estimate and, below, its bounds."""
    maps = by(rows, "run", "quantity")
    heats = sorted({row.temperature for row in rows})
    tops = sorted({row.top_p for row in rows})
    across = max(1, min(len(maps), int(canvas.width / (_NARROW * len(tops) + 0.6))))
    panels = canvas.grid(len(maps), _CELL * len(heats) + 0.1, across=across, larger=False)
    names = []
    highest = max(row.value or 0.0 for row in rows) or 1.0
    several = len({run for run, _ in maps}) > 1
    for axes, ((run, quantity), own) in zip(panels, maps.items(), strict=True):
        mine = {(row.temperature, row.top_p): row for row in own}
        shown = [[mine[t, p].value or 0.0 if (t, p) in mine else 0.0 for p in tops] for t in heats]
        axes.pcolormesh(
            shown, cmap="Blues", vmin=0, vmax=highest / _DARK, edgecolors="white", linewidth=1
        )
        wide = _WIDE * len(tops) <= canvas.panel
        for (t, p), row in mine.items():
            x, y = tops.index(p) + 0.5, heats.index(t) + 0.5
            value = "" if row.value is None else number(row.value)
            size = 6.5 if wide else 5.2
            axes.text(x, y + 0.1, value, ha="center", va="bottom", fontsize=size)
            ends = f"{below(row.lower)}\n{above(row.upper)}"
            if wide:
                ends = f"[{below(row.lower)}, {above(row.upper)}]"
            axes.text(x, y + 0.04, ends, ha="center", va="top", fontsize=5.2, linespacing=1)
        axes.set_xticks([i + 0.5 for i in range(len(tops))], [f"{p:g}" for p in tops])
        axes.set_yticks([i + 0.5 for i in range(len(heats))], [f"{t:g}" for t in heats])
        axes.tick_params(length=0)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        named = f"{run}: {quantity}" if several else quantity
        names.append(f"{named}, mean over the questions")
    canvas.titles(panels, names)
    canvas.label("top-p", "temperature")


def temperature_rows(material: Material) -> list[KnobRow]:
    """Rows of every run with several temperatures, a line for each of its other settings."""
    lines: dict[tuple[str, bool, str], list[Model]] = {}
    for model in material.view.models:
        decoding = model.decoding
        if decoding.adaptive_temperature is None and "temperature" not in decoding.unknown:
            cut = f"top-p {decoding.top_p:g}" + (f", k {decoding.top_k}" if decoding.top_k else "")
            lines.setdefault((model.run, model.key.is_control, cut), []).append(model)
    named = {}
    for (run, is_control, cut), models in lines.items():
        if len({model.decoding.temperature for model in models}) > 1:
            named[f"{run} control" if is_control else run, cut] = models
    several = len({name for name, _ in named}) > 1
    rows = [
        row
        for (name, cut), models in named.items()
        for model in models
        for row in _knob(
            material, model, f"{name}, {cut}" if several else cut, model.decoding.temperature
        )
    ]
    return sorted(rows, key=_place)


def _place(row: KnobRow) -> tuple[str, str, float]:
    return row.line, row.moment, row.at


def _knob(material: Material, model: Model, line: str, at: float) -> Iterator[KnobRow]:
    """The mean over the questions of the scores, and of their deviations, with bounds."""
    mean = model.rows.leakage(material.scorer.name, scope="mean")
    if mean is not None:
        confidence, *ends = stated(mean)
        yield KnobRow(line, "mean", material.quantity, confidence, at, *ends)
    if spread := material.deviation(model):
        confidence, *moments = spread
        yield KnobRow(line, DEVIATION, DEVIATION, confidence, at, *moments)


def draw_knob(rows: Sequence[KnobRow], canvas: Canvas) -> None:
    """Mean above, deviation below; a line for what the decodings have in common."""
    moments, lines = by(rows, "moment"), list(by(rows, "line"))
    canvas.series = styles([(line, False) for line in lines])
    panels = canvas.panels(len(moments), height=_PANEL, sharey=False)
    beside = (max(row.at for row in rows) - min(row.at for row in rows)) * _ASIDE / len(lines)
    for axes, own in zip(panels, moments.values(), strict=True):
        for place, line in enumerate(lines):
            mine = by(own, "line").get(line, [])
            at = [row.at + beside * (place - (len(lines) - 1) / 2) for row in mine]
            canvas.line(axes, line, at, [row.value for row in mine])
            canvas.whiskers(axes, line, at, mine)
        axes.set_ylabel(canvas.folded(own[0].quantity, _PANEL))
        canvas.rise(axes)
        axes.margins(x=0.04)
    canvas.tell_whiskers(rows)
    panels[-1].set_xlabel("temperature T")


KINDS = (
    PaperFigure(
        "grid",
        "a heat map of temperature and top-p: mean leakage and leak@k, with joint bounds",
        "Leak@k, temperature and top-p grid",
        "a run with a grid of --temperature and --top-p",
        cell_rows,
        draw_grid,
        "no run has a grid of temperatures and top-p (lists of --temperature and --top-p)",
    ),
    PaperFigure(
        "temperature",
        "mean leakage and deviation against the softmax temperature",
        "Scholten et al. Fig. 4b",
        "a run with several --temperature",
        temperature_rows,
        draw_knob,
        "no run was sampled at several temperatures (a list of --temperature)",
    ),
)
