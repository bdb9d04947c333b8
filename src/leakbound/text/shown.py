"""What an object shows of itself in a shell and in a notebook: a heading and a few rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leakbound.text.plain import visible
from leakbound.text.svg import tag


def as_lines(heading: str, rows: Iterable[Sequence[str]]) -> str:
    """The heading, and a line a row."""
    return visible("\n".join([heading, *("  ".join(row) for row in rows)]))


def as_html(heading: str, rows: Iterable[Sequence[str]]) -> str:
    """The heading above a table, every text escaped."""
    lines = (tag("tr", *(tag("td", visible(cell), style=_CELL) for cell in row)) for row in rows)
    return str(tag("div", tag("strong", visible(heading)), tag("table", *lines)))


_CELL = "text-align: left; padding-right: 1em"
