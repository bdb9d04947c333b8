"""Tables of text for people, and how an interval is written."""

from __future__ import annotations

from dataclasses import dataclass

from leakbound.evaluation.statements.rows import Interval
from leakbound.text.figures import DASH, above, below, number


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table of text cells, first column names the row; `lead` is to be said before it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    lead: str = ""


def interval(bound: Interval | None) -> str:
    """For a person: the value, and the ends rounded outwards; a dash where nothing is known."""
    if bound is None:
        return DASH
    return f"{number(bound.value)} [{below(bound.lower)}, {above(bound.upper)}]"
