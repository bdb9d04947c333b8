"""A figure: what it shows, what it needs, the rows it is drawn from, and how."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leakbound.plotting.material import Material
from leakbound.text.shown import as_cell

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class PaperFigure(Generic[R]):
    """One of the figures.

    name: what it is called on the command line and on disk.
    shows: what it shows.
    paper: whose figure it is.
    needs: what must have been given.
    rows: what it is drawn from, frozen values of single numbers and texts; LackingError where
        something is not there.
    draw: draws them, and nothing else.
    """

    name: str
    shows: str
    paper: str
    needs: str
    rows: Callable[[Material], Sequence[R]]
    draw: Callable[[Sequence[R], Canvas], None]


def as_csv(rows: Sequence[Any]) -> str:
    """A line a row and a column a field; what is not known is empty, figures are as they are."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = [field.name for field in fields(rows[0])]
    writer.writerow(names)
    for row in rows:
        values = (getattr(row, name) for name in names)
        writer.writerow(["" if value is None else as_cell(value) for value in values])
    return stream.getvalue()
