"""Tables, and functions that write them as Markdown, LaTeX and CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from leakbound.store import EstimateRow
from leakbound.text.rows import csv_of
from leakbound.text.shown import DASH, above, below, between, number, visible
from leakbound.types import Json

T = TypeVar("T")


def ends_of(bound: EstimateRow | float) -> tuple[float | None, float | None, float | None]:
    """Return value, lower bound and upper bound; None for a number that is not stated."""
    if isinstance(bound, float):
        return bound, None, None
    lower = None if bound.estimate.side == "upper" else bound.lower
    return bound.value, lower, None if bound.estimate.side == "lower" else bound.upper


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: the text of the cell.
        value: the number behind the text, unrounded; None for a text without a number.
        anchor: the anchor on a page to which the cell links.
        prose: whether the text is left-aligned and may have several lines.
    """

    text: str
    value: float | None = None
    anchor: str | None = None
    prose: bool = False


Shown: TypeAlias = Cell | EstimateRow | str | int | float | None
"""The types from which `cell_of` makes a cell."""


def cell_of(shown: Shown) -> Cell:
    """Return a cell. Bounds are rounded outwards; a number without bounds has three digits."""
    match shown:
        case Cell():
            return shown
        case str():
            return Cell(shown)
        case EstimateRow():
            return Cell(stated(shown), shown.value)
        case int():
            return Cell(f"{shown:,}", shown)
    return Cell(number(shown, digits=3), shown)


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a title; the first cell of each row is the heading of the row.

    Attributes:
        title: the title.
        columns: the headings.
        rows: the rows, each with one cell per column.
        note: the lines below the table.
        lead: the lines above the table.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    lead: str = ""

    @classmethod
    def plain(
        cls,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[Shown]],
        note: str = "",
        *,
        prose: bool = False,
    ) -> Table:
        """Return a table of these cells; `prose`: all cells are left-aligned."""
        cells = (tuple(map(cell_of, row)) for row in rows)
        if prose:
            cells = (tuple(replace(cell, prose=True) for cell in row) for row in cells)
        return cls(title, tuple(columns), tuple(cells), note)

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The texts of the cells of each row."""
        return tuple(tuple(cell.text for cell in row) for row in self.rows)

    def only(self, *columns: str) -> Table:
        """Return a table with only these columns, in this order; ignore unknown columns."""
        kept = [name for name in columns if name in self.columns]
        places = [self.columns.index(name) for name in kept]
        rows = tuple(tuple(row[i] for i in places) for row in self.rows)
        return replace(self, columns=tuple(kept), rows=rows)


def table_of(
    title: str, columns: Mapping[str, Callable[[T], Shown]], items: Iterable[T], note: str = ""
) -> Table:
    """Return a table with a row per item; `columns` maps each heading to a function of the item."""
    return Table.plain(
        title, tuple(columns), ([cell(item) for cell in columns.values()] for item in items), note
    )


def interval(bound: EstimateRow | None) -> str:
    """Return the value and the stated bounds, rounded outwards; a dash for None."""
    if bound is None:
        return DASH
    value, lower, upper = ends_of(bound)
    if lower is not None and upper is not None:
        return between(value, lower, upper)
    if lower is not None:
        return f"{number(value)} (≥ {below(lower)})"
    return number(value, digits=3) if upper is None else f"{number(value)} (≤ {above(upper)})"


def stated(row: EstimateRow) -> str:
    """Return a statement as text, as `interval` does; a count is shown in whole numbers.

    If there are too few draws to estimate leak@k, the text has only the bounds and n/k.
    """
    if row.scope == "count":
        value = DASH if row.value is None else f"{row.value:g}"
        both = row.estimate.side == "both"
        return f"{value} [{row.lower:g}, {row.upper:g}]" if both else f"{value} (≥ {row.lower:g})"
    if row.value is not None or not row.parameter:
        return interval(row)
    groups = row.n / (row.over if row.scope == "mean" and isinstance(row.over, int) else 1)
    bounds = interval(row).removeprefix(f"{DASH} ")
    return f"{bounds}, no estimate (too few draws: n/k = {groups / row.parameter:.3g})"


def lower_cell(row: EstimateRow | None) -> Cell:
    """Return a cell with only the lower bound; a dash for None."""
    return Cell(below(row.lower), row.lower) if row else Cell(DASH)


_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "≤": r"$\le$", "≥": r"$\ge$", "−": "$-$", "–": "--", "…": r"\dots{}",
})  # fmt: skip
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_|<>[]#"})


def markdown(tables: Sequence[Table], opening: str = "") -> str:
    """Return tables as GitHub Markdown, each with its title above and its note below.

    `opening`: the lines above the first table.
    """
    return "\n".join([*_paragraphs(opening, _MARKDOWN), *map(_markdown, tables)])


def latex(tables: Sequence[Table], opening: str = "") -> str:
    """Return tables as LaTeX (package booktabs), with captions and labels from the titles.

    `opening`: the lines above the first table.
    """
    head = "% needs \\usepackage{booktabs}"
    return "\n".join([head, *_paragraphs(opening, _LATEX), *map(_latex, tables)])


def written(
    form: str, tables: Iterable[Table], rows: Iterable[Mapping[str, Json]], opening: str = ""
) -> str:
    """Return the rows as CSV, or the tables as `markdown` or `latex` after the opening."""
    if form == "csv":
        return csv_of([*rows])
    return (latex if form == "latex" else markdown)([*tables], opening)


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(_plain(cell).translate(_MARKDOWN) for cell in cells)} |"

    rule = "|".join(["", "---", *["---:"] * (len(table.columns) - 1), ""])
    lines = [f"**{_plain(table.title).translate(_MARKDOWN)}**", ""]
    lines += [*_paragraphs(table.lead, _MARKDOWN), line(table.columns), rule]
    return "\n".join([*lines, *map(line, table.texts), "", *_paragraphs(table.note, _MARKDOWN)])


def _latex(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"{' & '.join(_plain(cell).translate(_LATEX) for cell in cells)} \\\\"

    notes = [*_paragraphs(table.lead, _LATEX), *_paragraphs(table.note, _LATEX)]
    return "\n".join([
        r"\begin{table}", r"\centering", rf"\caption{{{_plain(table.title).translate(_LATEX)}.}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9]+', '-', table.title.lower()).strip('-')}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule",
        line(table.columns), r"\midrule", *map(line, table.texts), r"\bottomrule",
        r"\end{tabular}", *(rf"\par\smallskip\footnotesize {note}" for note in filter(None, notes)),
        r"\end{table}", "",
    ])  # fmt: skip


def _paragraphs(text: str, escapes: Mapping[int, str]) -> list[str]:
    """Return the lines of a lead or a note, each followed by an empty line."""
    lines = [_plain(line).translate(dict(escapes)) for line in text.splitlines()]
    return [part for line in lines for part in (line, "")]


def _plain(text: str) -> str:
    """Return a text on one line without control characters."""
    return " ".join(visible(text).split())
