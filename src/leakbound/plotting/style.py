"""Which model is drawn how: colours that colour-blind readers tell apart, marks and dashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal, TypeAlias

Format = Literal["pdf", "svg", "png"]
Dash: TypeAlias = str | tuple[int, tuple[float, ...]]

GREY = "#5f5f5f"  # a lighter one is the green and the purple of colour-blind readers
BAND = 0.22  # how opaque a band is
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "h", "<", ">")
DASHES: tuple[Dash, ...] = (
    "-", (0, (5.0, 1.5)), (0, (1.0, 1.2)), (0, (5.0, 1.5, 1.0, 1.5)), (0, (3.0, 1.0))
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stroke:
    """How one model is drawn."""

    colour: str
    mark: str
    dash: Dash


def styles(labels: Sequence[tuple[str, bool]]) -> dict[str, Stroke]:
    """By label, in this order; of each it is said whether it is a control, which are grey."""
    ways = zip(cycle(COLOURS), cycle(MARKS), cycle(DASHES), strict=False)
    dashes = cycle(reversed(DASHES))
    return {
        label: Stroke(GREY, "X", next(dashes)) if control else Stroke(*next(ways))
        for label, control in labels
    }
