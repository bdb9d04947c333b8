"""The charts of pages, drawn by `plotting`; without matplotlib a page has only tables.

A chart is inline SVG, with a link to its rows as CSV.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from markupsafe import Markup

from leakbound.errors import InputError, needing
from leakbound.plotting.style import Stroke, class_of, styles
from leakbound.presenting.compared import Comparison
from leakbound.presenting.sentences import clipped
from leakbound.presenting.view import View
from leakbound.text.shown import visible
from leakbound.types import Scorer

if TYPE_CHECKING:
    from leakbound.plotting.material import Chart, ChartRow

COLUMN = (3.8, 1.0)
WIDE, ALONE, NARROW = (9.0, 1.6), (6.5, 1.0), (3.5, 1.0)
"""Sizes of charts: the width in inches, before a page scales it, and the factor of panel heights.

The first chart of a page is WIDE, or ALONE next to a single card. Phones show NARROW instead.
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption, and a data URL of its rows as CSV."""

    caption: str
    svg: Markup
    csv: Markup


def lacking() -> str:
    """Return why charts cannot be drawn, with the fix, or "" if they can be drawn."""
    try:
        with needing("drawing charts", "figures"):
            import leakbound.plotting.canvas  # noqa: F401
    except InputError as error:
        return str(error)
    return ""


def pen_classes(view: View) -> Mapping[str, str]:
    """Return the style sheet's class for the colour of each model, by label."""
    labels = [(model.label, model.is_control) for model in view.models]
    return {label: class_of(pen) for label, pen in styles(labels).items()}


def figures_of(
    view: View, name: str, caption: str, scorer: Scorer, *sizes: tuple[float, float]
) -> list[Figure]:
    """Return a list with one kind of chart under a caption; an empty list if it cannot be drawn."""
    if lacking():
        return []
    from leakbound.plotting import KINDS
    from leakbound.plotting.material import LackingError, Material

    material = Material(view, wanted_scorer=scorer.name)
    try:
        rows = KINDS[name].made(material)
    except LackingError:
        return []
    caption, pens = f"{caption} ({scorer.name})", styles(material.labels)
    return [_figure(KINDS[name], rows, pens, caption, *(sizes or (COLUMN,)))]


def difference_figures(comparison: Comparison, scorer: Scorer) -> list[Figure]:
    """Return a list with the chart of all differences from the baseline, with a panel per model."""
    if lacking():
        return []
    from leakbound.plotting.rows import DIFFERENCES

    rows = [
        replace(row, question=row.question and comparison.named(row.question))
        for row in DIFFERENCES.rows(comparison.differences(scorer))
    ]
    caption = f"difference from {comparison.baseline}, by question"
    return [_figure(DIFFERENCES, rows, {}, caption, WIDE, NARROW)]


def _figure(
    chart: Chart,
    rows: Sequence[ChartRow],
    pens: Mapping[str, Stroke],
    caption: str,
    *sizes: tuple[float, float],
) -> Figure:
    """Return a chart for a page, drawn once per size; phones show the last size."""
    from leakbound.plotting.inline import inline

    title = visible(clipped(caption))
    svg = "".join(inline(chart, rows, pens, size, title) for size in sizes)
    csv = chart.csv(rows, lambda text: visible(clipped(text)))
    address = f"data:text/csv;charset=utf-8,{quote(csv, safe=',:.')}"
    return Figure(caption, Markup(svg), Markup(address))  # both escaped by their makers
