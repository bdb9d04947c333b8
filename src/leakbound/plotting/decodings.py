"""Charts over decodings: temperature and top-p."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from leakbound.evaluation.views.view import Model
from leakbound.plotting.material import DEVIATION, Chart, Material, Row, by, stated
from leakbound.plotting.style import BLACK, COLOURS, styles
from leakbound.text.shown import above, below, number

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

_CELL, _NARROW, _WIDE = 0.42, 0.34, 0.8  # inches: a wide cell has an interval in one line
_PANEL = 1.15
_ASIDE = 0.04  # of the axis: bounds at one setting are spread over it, so that all are seen
_DARK = 0.55  # the opacity of the darkest cell: figures stay legible on it


def cell_rows(material: Material) -> Iterator[Row]:
    """Yield the mean, and leak@k where it is bounded, of each cell of every run with a grid.

    The bounds are valid for all cells of a run simultaneously.
    """
    for label, grid in material.view.grids:
        if grid.scorer != material.scorer.name:
            continue
        maps = {material.quantity: grid.leakage} | (
            {f"leak@{grid.k}": grid.leak_at_k} if grid.k else {}
        )
        for name, cells in maps.items():
            for (t, p), row in cells.items():
                bounds = *stated(row)[:3], grid.confidence
                yield Row(label, name, *bounds, group=f"{t:g}", x=p)


def draw_grid(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a map per run and quantity; each cell has its estimate and, below, its bounds."""
    maps = by(rows, "model", "quantity")
    heats = sorted({row.group for row in rows}, key=float)
    tops = sorted({row.x or 0.0 for row in rows})
    across = max(1, min(len(maps), int(canvas.width / (_NARROW * len(tops) + 0.6))))
    panels = canvas.grid(len(maps), _CELL * len(heats) + 0.1, across=across, larger=False)
    names = []
    highest = max(row.value or 0.0 for row in rows) or 1.0
    several = len({run for run, _ in maps}) > 1
    wide = _WIDE * len(tops) <= canvas.panel
    for axes, ((run, quantity), own) in zip(panels, maps.items(), strict=True):
        for row in own:
            x, y = tops.index(row.x or 0.0) + 0.5, heats.index(row.group) + 0.5
            axes.bar(x, 0.96, 0.96, y - 0.48, color=COLOURS[0], linewidth=0,
                     alpha=_DARK * (row.value or 0.0) / highest)  # fmt: skip
            value = "" if row.value is None else number(row.value)
            size = 6.5 if wide else 5.2
            axes.text(x, y + 0.1, value, ha="center", va="bottom", fontsize=size)
            lower, upper = below(row.lower or 0.0), above(row.upper or 0.0)
            ends = f"[{lower}, {upper}]" if wide else f"{lower}\n{upper}"
            axes.text(x, y + 0.04, ends, ha="center", va="top", fontsize=5.2, linespacing=1)
        axes.set_xlim(0, len(tops))
        axes.set_ylim(0, len(heats))
        axes.set_xticks([i + 0.5 for i in range(len(tops))], [f"{p:g}" for p in tops])
        axes.set_yticks([i + 0.5 for i in range(len(heats))], heats)
        axes.tick_params(length=0)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        named = f"{run}: {quantity}" if several else quantity
        names.append(f"{named}, mean over the questions")
    canvas.titles(panels, names)
    canvas.label("top-p", "temperature")


def temperature_rows(material: Material) -> list[Row]:
    """Return the means of every run with several temperatures, by its other settings."""
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
        for row in _knob(material, model, f"{name}, {cut}" if several else cut)
    ]
    return sorted(rows, key=lambda row: (row.group, row.model, row.x))


def _knob(material: Material, model: Model, line: str) -> Iterator[Row]:
    """Yield the mean over the questions of the scores, and of their deviations, with bounds."""
    at = model.decoding.temperature
    if mean := model.rows.leakage(material.scorer.name, scope="mean"):
        yield Row(line, material.quantity, *stated(mean), group="mean", x=at)
    if spread := material.deviation(model):
        yield Row(line, DEVIATION, *spread, group=DEVIATION, x=at)


def draw_knob(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw the mean above, the deviation below; a line for decodings that differ in nothing else."""
    moments, lines = by(rows, "group"), list(by(rows, "model"))
    canvas.series = styles([(line, False) for line in lines])
    panels = canvas.panels(len(moments), height=_PANEL, sharey=False)
    settings = [row.x or 0.0 for row in rows]
    aside = (max(settings) - min(settings)) * _ASIDE / len(lines)
    for axes, own in zip(panels, moments.values(), strict=True):
        for place, line in enumerate(lines):
            mine = by(own, "model").get(line, [])
            at = [(row.x or 0.0) + aside * (place - (len(lines) - 1) / 2) for row in mine]
            canvas.line(axes, line, at, [row.value for row in mine])
            canvas.bars(axes, at, mine, caps=True, color=canvas.series[line].colour, linewidth=0.7)
        axes.set_ylabel(canvas.folded(own[0].quantity, _PANEL))
        canvas.rise(axes)
        axes.margins(x=0.04)
    canvas.tell_bounds(rows, color=BLACK, linewidth=0.7, marker="_", markeredgewidth=0.7)
    panels[-1].set_xlabel("temperature T")


_BOUNDED = "value lower upper confidence"
KINDS = (
    Chart(
        "grid",
        "a heat map of temperature and top-p: mean leakage and leak@k, with joint bounds",
        "Leak@k, temperature and top-p grid",
        "a run with a grid of --temperature and --top-p",
        f"run=model quantity temperature=group top_p=x {_BOUNDED}",
        cell_rows,
        draw_grid,
        "no run has a grid of temperatures and top-p (lists of --temperature and --top-p)",
    ),
    Chart(
        "temperature",
        "mean leakage and deviation against the softmax temperature",
        "Scholten et al. Fig. 4b",
        "a run with several --temperature",
        f"line=model moment=group quantity temperature=x {_BOUNDED}",
        temperature_rows,
        draw_knob,
        "no run was sampled at several temperatures (a list of --temperature)",
    ),
)
