"""Tables for people: cells that are read as text and sorted as numbers; how a bound is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from leakbound.store import EstimateRow
from leakbound.text.figures import DASH, above, below, number

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure made of several estimates, with its ends; `value` None where none is known."""

    value: float | None
    lower: float
    upper: float


Bound = EstimateRow | Interval
"""A point estimate with its ends."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one cell of a table says.

    text: as it is read.
    value: what the text rounds.
    anchor: what it leads to, on a page.
    prose: whether it is to be read from the left, in lines.
    """

    text: str
    value: float | None = None
    anchor: str | None = None
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; the first cell of a row names it.

    title: what it shows.
    columns: what stands above each column.
    rows: a cell a column each.
    note: what is to be said after it, in lines.
    lead: what is to be said before it, in lines.
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
        rows: Iterable[Sequence[str]],
        note: str = "",
        *,
        prose: bool = False,
    ) -> Table:
        """A table of texts; `prose`: they are to be read from the left."""
        cells = tuple(tuple(Cell(text, prose=prose) for text in row) for row in rows)
        return cls(title, tuple(columns), cells, note)

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The rows as they are read."""
        return tuple(tuple(cell.text for cell in row) for row in self.rows)

    def only(self, *columns: str) -> Table:
        """The same with these columns alone, of those it has, in this order."""
        kept = [name for name in columns if name in self.columns]
        places = [self.columns.index(name) for name in kept]
        rows = tuple(tuple(row[i] for i in places) for row in self.rows)
        return replace(self, columns=tuple(kept), rows=rows)


def table_of(
    title: str, columns: Mapping[str, Callable[[T], Cell]], items: Iterable[T], note: str = ""
) -> Table:
    """A row for each item; each column says what stands above it and makes an item's cell."""
    rows = tuple(tuple(cell(item) for cell in columns.values()) for item in items)
    return Table(title, tuple(columns), rows, note)


def interval(bound: Bound | None, absent: str = DASH) -> str:
    """For a person: the value, and the ends rounded outwards; `absent` where nothing is known.

    Where a proof excludes the estimate, the nearer end stands in its place.
    """
    if bound is None:
        return absent
    return f"{number(nearest(bound))} [{below(bound.lower)}, {above(bound.upper)}]"


def nearest(bound: Bound) -> float | None:
    """The estimate, or the end next to it, as it is shown, where a proof excludes the estimate."""
    if bound.value is None:
        return None
    low, high = math.floor(bound.lower * 1000) / 1000, math.ceil(bound.upper * 1000) / 1000
    return min(max(bound.value, low), high)


def bound_cell(bound: Bound | None, absent: str = DASH) -> Cell:
    """As `interval`, sorted by the estimate."""
    return Cell(interval(bound, absent), bound.value if bound else None)


def number_cell(value: float | None) -> Cell:
    """A figure to three decimals."""
    return Cell(number(value), value)


def count_cell(count: int) -> Cell:
    """A whole number."""
    return Cell(f"{count:,}", count)
