"""Tables as Markdown and as LaTeX; flat rows as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence

from leakbound.evaluation.views.table import Table
from leakbound.text.shown import as_cell, visible
from leakbound.types import Json

_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "≤": r"$\le$", "≥": r"$\ge$", "−": "$-$", "–": "--", "…": r"\dots{}",
})  # fmt: skip
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_|<>[]#"})


def markdown(tables: Sequence[Table], opening: str = "") -> str:
    """Tables in GitHub's Markdown, each under its title, with its notes below.

    `opening`: what is said before all of them, in lines.
    """
    return "\n".join([*_said(opening, _MARKDOWN), *map(_markdown, tables)])


def latex(tables: Sequence[Table], opening: str = "") -> str:
    """Tables for LaTeX with the package booktabs: caption and label are made of each title.

    `opening`: what is said before all of them, in lines.
    """
    head = "% needs \\usepackage{booktabs}"
    return "\n".join([head, *_said(opening, _LATEX), *map(_latex, tables)])


def csv_of(rows: Sequence[Mapping[str, Json]]) -> str:
    """Flat rows with the same keys as CSV; nothing that is known is rounded.

    A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(_plain(cell).translate(_MARKDOWN) for cell in cells)} |"

    rule = "|".join(["", "---", *["---:"] * (len(table.columns) - 1), ""])
    said = [f"**{_plain(table.title).translate(_MARKDOWN)}**", ""]
    said += [*_said(table.lead, _MARKDOWN), line(table.columns), rule, *map(line, table.texts), ""]
    return "\n".join([*said, *_said(table.note, _MARKDOWN)])


def _latex(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"{' & '.join(_plain(cell).translate(_LATEX) for cell in cells)} \\\\"

    notes = [part for text in (table.lead, table.note) for part in _said(text, _LATEX) if part]
    return "\n".join([
        r"\begin{table}", r"\centering", rf"\caption{{{_plain(table.title).translate(_LATEX)}.}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9]+', '-', table.title.lower()).strip('-')}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule",
        line(table.columns), r"\midrule", *map(line, table.texts), r"\bottomrule",
        r"\end{tabular}", *(rf"\par\smallskip\footnotesize {note}" for note in notes),
        r"\end{table}", "",
    ])  # fmt: skip


def _said(text: str, escapes: Mapping[int, str]) -> list[str]:
    """The lines of a lead or a note, each a paragraph."""
    lines = [_plain(line).translate(dict(escapes)) for line in text.splitlines()]
    return [part for line in lines for part in (line, "")]


def _plain(text: str) -> str:
    """On one line, with nothing that a terminal or a page would obey."""
    return " ".join(visible(text).split())
